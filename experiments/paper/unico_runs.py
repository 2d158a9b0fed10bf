"""Runs of hardware searches for `unico.py`: what is run, and a line of a CSV file for each as it ends.

A line holds all that tables and figures need: the rows of the search that no row of the same batch or an earlier one
dominates (their distances and hypervolumes are those of the whole search), when each was known, and the largest value
of every objective. A run is identified by budget, scenario, workload, variant and seed; it is done again if its
settings have changed since, and the last line of a key counts. Half a line, left by a stop, is dropped.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from exhibits import Lines

from mohamjax.dims import DIMS
from mohamjax.runtime.struct import plain
from mohamjax.unico.bracket import MappingSearch, measured
from mohamjax.unico.choices import settings
from mohamjax.unico.config import CodesignConfig, preset_changes
from mohamjax.unico.lanes import LaneConfig, lane_problem, wires_room
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.results import modelled_time
from mohamjax.unico.search import CodesignResult, HardwareSearch
from mohamjax.unico.space import HardwareSpace, named_space
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

LAYERS = pathlib.Path(__file__).resolve().parents[1] / "data" / "unico_layers.csv"

SINGLE = (
    "bert_base_128", "mobilenet_v1_224", "resnet50", "srgan_generator", "unet_572", "vit_b16", "xception_299",
)  # fmt: skip
"""Networks of Tables 1 and 2."""
TRAINED = ("mobilenet_v2", "resnet50", "srgan_generator", "vgg19_opset9")
"""Networks that Table 3 searches for (Section 4.2 and Appendix B.3)."""
UNSEEN = (
    "unet_572", "vit_b16", "xception_299", "mobilenet_v3_large", "mobilenet_v3_small", "convnext_base",
    "efficientnet_v2_s", "nasnet_mobile",
)  # fmt: skip
"""Networks that Table 3 holds out."""
ABLATED = ("unet_572", "srgan_generator", "bert_base_128", "vit_b16")
"""Networks of the ablation, all on one accelerator (Appendix B.1)."""

SCENARIOS: dict[str, tuple[str, dict[str, Any]]] = {
    "edge": ("unico-edge", {}),
    "cloud": ("unico-cloud", {}),
    "edge-0.4W": ("unico-edge", {"power_cap_W": 0.4}),
    "edge-fit": ("unico-edge", {"ppa": "unico-fit"}),
    "ci": ("unico-ci", {}),
}
"""Spaces with their limits on power: 2 W and 20 W, which our powers never reach; 0.4 W, which about as many points keep
as keep 2 W in the paper's setting; and 2 W with power and area fitted to the paper's."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("unico", "hasco", "hasco-r", "nsga2", "mobohb", "random")},
    "unico-printed": ("unico", preset_changes("unico", "unico")),
    "hasco-latency": ("hasco", preset_changes("unico", "hasco")),
    "hasco-aimed": ("hasco", preset_changes("same-extras", "hasco")),
    "mobohb-extras": ("mobohb", preset_changes("same-extras", "mobohb")),
    "unico-no-R": ("unico", {"robust": False}),
    "unico-mesmo": ("unico", {"acquisition": "mesmo"}),
    "unico-even": ("unico", {"aimed": 0.0}),
    "unico-end": ("unico", {"finishing": "end", "aimed": 0.0}),
    "unico-expected": ("unico", {"extrapolate": True, "aimed": 0.0}),
    **{
        f"{halving}-{rule}": ("unico", {**changes, "rule": rule})
        for halving, changes in (("none", {"rationed": False}), ("sh", {"area_percent": 0}), ("msh", {}))
        for rule in ("champion", "pareto", "uul")
        if (halving, rule) != ("msh", "uul")  # that is UNICO
    },
}
"""Methods; UNICO as printed, and HASCO with its mapping searches; HASCO and MOBOHB with the extras of our UNICO; and
UNICO with other parts, among them the kind of halving and the rule for what trains the surrogate."""


