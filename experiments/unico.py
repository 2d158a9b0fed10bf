"""UNICO against its baselines on our measurements: the tables of its evaluation, by tiers, resumable.

    python experiments/unico.py ci                  # a minute: one network, one seed, all methods
    python experiments/unico.py small               # two networks, edge and cloud, three seeds, all methods
    python experiments/unico.py ablation            # halving and update rules, two networks, three seeds
    python experiments/unico.py enumerate           # a space that is enumerated: share of its true hypervolume

Every run is kept as a JSON file and not done again. All methods have as many mapping evaluations; distances are taken
on one min-max scale over all that was measured for a table (Table 1 and 2 of the paper), front -> the design nearest to
the ideal. The paper's direction stands beside each result.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import time

import jax
import numpy as np

from mohamjax import emo
from mohamjax.io.files import write_text
from mohamjax.text import table
from mohamjax.unico.choices import settings
from mohamjax.unico.config import METHODS
from mohamjax.unico.history import non_dominated
from mohamjax.unico.protocol import (
    REFERENCE,
    Axes,
    cost_to_reach,
    distance_to_ideal,
    hypervolume_difference,
    ratio_of_means,
    sign_test,
)
from mohamjax.unico.results import modelled_time
from mohamjax.unico.search import HardwareSearch, search_hardware
from mohamjax.unico.space import HardwareSpace, named_space
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape, load_scenario

WORKLOADS = pathlib.Path(__file__).resolve().parents[2] / "shared" / "workloads"
RESULTS = pathlib.Path(__file__).resolve().parent / "results"

TIERS = {
    "ci": {"networks": ["small"], "spaces": ["unico-edge"], "seeds": 1, "budget": "ci"},
    "small": {
        "networks": ["mobilenet_v1_224", "srgan_generator"],
        "spaces": ["unico-edge", "unico-cloud"],
        "seeds": 3,
        "budget": "small",
    },
}
ABLATIONS = {
    "none-champion": {"rationed": False, "rule": "champion"},
    "sh-champion": {"area_percent": 0, "rule": "champion"},
    "msh-champion": {"rule": "champion"},
    "msh-pareto": {"rule": "pareto"},
    "sh-uul": {"area_percent": 0},
    "msh-uul": {},
    "msh-uul-no-R": {"robust": False},
    "msh-uul-mesmo": {"acquisition": "mesmo"},
}


def small_application() -> ApplicationModel:
    """Four layers that take no time."""
    layers = (
        Layer("stem", "conv", "Conv", WorkloadShape(K=32, C=16, P=14, Q=14, R=3, S=3)),
        Layer("depth", "dwconv", "Conv", WorkloadShape(G=32, P=12, Q=12, R=3, S=3), predecessors=(0,)),
        Layer("wide", "conv", "Conv", WorkloadShape(K=64, C=32, P=12, Q=12), predecessors=(1,)),
        Layer("head", "fc", "Gemm", WorkloadShape(K=100, C=64), predecessors=(2,)),
    )
    return ApplicationModel("small", (Network("small", layers),))


def network(name: str) -> ApplicationModel:
    return small_application() if name == "small" else load_scenario(WORKLOADS / f"{name}.onnx")


def run(path: pathlib.Path, application: ApplicationModel, space: HardwareSpace, method: str, budget: str, **changes):
    """One run as a plain record, from its file where it was done before."""
    if path.exists():
        return json.loads(path.read_text())
    began, cpu = time.perf_counter(), time.process_time()
    config = settings(space, method, budget, **changes)
    result = search_hardware(HardwareSearch(application, space, config))
    history, modelled = result.history, modelled_time(result)
    record = {
        "method": method,
        "changes": changes,
        "objectives": history.objectives.tolist(),
        "within": history.within(config.power_cap_W).tolist(),
        "evaluations": result.evaluations.tolist(),
        "modelled": modelled[history["batch"]].tolist(),
        "generations": history["generations"].tolist(),
        "index": history["index"].tolist(),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(record))
    print(f"{path.name}: {len(history)} points, {record['seconds']:.0f} s", flush=True)
    return record


def rows_of(record) -> np.ndarray:
    return np.asarray(record["objectives"])[np.asarray(record["within"], bool)]


def curve(record, axes: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Evaluations and the least distance so far, at the end of every batch."""
    within = np.asarray(record["within"], bool)
    distance = np.where(within, distance_to_ideal(np.where(within[:, None], record["objectives"], 1), axes), np.inf)
    return np.asarray(record["evaluations"]), np.minimum.accumulate(distance)


