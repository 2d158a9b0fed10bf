"""Measures the layer mapper: speed on a scenario, fronts against other methods, and the extremes that it finds.

    python experiments/bench_mapper.py speed [--scenario data-center]
    python experiments/bench_mapper.py quality [--seeds 10] [--out experiments/results/mapper.md]
    python experiments/bench_mapper.py extremes

`speed` times `LayerMapper` on all unique layers of a scenario, without compilation. `quality` compares methods at equal
evaluations: those of the mapper's default, which spends fewer where its descent ends early. It measures the hypervolume
of the log-objectives between the best values found by any method and the worst of random search's fronts, as a share of
what all fronts together reach, averages it over the problems for each seed, and gives median and quartiles over the
seeds. `extremes` prints the fastest, the most frugal and the smallest mapping of some layers of ResNet50 and BERT.
"""

import argparse
import dataclasses
import datetime
import functools
import os
import pathlib
import platform
import time

import jax
import jax.numpy as jnp
import numpy as np
from report import header

from mohamjax import emo
from mohamjax.emo import evolve
from mohamjax.emo.loop import Sizes
from mohamjax.hardware import load_technology, load_templates
from mohamjax.mapper import block_search
from mohamjax.mapper import problems as mapper_context
from mohamjax.mapper.config import PAPER_RATES, MapperConfig, MapperRates
from mohamjax.mapper.layer_mapper import LayerMapper
from mohamjax.mapping.space import sample
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


# Problems of `quality`: the layers dealt to the templates.
DEALT = [(name, t % len(TEMPLATES)) for t, name in enumerate(LAYERS)]


OPERATORS = {
    "crossover": "level crossover",
    "random": "random mutation",
    "fill": "bottom-up fill",
    "parallelise": "parallelising mutation",
}


def methods(default: MapperConfig) -> dict[str, tuple[MapperConfig, MapperRates]]:
    """The methods that `quality` compares, each with at most as many evaluations as the default."""
    bred = dataclasses.replace(default, generations=default.generations + default.descent, descent=0)
    off = {words: dataclasses.replace(MapperRates(), **{name: np.float32(0)}) for name, words in OPERATORS.items()}
    return {
        "default": (default, MapperRates()),
        "without descent": (bred, MapperRates()),
        "without descent, equal objectives may repeat": (dataclasses.replace(bred, distinct=False), MapperRates()),
        **{f"without descent and {words}": (bred, rates) for words, rates in off.items()},
        "our operators at the MEDEA paper's rates, equal objectives may repeat": (
            dataclasses.replace(bred, distinct=False),
            PAPER_RATES,
        ),
    }


def speed(scenario: str, config: MapperConfig) -> dict[str, object]:
    layers = load_scenario(scenario).unique_layers
    last = []
    begin = time.perf_counter()
    shortest = dataclasses.replace(config, generations=0, descent=1)
    LayerMapper(layers[:1], TEMPLATES, TECHNOLOGY, shortest).search(jax.random.key(1))
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    LayerMapper(layers, TEMPLATES, TECHNOLOGY, config, progress=last.append).search(jax.random.key(0))
    seconds = time.perf_counter() - begin
    return {
        "scenario": scenario, "unique_layers": len(layers), "problems": last[-1].problems,
        "evaluations": last[-1].evaluations, "first_call_s": first, "search_s": seconds - last[-1].compile_s,
        "evaluations_per_s": last[-1].evaluations / (seconds - last[-1].compile_s),
    }  # fmt: skip


def random_fronts(seed: int, layer: UniqueLayer, template: int, count: int, entries: int) -> np.ndarray:
    """Front of `count` random mappings in log2 of the objectives, thinned as the mapper thins its archive."""
    return np.asarray(
        _random(jax.random.key(seed), mapper_context.context(layer, TEMPLATES[template], TECHNOLOGY), count, entries)
    )


@functools.partial(jax.jit, static_argnames=("count", "entries"))
def _random(key, context, count, entries):
    genes = jax.vmap(sample, in_axes=(0, None))(jax.random.split(key, count), context.space)
    archive = emo.archive_init(entries, jax.tree.map(lambda leaf: leaf[0], genes), 3)
    return emo.archive_update(archive, genes, mapper_context.objectives(genes, context)).objectives


def finite(front: np.ndarray) -> np.ndarray:
    return front[np.isfinite(front).all(axis=1)]


def searched(seed: int, config: MapperConfig, operators: MapperRates) -> list[np.ndarray]:
    """Fronts of one seed, in the order of `DEALT`."""
    fronts: dict[str, np.ndarray] = {}
    for t, template in enumerate(TEMPLATES):
        names = [name for name, owner in DEALT if owner == t]
        layers = [LAYERS[name] for name in names]
        tables = LayerMapper(layers, [template], TECHNOLOGY, config, rates=operators).search(jax.random.key(seed))
        fronts |= {name: np.log2(finite(tables.objectives[u, 0])) for u, name in enumerate(names)}
    return [fronts[name] for name, _ in DEALT]