def small_application() -> ApplicationModel:
    """A network of four layers, which takes little time."""
    layers = (
        Layer("stem", "conv", "Conv", WorkloadShape(K=32, C=16, P=14, Q=14, R=3, S=3)),
        Layer("depth", "dwconv", "Conv", WorkloadShape(G=32, P=12, Q=12, R=3, S=3), predecessors=(0,)),
        Layer("wide", "conv", "Conv", WorkloadShape(K=64, C=32, P=12, Q=12), predecessors=(1,)),
        Layer("head", "fc", "Gemm", WorkloadShape(K=100, C=64), predecessors=(2,)),
    )
    return ApplicationModel("small", (Network("small", layers),))


@functools.cache
def application(workload: str) -> ApplicationModel:
    """The networks of a workload, named with `+` between them; `small` has four layers."""
    if workload == "small":
        return small_application()
    return ApplicationModel(workload, tuple(_network(name) for name in workload.split("+")))


def _network(name: str) -> Network:
    """A network of `data/unico_layers.csv`: its unique layers in their order, each as often as it occurs.

    A hardware search knows of a network only which layers it has, and how often.

    Raises:
        SystemExit: there is no network of that name.
    """
    layers = []
    with open(LAYERS) as stream:
        for row in csv.DictReader(stream):
            if row["workload"] != name:
                continue
            stride, dilation = ((int(row[f"{kind}_h"]), int(row[f"{kind}_w"])) for kind in ("stride", "dilation"))
            shape = WorkloadShape(*(int(row[d]) for d in DIMS), stride=stride, dilation=dilation)
            for _ in range(int(row["count"])):
                layers.append(Layer(f"layer{len(layers)}", row["type"], row["type"], shape))
    if not layers:
        raise SystemExit(f"no network {name} in {LAYERS}")
    return Network(name, tuple(layers))


# ---------------------------------------------------------------- searches that were run