def compare(runs: dict, names: list[str], cases: list, seeds: int, base: str) -> str:
    """Table of distances and costs, runs by (case, name, seed); `base` is what costs are compared with."""
    lines = []
    for log in (False, True):
        axes = Axes.of(np.concatenate([rows_of(r) for r in runs.values()]), log=log)
        body = [["method", "mean d", "HV difference", "evals to base's d / base's", "wins:losses (p)", "modelled", "s"]]
        reference = {
            case: np.concatenate([rows_of(runs[case, n, s]) for n in names for s in range(seeds)]) for case in cases
        }
        local = {case: Axes.of(rows, log=True) for case, rows in reference.items()}
        final = {n: [[curve(runs[c, n, s], axes)[1][-1] for c in cases] for s in range(seeds)] for n in names}
        for n in names:
            mean = np.mean(final[n])
            volume = np.median(
                [
                    hypervolume_difference(rows_of(runs[c, n, s]), reference[c], local[c])
                    for c in cases
                    for s in range(seeds)
                ]
            )
            shares = []
            for c in cases:
                for s in range(seeds):
                    cost, theirs = curve(runs[c, base, s], axes)
                    shares.append(
                        cost_to_reach(*curve(runs[c, n, s], axes), theirs[-1]) / cost_to_reach(cost, theirs, theirs[-1])
                    )
            test = sign_test(np.ravel(final[n]), np.ravel(final[base]))
            times = [runs[c, n, s] for c in cases for s in range(seeds)]
            modelled, seconds = (
                np.mean(x) for x in zip(*[(r["modelled"][-1], r["cpu_seconds"]) for r in times], strict=True)
            )
            pairs = f"{test.wins}:{test.losses} ({test.p:.2f})"
            numbers = [f"{mean:.4f}", f"{volume:.3f}", f"{np.median(shares):.2f}", pairs]
            body.append([n, *numbers, f"{modelled:.0f}", f"{seconds:.0f}"])
        axis = "logarithmic" if log else "linear"
        lines.append(f"Distance to the ideal on common {axis} min-max axes ({len(cases)} cases x {seeds} seeds):\n")
        lines.append("```\n" + table(body) + "\n```\n")
        if not log and "unico" in names:
            ratios = {n: ratio_of_means(np.mean(final["unico"], axis=0), np.mean(final[n], axis=0)) for n in names}
            lines.append(
                "Ratio of means, theirs over UNICO's: " + ", ".join(f"{n} {v:.2f}" for n, v in ratios.items()) + "\n"
            )
    return "\n".join(lines)


def tables(tier: str, seeds: int | None, folder: pathlib.Path, **given) -> str:
    sizes = {**TIERS[tier], **{name: value for name, value in given.items() if value}}
    number = seeds or sizes["seeds"]
    out = []
    for name in sizes["spaces"]:
        space, runs = named_space(name), {}
        for seed in range(number):
            for net in sizes["networks"]:
                app = network(net)
                for method in METHODS:
                    path = folder / f"{tier}-{name}-{net}-{method}-{seed}.json"
                    runs[net, method, seed] = run(path, app, space, method, sizes["budget"], seed=seed)
        out.append(f"## {name}, {', '.join(sizes['networks'])}\n")
        out.append(compare(runs, list(METHODS), list(sizes["networks"]), number, "hasco"))
        out.append(
            "Paper (ratios of means of d): HASCO 2.29 (edge), 1.34 (cloud); NSGA-II 2.35, 1.94; "
            "cost of HASCO over UNICO's 4.9 and 4.2.\n"
        )
    return "\n".join(out)


