"""The layer mapper against others on layers that no rate was chosen on: fronts, and best latency, energy and EDP.

Two unique layers of each of ten networks (four with `--tier full`) are dealt to the three packaged templates in turn.
All mappers search one map space without padding, except in the row `ours, padding`. Runs are compared at the
evaluations that our mapper spends, at its seconds, and at the printed budget where a paper has one.
"""

from __future__ import annotations

import dataclasses
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
from exhibits import Kept, Study
from medea_layers import UNTUNED, NamedLayer, chosen_layers
from moham_measures import median
from wilcoxon_tests import a12, signed_rank

from mohamjax import emo
from mohamjax.hardware import load_technology, load_templates
from mohamjax.mapper import BaselineMapper, LayerMapper, MapperConfig, mapper_preset
from mohamjax.mapper.gamma import GammaConfig
from mohamjax.mapper.hybrid import HybridConfig
from mohamjax.mapping import MappingTables

TEMPLATES = ("simba", "eyeriss", "shidiannao")
MEASURES = ("volume", "latency", "energy", "edp")
NAMES = ("hypervolume", "latency", "energy", "EDP")
_ROOM = 256  # rows that a front is padded to


@dataclasses.dataclass(frozen=True)
class Budget:
    """How much a run may do.

    Attributes:
        name: `evaluations`, `seconds` or `printed`.
        evaluations: mappings per problem; 0 for the printed budget of the method.
    """

    name: str
    evaluations: int


@dataclasses.dataclass
class Comparison:
    """Problems, and how a method is run on all of them.

    Attributes:
        layers: the problems' layers.
        tiny: sizes for `--tier ci`.
    """

    layers: list[NamedLayer]
    tiny: bool

    def __post_init__(self) -> None:
        self.templates = load_templates(TEMPLATES)
        self.technology = load_technology()
        self.owner = [i % len(TEMPLATES) for i in range(len(self.layers))]
        self.wanted = np.zeros((len(self.layers), len(TEMPLATES)), bool)
        self.wanted[range(len(self.layers)), self.owner] = True

    def fronts(self, name: str, budget: Budget, seed: int) -> tuple[list[np.ndarray], float, float]:
        """Objectives `[n, 3]` of each problem; mean evaluations and seconds of a problem, without compiling."""
        began = time.perf_counter()
        own = self._baseline if name.split()[0] in ("cosa", "gamma", "hybrid") else self._ours
        tables, evaluations, compiling = own(name, budget.evaluations, seed)
        seconds = time.perf_counter() - began - compiling
        objectives, count = np.asarray(tables.objectives), np.asarray(tables.count)
        rows = [objectives[u, t, : count[u, t]] for u, t in enumerate(self.owner)]
        return rows, evaluations / len(self.layers), seconds / len(self.layers)

    def _ours(self, name: str, evaluations: int, seed: int) -> tuple[MappingTables, float, float]:
        preset = mapper_preset(name if name.startswith("medea") else "default")
        config = preset.config or MapperConfig(padding=name == "ours, padding")
        if self.tiny:
            config = dataclasses.replace(config, population=16, immigrants=min(config.immigrants, 4), generations=2)
            config = dataclasses.replace(config, descent=min(config.descent, 2))
        config = dataclasses.replace(config, block=len(self.layers), threads=1)
        if evaluations:
            each = config.population + config.immigrants
            config = dataclasses.replace(config, generations=max(1, round(evaluations / each) - 1 - config.descent))
        last = []
        layers = [own.layer for own in self.layers]
        mapper = LayerMapper(layers, self.templates, self.technology, config, rates=preset.rates, progress=last.append)
        begin = time.perf_counter()
        if name not in _WARM:
            _WARM.add(name)
            short = dataclasses.replace(config, generations=1, descent=min(config.descent, 1))
            warm = dataclasses.replace(mapper, config=short, progress=None)
            warm.search(jax.random.key(10**6), wanted=self.wanted)
        compiling = time.perf_counter() - begin
        tables = mapper.search(jax.random.key(seed), wanted=self.wanted)
        return tables, last[-1].evaluations, compiling

    def _baseline(self, name: str, evaluations: int, seed: int) -> tuple[MappingTables, float, float]:
        method, *cost = name.split()
        settings = None
        if method == "gamma":
            settings = GammaConfig(population=20) if self.tiny else GammaConfig()
            if self.tiny or evaluations:
                born = settings.population - round(settings.elite * settings.population)
                settings = dataclasses.replace(settings, generations=max(1, round((evaluations or 40) / born) - 1))
        elif method == "hybrid":
            settings = HybridConfig(victory=20, threads=2, chunk=8) if self.tiny else HybridConfig()
            settings = dataclasses.replace(settings, evaluations=evaluations)
        tables = []
        spent, compiling = 0, 0.0
        for t, template in enumerate(self.templates):
            layers = [own.layer for own, owner in zip(self.layers, self.owner, strict=True) if owner == t]
            if not layers:
                continue
            mapper = BaselineMapper(
                layers, [template], self.technology, method, cost=cost[0] if cost else "edp", front=True,
                settings=settings, levels=max(len(one.levels) for one in self.templates),
            )  # fmt: skip
            short = settings
            if isinstance(settings, GammaConfig):
                short = dataclasses.replace(settings, generations=1)
            elif isinstance(settings, HybridConfig):
                short = dataclasses.replace(settings, evaluations=min(settings.evaluations, 1))
            if (method, short, t) not in _WARM:
                _WARM.add((method, short, t))
                warm, begin = dataclasses.replace(mapper, settings=short), time.perf_counter()
                warm.search(jax.random.key(10**6))
                compiling += time.perf_counter() - begin
            own, evaluated = mapper.search(jax.random.key(seed))
            tables.append((t, own))
            spent += int(evaluated.sum())
        return self._joined(tables), spent, compiling

    def _joined(self, tables: list[tuple[int, MappingTables]]) -> MappingTables:
        """Objectives and counts of the templates' tables at the places of the problems."""
        count = np.zeros(self.wanted.shape, np.int32)
        objectives = np.full((*self.wanted.shape, _ROOM, 3), np.inf)
        for t, table in tables:
            places = [u for u, owner in enumerate(self.owner) if owner == t]
            count[places, t] = table.count[:, 0]
            objectives[places, t, : table.objectives.shape[2]] = table.objectives[:, 0]
        return dataclasses.replace(tables[0][1], count=jnp.asarray(count), objectives=jnp.asarray(objectives))