RUN_COLUMNS = (
    "budget", "scenario", "workload", "variant", "seed", "settings", "points", "evaluations", "seconds", "cpu_seconds",
    "most", "trail",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Run:
    """What is kept of a search.

    Attributes:
        points: hardware points measured; a point counts again where its search was finished later.
        evaluations: mappings evaluated.
        seconds: of the clock.
        cpu_seconds: of the processor.
        most: `[3]`, the largest latency [s], power [W] and area [mm^2] within the limit on power.
        cost: `[n]`, evaluations at the end of the batch that each row of the trail came in.
        modelled: `[n]`, sequential generations up to the end of that batch, see `modelled_time`.
        index: `[n]`, points of the space.
        objectives: `[n, 3]`, latency, power and area.
    """

    points: int
    evaluations: int
    seconds: float
    cpu_seconds: float
    most: np.ndarray
    cost: np.ndarray
    modelled: np.ndarray
    index: np.ndarray
    objectives: np.ndarray

    @classmethod
    def of(cls, row: dict[str, str]) -> Run:
        """The run that a line holds."""
        trail = np.asarray(json.loads(row["trail"]), float).reshape(-1, 6)
        return cls(
            points=int(row["points"]),
            evaluations=int(row["evaluations"]),
            seconds=float(row["seconds"]),
            cpu_seconds=float(row["cpu_seconds"]),
            most=np.asarray(json.loads(row["most"]), float),
            cost=trail[:, 0],
            modelled=trail[:, 1],
            index=trail[:, 2].astype(np.int64),
            objectives=trail[:, 3:],
        )


def trail_of(result: CodesignResult) -> list[list[float]]:
    """Cost, modelled time, index and objectives of the rows within the limit that no row so far dominates."""
    history, modelled = result.history, modelled_time(result)
    rows = np.flatnonzero(history.within(result.config.power_cap_W))
    values, batch = history.objectives[rows], history["batch"][rows]
    out = []
    for k, i in enumerate(rows):
        known = values[batch <= batch[k]]
        beaten = (known <= values[k]).all(axis=1) & (known < values[k]).any(axis=1)
        first = not (values[:k] == values[k]).all(axis=1).any()
        if first and not beaten.any():
            cost = [int(result.evaluations[i]), int(modelled[history["batch"][i]])]
            out.append([*cost, int(history["index"][i]), *map(float, values[k])])
    return out


@dataclasses.dataclass
class Runs:
    """Searches that were done, and those to do.

    Attributes:
        lines: where they are kept.
        until: `time.monotonic()` after which no search begins; None for no end.
        report_only: begin none.
        left: searches that were asked for and not done.
    """

    lines: Lines
    until: float | None = None
    report_only: bool = False
    left: int = 0

    def __post_init__(self) -> None:
        self._known = self.lines.read()

    def may_begin(self) -> bool:
        """Whether there is time for more."""
        return not self.report_only and (self.until is None or time.monotonic() < self.until)

    def search(self, budget: str, scenario: str, workload: str, variant: str, seed: int, **changes: Any) -> Run | None:
        """A search, from its line where it was done before; None where no search may begin."""
        named, own = SCENARIOS[scenario]
        method, parts = VARIANTS[variant]
        space = named_space(named)
        config = settings(space, method, budget, seed=seed, **{**own, **parts, **changes})
        return self.kept((budget, scenario, workload, variant, str(seed)), lambda: application(workload), space, config)

    def kept(
        self,
        key: tuple[str, ...],
        networks: Callable[[], ApplicationModel],
        space: HardwareSpace,
        config: CodesignConfig,
    ) -> Run | None:
        """The search of a key, from its line if its settings are equal, defaults too; None if no search may begin."""
        told = json.dumps(plain(dataclasses.asdict(config)), sort_keys=True, default=str)
        mark = hashlib.sha256(told.encode()).hexdigest()[:12]
        row = self._known.get(key)
        if row is not None and row["settings"] == mark:
            return Run.of(row)
        if not self.may_begin():
            self.left += 1
            return None
        began, cpu = time.perf_counter(), time.process_time()
        result = HardwareSearch(CodesignProblem(networks(), space), config).run()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        history = result.history
        most = history.objectives[history.within(result.config.power_cap_W)].max(axis=0)
        values = [len(history), int(result.evaluations[-1]), f"{seconds:.1f}", f"{cpu:.1f}"]
        cells = [*key, mark, *values, json.dumps(most.tolist()), json.dumps(trail_of(result))]
        row = {name: str(value) for name, value in zip(RUN_COLUMNS, cells, strict=True)}
        self.lines.append(row)
        self._known[key] = row
        print(f"{' '.join(key)}: {len(history)} points, {cpu:.0f} s of the processor", flush=True)
        return Run.of(row)


# ---------------------------------------------------------------- designs on networks that a search did not see


MEASURED_COLUMNS = (
    "space", "workload", "generations", "index", "latency_s", "power_W", "area_mm2", "robustness", "delta",
)  # fmt: skip


@dataclasses.dataclass
class Measurements:
    """Hardware points measured on workloads by full mapping searches under one key, a line for each."""

    lines: Lines

    def __post_init__(self) -> None:
        self._known = self.lines.read()

    def missing(self, space: HardwareSpace, workload: str, generations: int, points: Sequence[int]) -> list[int]:
        """Points that were not measured yet."""
        return [p for p in points if (space.name, workload, str(generations), str(p)) not in self._known]

    def measure(self, space: HardwareSpace, workload: str, generations: int, points: Sequence[int]) -> None:
        """Measures the missing points, in groups of eight so that a stop loses little."""
        wanted = self.missing(space, workload, generations, points)
        if not wanted:
            return
        app = application(workload)
        lanes = LaneConfig(generations=generations, max_children=wires_room(space))
        problem = lane_problem(CodesignProblem(app, space))
        search = MappingSearch(jax.random.key(0x7AB3), problem, space, len(app.unique_layers), lanes)
        for start in range(0, len(wanted), 8):
            some = np.asarray(wanted[start : start + 8])
            found = measured(search.advance(search.begin(some), generations), lanes)
            for i, point in enumerate(some):
                numbers = (found.latency_s, found.power_W, found.area_mm2, found.robustness, found.delta)
                row = [space.name, workload, generations, point, *(repr(float(x[i])) for x in numbers)]
                line = {name: str(value) for name, value in zip(MEASURED_COLUMNS, row, strict=True)}
                self.lines.append(line)
                self._known[tuple(line[c] for c in MEASURED_COLUMNS[:4])] = line

    def objectives(self, space: HardwareSpace, workload: str, generations: int, point: int) -> np.ndarray:
        """`[3]`: latency [s], power [W] and area [mm^2] of a point that was measured."""
        line = self._known[space.name, workload, str(generations), str(point)]
        return np.asarray([float(line[name]) for name in ("latency_s", "power_W", "area_mm2")])