def ablation(seeds: int, folder: pathlib.Path) -> str:
    nets = TIERS["small"]["networks"]
    space, runs = named_space("unico-edge"), {}
    for seed in range(seeds):
        for net in nets:
            app = network(net)
            path = folder / f"small-unico-edge-{net}-hasco-{seed}.json"
            runs[net, "hasco", seed] = run(path, app, space, "hasco", "small", seed=seed)
            for name, changes in ABLATIONS.items():
                path = folder / f"ablation-{net}-{name}-{seed}.json"
                runs[net, name, seed] = run(path, app, space, "unico", "small", seed=seed, **changes)
    return compare(runs, ["hasco", *ABLATIONS], list(nets), seeds, "hasco")


def enumerable() -> HardwareSpace:
    """432 points of `unico-ci`."""
    base = named_space("unico-ci")
    kept = {"bus_bits": (16,), "burst_words": (8,)}
    axes = tuple(dataclasses.replace(a, values=kept.get(a.name, a.values)) for a in base.axes)
    names = [a.name for a in base.axes]
    structural = [a for a in base.axes if not a.sets]
    digits = np.stack(np.unravel_index(np.arange(len(base.variants)), [len(a.values) for a in structural]), axis=1)
    use = [
        all(a.values[d] in axes[names.index(a.name)].values for a, d in zip(structural, row, strict=True))
        for row in digits
    ]
    return HardwareSpace("unico-432", axes, tuple(v for v, u in zip(base.variants, use, strict=True) if u))


def enumeration(seeds: int, folder: pathlib.Path) -> str:
    """Share of the true hypervolume at 15 % of the exhaustive cost (all searches see the same mapping searches)."""
    space, app = enumerable(), small_application()
    sizes = {"lanes": 8, "first": 4, "rounds": 4, "mapping_seed": 0}
    path = folder / "enumerate-all.json"
    whole = run(path, app, space, "random", "ci", **sizes, iterations=2 * space.size, seed=0)
    assert len(set(whole["index"])) == space.size
    truth = np.asarray(whole["objectives"])
    axes = Axes.of(truth, log=True)
    corner = np.full(3, REFERENCE)

    def volume(rows: np.ndarray) -> float:
        return float(emo.hypervolume(emo.with_spare_rows(axes.scaled(rows[non_dominated(rows)])), corner))

    exhaustive = space.size * 32
    iterations = int(0.15 * exhaustive // (8 * 4 + 4 * 4 + 2 * 8 + 1 * 16))
    body = [["method", "median share of HV", "least", "greatest", "share of the cost"]]
    for method in ("unico", "random", "nsga2", "mobohb"):
        shares, costs = [], []
        for seed in range(seeds):
            path = folder / f"enumerate-{method}-{seed}.json"
            record = run(path, app, space, method, "ci", **sizes, iterations=iterations, seed=seed)
            shares.append(volume(np.asarray(record["objectives"])) / volume(truth))
            costs.append(sum(record["generations"]) / exhaustive)
        body.append([method, *(f"{f(shares):.4f}" for f in (np.median, np.min, np.max)), f"{np.mean(costs):.3f}"])
    front = len(non_dominated(truth))
    note = (
        "The truth is every point at the full budget under one key of the mapping searches; a share above 1 comes from "
        "mappings met\non the way to it, of less power or more latency, that the end of the search gave up.\n"
    )
    return f"{space.size} points, {front} on the true front, {seeds} seeds.\n\n```\n{table(body)}\n```\n\n{note}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tier", choices=[*TIERS, "ablation", "enumerate"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--networks", nargs="+", help="in the place of the tier's")
    parser.add_argument("--spaces", nargs="+", help="likewise")
    parser.add_argument("--runs", type=pathlib.Path, default=RESULTS / "unico-runs", help="folder of the runs")
    arguments = parser.parse_args()
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    if cache is None:
        jax.config.update("jax_compilation_cache_dir", str(pathlib.Path.home() / ".cache" / "mohamjax" / "compiled"))
    if arguments.tier == "enumerate":
        text = enumeration(arguments.seeds or 10, arguments.runs)
    elif arguments.tier == "ablation":
        text = ablation(arguments.seeds or 3, arguments.runs)
    else:
        given = {"networks": arguments.networks, "spaces": arguments.spaces}
        text = tables(arguments.tier, arguments.seeds, arguments.runs, **given)
    target = RESULTS / f"unico_{arguments.tier}.md"
    write_text(target, f"# UNICO, tier {arguments.tier}\n\n{text}")
    print(text)


if __name__ == "__main__":
    main()
