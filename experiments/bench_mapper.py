"""Measures the layer mapper: speed on a scenario, fronts against random search, and the extremes that it finds.

    python experiments/bench_mapper.py speed [--scenario data-center]
    python experiments/bench_mapper.py quality [--seeds 3] [--generations 15]
    python experiments/bench_mapper.py extremes

`speed` times `map_layers` on all unique layers of a scenario, compilation apart. `quality` compares operator rates
with each other and with random search from the same sampler at equal evaluations: hypervolume of the log-objectives
between the best values found by anyone and the worst of random search's fronts, as a share of what all fronts together
reach; median of the seeds. `extremes` prints the fastest, the most frugal and the smallest mapping of some layers
of ResNet50 and BERT. Everything goes to standard output as Markdown; `--json FILE` keeps the numbers.
"""

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import platform
import time

import jax
import numpy as np

from mohamjax import emo
from mohamjax.hardware import fits, load_technology, load_templates
from mohamjax.mapping.space import sample
from mohamjax.search import mapper
from mohamjax.search.mapper import MapperConfig, map_layers
from mohamjax.search.mapping_operators import PAPER_RATES, MapperRates
from mohamjax.workload import UniqueLayer, WorkloadShape, load_scenario

TECHNOLOGY = load_technology()
TEMPLATES = load_templates(["eyeriss", "simba", "shidiannao"])
LAYERS = {
    "ResNet50 3x3, 64": UniqueLayer("conv", WorkloadShape(K=64, C=64, P=56, Q=56, R=3, S=3)),
    "ResNet50 1x1, 64-256": UniqueLayer("conv", WorkloadShape(K=256, C=64, P=56, Q=56)),
    "ResNet50 3x3, 512": UniqueLayer("conv", WorkloadShape(K=512, C=512, P=7, Q=7, R=3, S=3)),
    "ResNet50 stem": UniqueLayer("conv", WorkloadShape(K=64, C=3, P=112, Q=112, R=7, S=7, stride=(2, 2))),
    "ResNet50 classifier": UniqueLayer("fc", WorkloadShape(N=1, K=1000, C=2048)),
    "BERT feed-forward": UniqueLayer("fc", WorkloadShape(N=384, K=1024, C=4096)),
    "BERT attention": UniqueLayer("bmm", WorkloadShape(G=16, N=384, K=384, C=64)),
}


def rates(**changed: float) -> MapperRates:
    return dataclasses.replace(MapperRates(), **{name: np.float32(value) for name, value in changed.items()})


RATES = {
    "default": MapperRates(),
    "MEDEA paper": PAPER_RATES,
    "MOHaM release": rates(random=0.4),
    "no crossover": rates(crossover=0),
    "no random mutation": rates(random=0),
    "no fill": rates(fill=0),
    "no parallelise": rates(parallelise=0),
}


def speed(scenario: str, config: MapperConfig) -> dict[str, object]:
    layers = load_scenario(scenario).unique_layers
    last = []
    begin = time.perf_counter()
    map_layers(jax.random.key(1), layers[:1], TEMPLATES, TECHNOLOGY, dataclasses.replace(config, generations=0))
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    map_layers(jax.random.key(0), layers, TEMPLATES, TECHNOLOGY, config, progress=last.append)
    seconds = time.perf_counter() - begin
    return {
        "scenario": scenario, "unique_layers": len(layers), "problems": last[-1].problems,
        "evaluations": last[-1].total, "first_call_s": first, "search_s": seconds,
        "evaluations_per_s": last[-1].total / seconds,
    }  # fmt: skip


def random_fronts(seed: int, layer: UniqueLayer, template: int, count: int, entries: int) -> np.ndarray:
    """Front of `count` random mappings, log2 of the objectives, thinned as the mapper's archive."""
    return np.asarray(
        _random(jax.random.key(seed), mapper.context(layer, TEMPLATES[template], TECHNOLOGY), count, entries)
    )


@functools.partial(jax.jit, static_argnames=("count", "entries"))
def _random(key, context, count, entries):
    genes = jax.vmap(sample, in_axes=(0, None))(jax.random.split(key, count), context.space)
    archive = emo.archive_init(entries, jax.tree.map(lambda leaf: leaf[0], genes), 3)
    return emo.archive_update(archive, genes, mapper.objectives(genes, context)).objectives


