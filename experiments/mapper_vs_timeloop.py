"""The mapper against Timeloop's own, in the same map space, on machines that exist.

    python experiments/mapper_vs_timeloop.py REFERENCE [--seeds 3] [--one-axis]
        [--out experiments/results/mapper_vs_timeloop.md]

REFERENCE is the folder of the Timeloop reference data. Its `mapper_baselines.csv` holds the best mapping that
timeloop-mapper (random search under a short time limit: a weak baseline) found for 12 layers on three architectures, by
delay, energy and energy-delay product (EDP). Here one search per layer and architecture minimises all three at once, on
the same machines with their own energies and bandwidths. The map space follows the dataflows in the README of the data,
and every one of Timeloop's mappings is checked to lie in it. Our mappings are searched without link transfers between
neighbours and then evaluated with them, as Timeloop does, in double precision, by the model that reproduces its
samples.

Nothing is padded. Timeloop's mapper spreads a dimension over one axis of a level; ours may use both, but not with
`--one-axis`.

Ratios are Timeloop's best over ours: from 1 up, ours is at least as good. The numbers of mappings are those of all
three of Timeloop's searches and those of our one.
"""

import argparse
import csv
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from architecture_templates import template_of
from report import header

from mohamjax.hardware import Dataflow, LevelRule, Template, load_technology
from mohamjax.io.samples import read_architectures, read_samples
from mohamjax.mapper.config import MapperConfig
from mohamjax.mapper.layer_mapper import LayerMapper
from mohamjax.mapper.one_axis import over_one_axis
from mohamjax.mapping import Mapping, Sample, constraints, encode, map_space, predict
from mohamjax.workload import UniqueLayer

ALL = "GNKCPQRS"
METRICS = ("delay", "energy", "edp")

# Per architecture and level, innermost first: temporal loops, loops along X, loops along Y. Depthwise layers have G
# where others have K and C.
SPACES = {
    "eyeriss": [("K", "", ""), ("CR", "", ""), ("", "", ""), ("", "", "SCK"), (ALL, "QK", ""), (ALL, "", "")],
    "simba": [("PQ", "", ""), ("KPQ", "C", ""), ("CRS", "", ""), ("", "K", ""), ("GNKCPQ", "CK", "CK"), (ALL, "", "")],
    "shidiannao": [("CRS", "", ""), ("CRS", "", ""), ("NKCRS", "NKPQ", "NKPQ"), (ALL, "", ""), (ALL, "", "")],
}
DEPTHWISE = {
    "eyeriss": [("", "", ""), ("GR", "", ""), ("", "", ""), ("", "", "SG"), (ALL, "QG", ""), (ALL, "", "")],
    "simba": [("PQ", "", ""), ("PQ", "", ""), ("GRS", "", ""), ("", "S", ""), ("GNPQ", "G", "G"), (ALL, "", "")],
    "shidiannao": [("GRS", "", ""), ("GRS", "", ""), ("NGRS", "NGPQ", "NGPQ"), (ALL, "", ""), (ALL, "", "")],
}


def dataflow(types: tuple[str, ...], rows: list[tuple[str, str, str]]) -> Dataflow:
    return Dataflow(types, tuple(LevelRule(*(dict.fromkeys(letters) for letters in row)) for row in rows))


def rows_of(path: pathlib.Path) -> dict[tuple[str, str], dict[str, dict[str, str]]]:
    """Timeloop's results by (architecture, layer) and metric; runs that found nothing are left out."""
    out: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["best_cycles"]:
                out.setdefault((row["arch"], row["layer"]), {})[row["metric"]] = row
    return out


def inside(sample: Sample, template: Template, kind: str) -> None:
    """Raises an error unless a mapping lies in the map space."""
    machine = sample.architecture.machine
    levels = machine.level_mask.shape[0]
    space = map_space(sample.shape, constraints(template, kind, sample.shape, levels), machine, 64)
    encode(sample.mapping, space, item=sample.id)


