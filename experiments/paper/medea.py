"""Exhibits of the MEDEA paper, and what it leaves open.

python experiments/paper/medea.py --list
python experiments/paper/medea.py all --tier small
"""

from __future__ import annotations

import dataclasses
import functools
import json

import jax
import numpy as np
from exhibits import Study, main
from medea_layers import network
from medea_mappers import mappers

from mohamjax import emo
from mohamjax.hardware import PackageParameters, load_technology, load_template
from mohamjax.mapper import (
    BaselineMapper,
    LayerMapper,
    MapperConfig,
    NetworkChoice,
    SieveConfig,
    mapper_preset,
    network_choices,
)
from mohamjax.mapper.hybrid import HybridConfig
from mohamjax.mapper.sieve import choose_sieved
from mohamjax.mapping import MappingTables
from mohamjax.plot import MappingSet, parallel_coordinates
from mohamjax.runtime.struct import take
from mohamjax.schedule import Setup
from mohamjax.workload import UniqueLayer, WorkloadShape

FIGURE4 = {
    "resnet50_3_14_256_256_1": UniqueLayer("conv", WorkloadShape(K=256, C=256, P=14, Q=14, R=3, S=3)),
    "vgg16_3_28_512_512_1": UniqueLayer("conv", WorkloadShape(K=512, C=512, P=28, Q=28, R=3, S=3)),
    "mobilenetv3_1_14_112_672_1": UniqueLayer("conv", WorkloadShape(K=672, C=112, P=14, Q=14)),
}
"""Layers of three networks, named as in the paper: network_R_P_C_K_stride. Only an image tells which layers it drew."""

TABLE2 = ("vgg16", "resnet50", "densenet201", "mobilenet_v3_large")
PAPER2 = {
    "vgg16": "A -87.39/+4.85/-5.52, B -87.21/-2.32/+11.02",
    "resnet50": "A -86.83/+6.99/-5.83, B -77.00/-2.54/-.25, C -57.47/-1.57/-9.18, D* -43.43/-15.22/-15.47",
    "densenet201": "A -81.49/-9.36/+4.04, B -82.44/-3.49/-.52, C -82.04/+25.52/-16.59, D* -50.47/-2.60/-19.55",
    "mobilenet_v3_large": "A -83.41/-14.91/-24.10, B -79.28/-23.30/-6.74, C* -66.95/-27.26/-24.85",
}
"""Table II: area / energy / latency in per cent against CoSA; * with CoSA's mappings injected."""

TEMPLATE = load_template("simba-medea")
TECHNOLOGY = load_technology()


def objectives(tables: MappingTables, u: int) -> np.ndarray:
    """Latency [cycles] with the bandwidth of the machine's DRAM, energy [pJ] and area [um^2] of a set, `[n, 3]`.

    The mapper's own latency ignores off-chip limits; Table I has 17.9 words per cycle each way.
    """
    count = int(tables.count[u, 0])
    values = np.array(tables.objectives[u, 0, :count], float)
    ports = TEMPLATE.levels[-1].bandwidth
    words = np.asarray(tables.offchip_words[u, 0, :count], float).sum(axis=1)  # read and written
    offchip = [np.ceil(words[:, k] / limit) for k, limit in enumerate(ports) if limit is not None]
    values[:, 0] = np.max([values[:, 0], *offchip], axis=0)
    return values


def _medea(study: Study) -> MapperConfig:
    """MEDEA as printed; small with `--tier ci`."""
    config = mapper_preset("medea").config or MapperConfig()
    return dataclasses.replace(config, population=16, generations=2) if study.tier == "ci" else config


def searched(study: Study, layers: list[UniqueLayer], seed: int, given: MappingTables | None = None) -> MappingTables:
    """MEDEA's sets for layers on the machine of Table I, with given mappings in the first population."""
    config = dataclasses.replace(_medea(study), block=2 if study.tier == "ci" else 16, threads=1)
    mapper = LayerMapper(layers, [TEMPLATE], TECHNOLOGY, config, rates=mapper_preset("medea").rates)
    start = {} if given is None else {(u, 0): [take(given.mapping, (u, 0, 0))] for u in range(len(layers))}
    return mapper.search(jax.random.key(seed), given=start)


def cosa(layers: list[UniqueLayer]) -> MappingTables:
    """CoSA-like mappings on the machine of Table I."""
    return BaselineMapper(layers, [TEMPLATE], TECHNOLOGY, "cosa").search(jax.random.key(0))[0]


def dominated(point: np.ndarray, front: np.ndarray) -> bool:
    """Whether any row is nowhere worse and somewhere better."""
    return bool(np.any((front <= point).all(axis=1) & (front < point).any(axis=1)))


# ---------------------------------------------------------------- Figure 4