_WARM: set[object] = set()
"""Methods that have run once, so that their programs are compiled and seconds are of later runs."""


def _volume(front: np.ndarray, reference: np.ndarray) -> float:
    """Hypervolume of log2 objectives below a reference, in double precision."""
    rows = np.full((max(_ROOM, len(front)), 3), np.inf)
    rows[: len(front)] = np.log2(front)
    with jax.enable_x64(True):
        return float(emo.hypervolume(rows, reference))


METHODS = (
    "ours", "ours, padding", "medea", "medea-released", "gamma edp", "gamma latency", "gamma energy", "hybrid edp",
    "hybrid latency", "hybrid energy", "cosa",
)  # fmt: skip


def _row(comparison: Comparison, references: list[list[float]], name: str, budget: Budget, seed: int):
    fronts, evaluations, seconds = comparison.fronts(name, budget, seed)
    pairs = zip(fronts, references, strict=True)
    best = [[*front[:, :2].min(axis=0).tolist(), float((front[:, 0] * front[:, 1]).min())] for front in fronts]
    return {
        "evaluations": round(evaluations), "seconds": f"{seconds:.4g}",
        "volume": json.dumps([float(f"{_volume(front, np.asarray(ref)):.5g}") for front, ref in pairs]),
        **{name: json.dumps([float(f"{own[k]:.6g}") for own in best]) for k, name in enumerate(MEASURES[1:])},
        "size": json.dumps([len(front) for front in fronts]),
    }  # fmt: skip


def _references(comparison: Comparison, kept: Kept) -> list[list[float]] | None:
    """Reference points of the hypervolume: log2 of twice the worst of each objective on a front of random mappings."""

    def run() -> dict[str, object]:
        rows, _, _ = comparison.fronts("hybrid edp", Budget("reference", 0), 10**5)
        return {"volume": json.dumps([(np.log2(front.max(axis=0)) + 1).round(4).tolist() for front in rows])}

    row = kept.get("reference", "", 0, run=run)
    return None if row is None else json.loads(row["volume"])


def mappers(study: Study) -> None:
    """Our mapper against CoSA-like, GAMMA-like, hybrid and MEDEA as printed, on layers of ten networks."""
    names = study.pick(UNTUNED[-2:], UNTUNED, UNTUNED)
    layers = [own for name in names for own in chosen_layers(name, study.pick(1, 2, 4))]
    comparison = Comparison(layers, study.tier == "ci")
    columns = ("method", "budget", "seed", "evaluations", "seconds", *MEASURES, "size")
    kept = study.kept("mappers", columns, 3)
    references = _references(comparison, kept)
    if references is None:
        return
    found: dict[tuple[str, str], list[dict[str, str]]] = {}

    def run(name: str, budget: Budget) -> list[dict[str, str]]:
        rows = []
        for seed in range(1 if name == "cosa" else study.seeds):
            row = kept.get(
                name, budget.name, seed, run=lambda seed=seed: _row(comparison, references, name, budget, seed)
            )
            rows += [row] if row else []
        if rows:
            found[name, budget.name] = rows
        return rows

    ours = run("ours", Budget("printed", 0))
    if not ours:
        return
    evaluations = round(np.mean([float(row["evaluations"]) for row in ours]))
    seconds = float(np.median([float(row["seconds"]) for row in ours]))
    few = ("medea", "gamma edp", "hybrid edp")
    if study.tier != "ci":
        run("ours, padding", Budget("printed", 0))
    run("cosa", Budget("printed", 0))
    for name in study.pick(few, METHODS[2:-1], METHODS[2:-1]):
        if name.split()[-1] in ("medea", "medea-released", "edp"):
            run(name, Budget("printed", 0))
        same = run(name, Budget("evaluations", evaluations))
        if same:
            took = float(np.median([float(row["seconds"]) for row in same]))
            run(name, Budget("seconds", max(200, round(evaluations * seconds / took))))
    _report(study, comparison, found)