def values(cycles: Any, energy: Any) -> dict[str, Any]:
    return {"delay": cycles, "energy": energy, "edp": cycles * energy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--one-axis", action="store_true", help="in the space that Timeloop's mapper searches")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    architectures = read_architectures(options.reference / "architectures.json")
    baselines = rows_of(options.reference / "mapper_baselines.csv")
    samples = {s.id: s for s in read_samples(options.reference / "samples_train.jsonl.gz", architectures)}
    templates = [
        template_of(architectures[name], [dataflow(("conv",), SPACES[name]), dataflow(("dwconv",), DEPTHWISE[name])])
        for name in SPACES
    ]
    layers: dict[str, UniqueLayer] = {}
    for (name, layer), metrics in baselines.items():
        for row in metrics.values():
            sample = samples[row["sample_id"]]
            kind = "dwconv" if sample.shape.G > 1 else "conv"
            layers[layer] = UniqueLayer(kind, sample.shape)
            inside(sample, templates[list(SPACES).index(name)], kind)
            assert not np.all(np.asarray(sample.mapping.spatial) > 1, axis=0).any(), "a dimension along both axes"

    config = MapperConfig(fixed=True, entries=64, block=18, padding=False)
    ratios: dict[tuple[str, str], dict[str, list[float]]] = {
        key: {metric: [] for metric in metrics} for key, metrics in baselines.items()
    }
    compile_s, search_s, evaluations = 0.0, [], 0
    for seed in range(options.seeds):
        seen: list[Any] = []
        began = time.perf_counter()
        unique = list(layers.values())

        def mapped(templates: Sequence[Template], seed: int = seed, unique: Any = unique, seen: Any = seen) -> Any:
            key = jax.random.key(seed)
            return LayerMapper(unique, templates, load_technology(), config, progress=seen.append).search(key)

        tables = over_one_axis(mapped, templates, unique, config.entries) if options.one_axis else mapped(templates)
        search_s.append(time.perf_counter() - began - seen[-1].compile_s)
        compile_s, evaluations = max(compile_s, seen[-1].compile_s), seen[-1].evaluations
        for (name, layer), metrics in baselines.items():
            u, t = list(layers).index(layer), list(SPACES).index(name)
            count = int(tables.count[u, t])
            found = [
                Sample(str(m), architectures[name], layers[layer].shape, nest(tables.mapping, (u, t, m)))
                for m in range(count)
            ]
            result, _ = predict(found)
            assert (result.reason == 0).all() and result.plausible.all()
            ours = values(result.cycles.total, result.energy.total)
            for metric, row in metrics.items():
                theirs = values(float(row["best_cycles"]), float(row["best_energy_pJ"]))[metric]
                ratios[name, layer][metric].append(float(theirs / ours[metric].min()))

    lines = [
        f"{header()}: {config}.",
        "",
        (__doc__ or "").split("\n\n", 2)[-1].strip(),
        "",
        "| layer | architecture | "
        + " | ".join(f"{metric}, median | worst" for metric in METRICS)
        + " | Timeloop [s] |",
        "| --- | --- |" + " ---: |" * 7,
    ]
    theirs_s = 0.0
    for (name, layer), metrics in sorted(ratios.items(), key=lambda item: (item[0][1], item[0][0])):
        cells = [
            f"{np.median(metrics[m]):.3f} | {min(metrics[m]):.3f}" if m in metrics else "nothing found | "
            for m in METRICS
        ]
        seconds = sum(float(row["wall_seconds"]) for row in baselines[name, layer].values())
        theirs_s += seconds
        lines.append(f"| {layer} | {name} | {' | '.join(cells)} | {seconds:.0f} |")
    every = np.array([min(v) for metrics in ratios.values() for v in metrics.values()])
    medians = {m: np.median([np.median(r[m]) for r in ratios.values() if m in r]) for m in METRICS}
    valid = sum(int(row["mappings_valid"]) for metrics in baselines.values() for row in metrics.values())
    lines += [
        "",
        f"{int((every >= 1 - 1e-9).sum())} of {len(every)} worst cases are at least as good as Timeloop's, the "
        f"smallest is {every.min():.3f}. Median ratios: "
        + ", ".join(f"{m} {v:.2f}" for m, v in medians.items())
        + f". Timeloop: {valid:,} valid mappings in {theirs_s:.0f} s; ours: {evaluations:,} evaluations in "
        f"{np.median(search_s):.0f} s, and {compile_s:.0f} s of compiling once (two cores of a shared server).",
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)


def nest(mappings: Mapping, at: tuple[int, int, int]) -> Mapping:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[at], mappings)


if __name__ == "__main__":
    main()