def finite(front: np.ndarray) -> np.ndarray:
    return front[np.isfinite(front).all(axis=1)]


def quality(seeds: int, config: MapperConfig) -> dict[str, dict[str, float]]:
    """Per method: share of the joint hypervolume, mean and worst over the problems, median over the seeds."""
    names, layers = list(LAYERS), list(LAYERS.values())
    problems = [
        (u, t) for u in range(len(layers)) for t in range(len(TEMPLATES)) if not fits(TEMPLATES[t], layers[u].type)
    ]
    config = dataclasses.replace(config, archive=128, entries=128)
    count = (config.generations + 1) * (config.population + config.immigrants)
    fronts: dict[str, list[dict[tuple[int, int], np.ndarray]]] = {
        "random search": [
            {(u, t): finite(random_fronts(1000 + s, layers[u], t, count, config.entries)) for u, t in problems}
            for s in range(seeds)
        ]
    }
    for name, operators in RATES.items():
        fronts[name] = []
        for seed in range(seeds):
            tables = map_layers(jax.random.key(seed), layers, TEMPLATES, TECHNOLOGY, config, rates=operators)
            fronts[name].append({p: np.log2(finite(tables.objectives[p])) for p in problems})
    shares: dict[str, list[float]] = {name: [] for name in fronts}
    for problem in problems:
        merged = np.concatenate([run[problem] for runs in fronts.values() for run in runs])
        ideal = merged.min(axis=0)
        reference = np.max([run[problem].max(axis=0) for run in fronts["random search"]], axis=0) + 0.1

        def volume(front: np.ndarray, ideal=ideal, reference=reference) -> float:
            return float(emo.hypervolume((front - ideal) / (reference - ideal), np.ones(3, np.float32)))

        joint = volume(merged[np.asarray(emo.non_dominated_rank(merged)) == 0])
        for name, runs in fronts.items():
            shares[name].append(float(np.median([volume(run[problem]) for run in runs])) / joint)
    worst = {name: int(np.argmin(values)) for name, values in shares.items()}
    return {
        name: {
            "mean": float(np.mean(values)),
            "worst": min(values),
            "worst_problem": f"{names[problems[worst[name]][0]]} on {TEMPLATES[problems[worst[name]][1]].name}",
        }
        for name, values in shares.items()
    }


def extremes(config: MapperConfig) -> list[dict[str, object]]:
    """MACs per cycle, pJ per MAC and mm^2 of the fastest, the most frugal and the smallest mapping."""
    layers = list(LAYERS.values())
    tables = map_layers(jax.random.key(0), layers, TEMPLATES, TECHNOLOGY, config)
    out = []
    for u, name in enumerate(LAYERS):
        for t, template in enumerate(TEMPLATES):
            front = finite(tables.objectives[u, t])
            row: dict[str, object] = {"layer": name, "template": template.name, "entries": len(front)}
            for label, column in (("fastest", 0), ("most frugal", 1), ("smallest", 2)):
                cycles, energy, area = (float(x) for x in front[front[:, column].argmin()])
                macs = layers[u].shape.macs
                row[label] = f"{macs / cycles:.1f} / {energy / macs:.2f} / {area / 1e6:.3f}"
            out.append(row)
    return out


def table(rows: list[dict[str, object]]) -> str:
    def cell(value: object) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    lines = ["| " + " | ".join(rows[0]) + " |", "|" + " --- |" * len(rows[0])]
    return "\n".join([*lines, *("| " + " | ".join(map(cell, row.values())) + " |" for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "quality", "extremes"))
    parser.add_argument("--scenario", default="data-center")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--generations", type=int, default=15)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    config = MapperConfig(generations=options.generations)
    if options.what == "speed":
        rows = [speed(options.scenario, config)]
    elif options.what == "quality":
        rows = [{"method": name, **values} for name, values in quality(options.seeds, config).items()]
    else:
        rows = extremes(config)
        print("Each cell: MACs per cycle / pJ per MAC / mm^2 of its minimal hardware\n")
    print(f"{platform.machine()}, {os.cpu_count()} cores, JAX {jax.__version__}, {config}\n")
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