def fig4(study: Study) -> None:
    """Figure 4: Pareto sets of three layers as parallel coordinates, with CoSA's mapping and hybrid search's."""
    names = study.pick([*FIGURE4][-1:], [*FIGURE4], [*FIGURE4])
    layers = [FIGURE4[name] for name in names]
    columns = ("seed", "sets", "cosa", "hybrid", "evaluations")
    kept = study.kept("fig4", columns, 1)

    def run(seed: int) -> dict[str, object]:
        tables = searched(study, layers, seed)
        settings = HybridConfig(victory=20, threads=2, chunk=8) if study.tier == "ci" else None
        hybrid = BaselineMapper(layers, [TEMPLATE], TECHNOLOGY, "hybrid", settings=settings)
        other, spent = hybrid.search(jax.random.key(seed))
        fixed = cosa(layers)
        fronts = []
        for u in range(len(layers)):
            rows = objectives(tables, u)
            rows = rows[emo.distinct_front(rows)]
            fronts.append([row.tolist() for row in rows[np.argsort(rows[:, 0], kind="stable")]])
        single = [[objectives(t, u)[0].tolist() for u in range(len(layers))] for t in (fixed, other)]
        return {
            "sets": json.dumps(fronts), "cosa": json.dumps(single[0]), "hybrid": json.dumps(single[1]),
            "evaluations": json.dumps(spent[:, 0].tolist()),
        }  # fmt: skip

    rows = [row for seed in range(study.seeds) if (row := kept.get(seed, run=lambda seed=seed: run(seed)))]
    if not rows:
        return
    scale = np.array([1e-9, 1e-12, 1e-6])
    sets, lines = [], []
    for u, name in enumerate(names):
        fronts = [np.array(json.loads(row["sets"])[u]) for row in rows]
        marks = {label: np.array(json.loads(rows[0][label])[u]) for label in ("cosa", "hybrid")}
        labels = {"cosa": "CoSA-like", "hybrid": "hybrid search"}
        own = {labels[label]: mark * scale for label, mark in marks.items()}
        sets.append(MappingSet(name, TEMPLATE.name, fronts[0] * scale, own))
        for label in marks:
            points = [np.array(json.loads(row[label])[u]) for row in rows]
            pairs = list(zip(points, fronts, strict=True))
            change = np.median([100 * (front.min(axis=0) / point - 1) for point, front in pairs], axis=0)
            better = np.median([int((front[:, 0] <= point[0]).sum()) for point, front in pairs])
            lines.append(
                (name, labels[label], f"{sum(dominated(p, f) for p, f in pairs)} of {len(pairs)}",
                 *(f"{x:+.1f} %" for x in change), f"{np.median([len(f) for f in fronts]):.0f}", f"{better:.0f}")
            )  # fmt: skip
    study.table(
        "fig4",
        "MEDEA, Figure 4: sets of three layers beside single mappings",
        ("layer", "mapper", "dominated by MEDEA's set", "best latency", "best energy", "best area", "set",
         "as fast or faster"),
        lines,
        f"MEDEA is run as printed on `{TEMPLATE.name}` (Table I) with {len(rows)} seeds; latency includes the "
        "DRAM's 17.9 words per cycle. `dominated by MEDEA's set` counts the seeds in which a mapping of the set is "
        "nowhere worse and somewhere better. Best values are changes from the single mapping to the best of the "
        "set, as medians over the seeds.",
    )  # fmt: skip
    title = "MEDEA, Figure 4: Pareto sets on Table I's machine, and single mappings"
    study.figure(parallel_coordinates(sets, title=title, latency="with DRAM"), "fig4")


# ---------------------------------------------------------------- Table II