def last_populations(seeds: int, config: MapperConfig) -> list[list[np.ndarray]]:
    """Fronts of the last populations, without descent or archive, per seed in the order of `DEALT`."""
    generations = config.generations + config.descent + 1
    sizes = Sizes(config.population, config.immigrants, config.archive)
    search = block_search.mapping_search(sizes, config.distinct, jnp.dtype("float32")).search
    keys = jax.random.split(jax.random.key(0), seeds)
    columns = []
    for name, t in DEALT:
        problem = mapper_context.context(LAYERS[name], TEMPLATES[t], TECHNOLOGY)
        room = mapper_context.children_room([problem.space])

        @jax.jit
        def evolved(key, problem, room=room):
            state = search.init(key, space=problem.space)
            return evolve(
                state, search.first(state, space=problem.space), generations, most=generations, tell=search.tell,
                evaluate=lambda genes: mapper_context.objectives(genes, problem, max_children=room),
                ask=functools.partial(search.ask, space=problem.space, rates=MapperRates()),
            )[0]  # fmt: skip

        population = jax.device_get(jax.vmap(evolved, (0, None))(keys, problem))
        columns.append([finite(o[r == 0]) for o, r in zip(population.objectives, population.rank, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]


def quality(seeds: int, config: MapperConfig) -> list[dict[str, object]]:
    """Rows of a table: each method's share of the joint hypervolume."""
    # The deepest template sets the number of levels; one block per template, so that all share their programs.
    config = dataclasses.replace(config, entries=config.archive, block=-(-len(DEALT) // len(TEMPLATES)))
    fronts = {
        "random search": [
            [finite(random_fronts(1000 + s, LAYERS[n], t, config.evaluations, config.entries)) for n, t in DEALT]
            for s in range(seeds)
        ]
    }
    for name, (sizes, operators) in methods(config).items():
        fronts[name] = [searched(seed, sizes, operators) for seed in range(seeds)]
    fronts["without descent, the last population instead of an archive"] = last_populations(seeds, config)
    shares = {name: np.zeros((seeds, len(DEALT))) for name in fronts}
    for i in range(len(DEALT)):
        merged = np.concatenate([run[i] for runs in fronts.values() for run in runs])
        ideal = merged.min(axis=0)
        reference = np.max([run[i].max(axis=0) for run in fronts["random search"]], axis=0) + 0.1

        def volume(front: np.ndarray, ideal=ideal, reference=reference) -> float:
            return float(emo.hypervolume((front - ideal) / (reference - ideal), np.ones(3, np.float32)))

        joint = volume(merged[np.asarray(emo.non_dominated_rank(merged)) == 0])
        for name, runs in fronts.items():
            shares[name][:, i] = [volume(run[i]) / joint for run in runs]
    out = []
    for name, values in shares.items():
        low, middle, high = np.percentile(values.mean(axis=1), [25, 50, 75])
        per_problem = np.median(values, axis=0)
        worst = int(per_problem.argmin())
        out.append(
            {
                "method": name,
                "median": f"{middle:.2%}",
                "quartiles": f"{low:.2%} to {high:.2%}",
                "worst problem's median": f"{per_problem[worst]:.2%}",
                "which": f"{DEALT[worst][0]} on {TEMPLATES[DEALT[worst][1]].name}",
            }
        )
    return out


def extremes(config: MapperConfig) -> list[dict[str, object]]:
    """MACs per cycle, pJ per MAC and mm^2 of the fastest, the most frugal and the smallest mapping."""
    layers = list(LAYERS.values())
    tables = LayerMapper(layers, TEMPLATES, TECHNOLOGY, config).search(jax.random.key(0))
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
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=pathlib.Path, help="write the table there too")
    options = parser.parse_args()
    config = MapperConfig()
    if options.what == "speed":
        rows = [speed(options.scenario, config)]
    elif options.what == "quality":
        rows = quality(options.seeds, config)
    else:
        rows = extremes(config)
        print("Each cell: MACs per cycle / pJ per MAC / mm^2 of its minimal hardware\n")
    head = f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, JAX {jax.__version__}, {config}"
    if options.what == "quality":
        head += f", {options.seeds} seeds, {config.evaluations:,} evaluations per problem at most"
    text = f"{head}.\n\n{table(rows)}\n"
    print(text, end="")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(f"{header()}.\n\n{text}")


if __name__ == "__main__":
    main()