def _report(study: Study, comparison: Comparison, found: dict[tuple[str, str], list[dict[str, str]]]) -> None:
    """Writes the tables: medians and quartiles over the seeds against the best that any run found, and tests."""
    values = {
        key: {m: np.array([json.loads(row[m]) for row in rows], float) for m in MEASURES} for key, rows in found.items()
    }  # [seeds, problems]
    best = {
        m: (np.max if m == "volume" else np.min)(
            np.stack([(np.max if m == "volume" else np.min)(own[m], axis=0) for own in values.values()]), axis=0
        )
        for m in MEASURES
    }
    middle = {key: {m: np.median(own[m], axis=0) for m in MEASURES} for key, own in values.items()}
    ours, others = middle["ours", "printed"], [key for key in values if key[0] != "ours"]
    tests = [(key, m) for key in others for m in MEASURES if len(comparison.layers) > 5]
    tested = signed_rank([_gap(middle[key][m], ours[m], m) for key, m in tests])
    p = {test: f"{value:.2g}" for test, value in zip(tests, tested, strict=True)}
    networks = len({own.name.split()[0] for own in comparison.layers})
    lines, pairs = [], []
    for key, own in values.items():
        shares = [
            np.mean(own["volume"] / best["volume"], axis=1),
            *(np.exp(np.mean(np.log(own[m] / best[m]), axis=1)) for m in MEASURES[1:]),
        ]
        rows = found[key]
        spent = np.median([float(row["evaluations"]) for row in rows])
        took = np.median([float(row["seconds"]) for row in rows])
        lines.append((*key, len(rows), f"{spent:,.0f}", f"{took:.3f}", *(median(share) for share in shares)))
        if key not in others:
            continue
        told = []
        for m in MEASURES:
            # Large hypervolumes are good, and small values of the others.
            better = np.less if m == "volume" else np.greater
            wins = int(better(middle[key][m], ours[m]).sum()), int(better(ours[m], middle[key][m]).sum())
            mine = values["ours", "printed"][m]
            effect = np.mean([a12(a, b) if m == "volume" else a12(b, a) for a, b in zip(mine.T, own[m].T, strict=True)])
            told += [f"{wins[0]} / {wins[1]}", f"{effect:.2f}", p.get((key, m), "")]
        pairs.append((*key, *told))
    study.table(
        "mappers",
        "The mapper against others, on layers that no rate was chosen on",
        ("mapper", "budget", "seeds", "evaluations", "seconds", "hypervolume", "latency", "energy", "EDP"),
        lines,
        f"The {len(comparison.layers)} problems are layers of {networks} networks dealt to {', '.join(TEMPLATES)}. "
        "Evaluations and seconds are per problem, without compiling. Hypervolume is that of the log2 of latency, "
        "energy and area, below twice the worst values of a front of random tilings. It and the best latency, "
        "energy and EDP of a front are divided by the best that any run found for the problem; values are means "
        "(hypervolume) or geometric means (the others) over the problems, as medians with quartiles over the seeds. "
        "Less than 1 is worse in the hypervolume, more than 1 in the others. The baselines minimise the objective "
        "after their names, and their front is of all that they evaluated. `printed` is our default, MEDEA's 15 x 120, "
        "GAMMA's 100 x 100, or the hybrid search's 500 mappings without success on each of 6 threads.",
    )
    study.table(
        "mappers_tests",
        "The mapper against others: tests",
        ("mapper", "budget", *(f"{name}: {what}" for name in NAMES for what in ("better / worse", "A12", "p"))),
        pairs,
        f"Our default mapper is compared with the rows of `mappers.md`, on {len(comparison.layers)} problems. `better "
        "/ worse` counts the problems in which the median of our seeds is better or worse. A12 is how often one of our "
        "seeds is better than one of the other mapper's on the same problem, a tie being half, as a mean over the "
        "problems. p is by Wilcoxon's signed-rank test of the problems' medians (of their logarithms but for the "
        "hypervolume), after Holm over all tests of this table.",
    )


def _gap(theirs: np.ndarray, ours: np.ndarray, measure: str) -> np.ndarray:
    """Differences of a measure between problems, of hypervolumes plainly and of other values on log axes."""
    return theirs - ours if measure == "volume" else np.log(theirs / ours)