def _against(total: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Per cent against CoSA of latency, energy and area."""
    return np.round(100 * (total / base - 1), 2)


def table2(study: Study) -> None:
    """Table II: sets of mappings for whole networks against CoSA's, with and without its mappings injected."""
    names = study.pick(("vgg16",), TABLE2, TABLE2)
    kept = study.kept("table2", ("network", "injected", "seed", "changes", "chiplet", "sizes", "layers"), 3)
    sieve = SieveConfig(proposals=study.pick(500, 20000, 20000))

    def run(name: str, injected: bool, seed: int) -> dict[str, object]:
        application = network(name)
        layers = list(application.unique_layers)
        fixed = cosa(layers)
        tables = searched(study, layers, seed, fixed if injected else None)
        times = np.bincount(application.unique_of_layer)
        single = np.stack([objectives(fixed, u)[0] for u in range(len(layers))])
        base = np.array([*(single[:, :2] * times[:, None]).sum(axis=0), single[:, 2].max()])
        sets = [objectives(tables, u) for u in range(len(layers))]
        most = max(map(len, sets))
        padded = np.full((len(sets), most, 3), np.inf)
        for u, rows in enumerate(sets):
            padded[u, : len(rows)] = rows
        count = np.array([len(rows) for rows in sets])
        _, total = choose_sieved(jax.random.key(seed), padded, count, times, sieve)
        setup = Setup(application, (TEMPLATE,), TECHNOLOGY, PackageParameters())
        merged = [network_choices(jax.random.key(seed), setup, each) for each in (tables, fixed)]
        own, other = (np.array([_values(choice) for one in part.values() for choice in one]) for part in merged)
        return {
            "changes": json.dumps([_against(row, base).tolist() for row in total]),
            "chiplet": json.dumps([_against(row, other[0]).tolist() for row in own]),
            "sizes": json.dumps(count.tolist()), "layers": len(application.unique_of_layer),
        }  # fmt: skip

    lines = []
    for name in names:
        for injected in (False, True):
            start = functools.partial(run, name, injected)
            every = [kept.get(name, injected, seed, run=functools.partial(start, seed)) for seed in range(study.seeds)]
            rows = [row for row in every if row]
            if rows:
                lines += _lines(name, injected, rows)
    if not lines:
        return
    study.table(
        "table2",
        "MEDEA, Table II: mappings of whole networks against CoSA's",
        ("network", "area is of", "set", "latency", "energy", "area", "all three better", "paper: area/energy/latency"),
        lines,
        f"The machine is `{TEMPLATE.name}`; MEDEA, its sieve and its random search are as printed. Networks with * "
        "have the CoSA-like mappings in the first population. Values are per cent against the CoSA-like mappings, "
        "for one set of the network: the fastest, the most frugal, the smallest, or the *even* one, whose worst "
        "change is best; they are medians over the seeds. `the largest layer` takes the area as printed. `a "
        "chiplet` takes that of a chiplet which holds all layers, with energy at its sizes and on-chip latency; "
        "our search chooses the set, from MEDEA's and from CoSA's mappings. `all three better` counts the seeds in "
        "which the even set improves latency, energy and area at once.",
    )  # fmt: skip


def _values(choice: NetworkChoice) -> tuple[float, float, float]:
    return choice.latency_cycles, choice.energy_pJ, choice.area_um2


def _lines(name: str, injected: bool, rows: list[dict[str, str]]) -> list[tuple[object, ...]]:
    """Lines of the table for one network, with or without injected mappings."""
    out = []
    for column, area in (("changes", "the largest layer"), ("chiplet", "a chiplet")):
        every = [np.array(json.loads(row[column])) for row in rows]
        even = [one[one.max(axis=1).argmin()] for one in every]
        picks = {
            "fastest": [one[one[:, 0].argmin()] for one in every],
            "most frugal": [one[one[:, 1].argmin()] for one in every],
            "smallest": [one[one[:, 2].argmin()] for one in every],
            "even": even,
        }
        won = sum(bool((one < 0).all()) for one in even)
        for label, chosen in picks.items():
            if column == "chiplet" and label != "even":
                continue
            change = np.median(chosen, axis=0)
            told = f"{won} of {len(rows)}" if label == "even" else ""
            paper = PAPER2[name] if label == "fastest" and not injected else ""
            star = "*" if injected else ""
            out.append((f"{name}{star}", area, label, *(f"{x:+.2f} %" for x in change), told, paper))
    return out


# ---------------------------------------------------------------- P^L


def space(study: Study) -> None:
    """Section V-B: how many sets of mappings a network has to choose from, P^L, before and after the sieve."""
    names = study.pick(("vgg16",), TABLE2, TABLE2)
    kept = study.kept("table2", ("network", "injected", "seed", "changes", "chiplet", "sizes", "layers"), 3)
    lines = []
    for name in names:
        row = kept.get(name, False, 0)
        if row is None:
            continue
        sizes = np.array(json.loads(row["sizes"]))
        sieved = np.minimum(sizes, 2 * SieveConfig().best)
        paper = "10^32 (12 unique layers of 16, 100 mappings each)" if name == "vgg16" else ""
        lines.append(
            (name, row["layers"], len(sizes), f"{np.median(sizes):.0f} ({sizes.min()} to {sizes.max()})",
             f"10^{np.log10(sizes).sum():.0f}", f"up to 10^{np.log10(sieved).sum():.0f}", paper)
        )  # fmt: skip
    if not lines:
        print("space: run table2 first")
        return
    study.table(
        "space",
        "MEDEA, Section V-B: sets of mappings to choose from",
        ("network", "layers", "unique layers", "mappings of a layer", "sets", "after the sieve", "paper"),
        lines,
        "Sizes are those of the Pareto sets of MEDEA as printed on Table I's machine, from the runs of `table2`. "
        "Layers of equal shape share a mapping, so that the number of sets is the product over the unique layers.",
    )  # fmt: skip


if __name__ == "__main__":
    main("medea", {"fig4": fig4, "table2": table2, "space": space, "mappers": mappers})
