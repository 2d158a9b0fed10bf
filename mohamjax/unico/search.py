"""The outer loop of a hardware search: propose, measure, filter, until the evaluations are spent (UNICO, Algorithm 1).

All methods share the measurements: the same lanes under the same key, so that two methods that measure a hardware point
with the same budget get the same numbers. What a search is made of follows from its history alone: a checkpoint holds
that, and a resumed search goes on as if nothing had been.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import (
    PackageParameters,
    Technology,
    load_technology,
    package_to_dict,
    technology_hash,
    template_to_dict,
    with_memory,
)
from mohamjax.runtime.programs import machinery
from mohamjax.runtime.struct import plain, shown_briefly
from mohamjax.search.resumed import check_same_search
from mohamjax.search.stores import Checkpoint, CheckpointStore
from mohamjax.unico import fidelity, gp, proposals
from mohamjax.unico.bracket import MappingSearch, Searched, measured, run_bracket
from mohamjax.unico.config import CODESIGN_FORMAT, CodesignConfig
from mohamjax.unico.history import OBJECTIVES, History, unico_fit, worth_finishing
from mohamjax.unico.lanes import LaneConfig, lane_problem, wires_room
from mohamjax.unico.space import HardwareSpace, check_layers
from mohamjax.version import __version__
from mohamjax.workload import ApplicationModel

_BROKEN = 1e4  # times as bad, in a bracket, is what breaks the limit on power


@dataclasses.dataclass(frozen=True)
class CodesignProgress:
    """How far a hardware search is; passed to the caller after every batch.

    Attributes:
        batch: batches done.
        hardware: hardware points measured.
        evaluations: mappings evaluated.
        total: mappings to evaluate in all.
        front: designs of the front.
        seconds: since the search began, or was resumed.
    """

    batch: int
    hardware: int
    evaluations: int
    total: int
    front: int
    seconds: float


@shown_briefly
@dataclasses.dataclass(frozen=True)
class CodesignResult:
    """What a hardware search found.

    Attributes:
        application: the networks.
        space: the hardware space.
        technology: energy and area tables.
        package: the package in which an accelerator stands alone.
        config: settings.
        history: every hardware point measured.
        front: rows of it that no other dominates in latency, power and area, within the limit, by rising latency.
        mappings: loop nests of the front, leading axes `[len(front), U]`.
        evaluations: mappings evaluated up to the end of each row's batch, `[n]` int64.
        seconds: of each row's batch, since the beginning, `[n]`; of a resumed search only what it did itself.
        interrupted: stopped by hand before its end.
    """

    application: ApplicationModel
    space: HardwareSpace
    technology: Technology
    package: PackageParameters
    config: CodesignConfig
    history: History
    front: np.ndarray
    mappings: Any
    evaluations: np.ndarray
    seconds: np.ndarray
    interrupted: bool

    def record(self) -> dict[str, Any]:
        """Everything needed to repeat the search, as plain data."""
        return {
            "format": CODESIGN_FORMAT,
            "scenario": self.application.name,
            "space": self.space.name,
            "axes": {axis.name: list(axis.values) for axis in self.space.axes},
            "search": plain(self.config),
            "networks": [
                {"name": n.name, "source": n.source, "layers": len(n.layers)} for n in self.application.networks
            ],
            "templates": [template_to_dict(t) for t in self.space.variants],
            "technology_hash": technology_hash(self.technology),
            "package": package_to_dict(self.package),
            **machinery(),
        }


class HardwareSearch:
    """A hardware search step by step.

    Args:
        application: networks; latency and energy are summed over them.
        space: hardware space.
        config: settings.
        technology: energy and area tables; default the packaged ones.
        package: the package in which the accelerator stands alone.
        block: hardware points of a call of the lanes' program.

    Raises:
        InputError: some layer runs on no template of the space, or settings and space do not go together.
    """

    def __init__(
        self,
        application: ApplicationModel,
        space: HardwareSpace,
        config: CodesignConfig | None = None,
        *,
        technology: Technology | None = None,
        package: PackageParameters | None = None,
        block: int = 1,
    ) -> None:
        self.application = application
        self.config = config or CodesignConfig()
        self.technology = load_technology() if technology is None else technology
        if self.technology.static_share is not None:
            raise InputError(
                "counts static energy, and a hardware search has a leakage of its own",
                item="the argument `technology`",
                remedy="leave static energy out, and give `leakage` in W per mm^2",
            )
        self.package = dataclasses.replace(package or PackageParameters(), max_tiles=1)
        # Templates come into the package here: their off-chip level is its memory.
        self.space = dataclasses.replace(space, variants=with_memory(space.variants, self.package.memory))
        check_layers(application.unique_layers, space)
        if self.config.ppa == "unico-fit" and space.name not in ("unico-edge", "unico-cloud"):
            raise InputError(
                "is for unico-edge and unico-cloud", item="the argument `ppa=unico-fit`", remedy="leave it out"
            )
        lanes = LaneConfig(
            population=self.config.population,
            generations=self.config.generations,
            objective=self.config.objective,
            max_children=wires_room(space),
        )
        problem = lane_problem(application, self.space, self.technology, self.package, leakage=self.config.leakage)
        seed = self.config.seed if self.config.mapping_seed is None else self.config.mapping_seed
        key = jax.random.fold_in(jax.random.key(seed), 0x11A9)
        layers = len(application.unique_layers)
        self.lanes = MappingSearch(key, problem, self.space, layers, lanes, block=block)
        genes = self.lanes.begin([0]).state.network.genes
        self.history = History.empty(0, self.config.generations, genes)
        self.hyper: gp.Hyper | None = None
        self.batch = 0
        self.seconds: list[float] = []

    # ------------------------------------------------------------ one batch

    @property
    def cost(self) -> int:
        """Generations of single hardware points spent."""
        return int(self.history["generations"].sum())

    @property
    def per_generation(self) -> int:
        """Mappings that a generation of one hardware point evaluates."""
        return self.config.population * len(self.application.unique_layers)

    def _unfinished(self) -> np.ndarray:
        """Points of the front to give the full budget, where it is time for that and there is enough left."""
        config, history = self.config, self.history
        if config.method != "unico" or not config.rationed or not config.finish:
            return np.zeros(0, np.int64)
        full = set(history["index"][history["generations"] == config.generations].tolist())
        whole = len(np.unique(history["index"])) >= self.space.size
        left = config.total_cost - self.cost
        if config.finishing == "end":
            over = whole or self.cost + config.bracket.cost > (1 - config.finish) * config.total_cost
            earned = 0.0
        else:
            over = whole or config.bracket.cost > left
            again = int(history["generations"][~history.first].sum())
            earned = config.finish / (1 - config.finish) * (self.cost - again) - again
        most = min(config.lanes, int(left if over else min(earned, left)) // config.generations)
        if most < 1:
            return np.zeros(0, np.int64)
        rows = [
            i
            for i in worth_finishing(history, config.power_cap_W, aimed=config.aimed > 0)
            if int(history["index"][i]) not in full
        ]
        return history["index"][rows[:most]]

    def _wanted(self) -> tuple[int, bool, int]:
        """Points of the next batch, whether they are rationed, and the seats by area."""
        config, left = self.config, self.config.total_cost - self.cost
        if config.method == "unico" and config.rationed:
            return config.lanes, True, config.area_percent
        if config.method == "mobohb":
            return config.lanes, True, 0
        # Small budgets leave room for something to be learnt from the first points.
        most = config.total_cost // config.generations
        number = config.lanes
        if config.method in ("hasco", "hasco-r"):
            number = min(config.initial, max(2, most // 2)) if self.batch == 0 else 1
        elif config.method == "nsga2":
            number = min(config.nsga_population, max(4, most // 3))
        return min(number, left // config.generations), False, 0

    def done(self) -> bool:
        """Whether the evaluations are spent, or all of the space is measured."""
        if len(self._unfinished()):
            return False
        number, rationed, area = self._wanted()
        if number < 1 or len(np.unique(self.history["index"])) >= self.space.size:
            return True
        plan = self.config.plan(number, rationed=rationed, area_percent=area)
        return self.cost + plan.cost > self.config.total_cost

    def propose(self, number: int) -> proposals.Proposal:
        """The next batch of so many points."""
        given = (self.history, self.space, self.config, self.batch, number)
        method = self.config.method
        if self.batch == 0 or method == "random":
            return proposals.by_chance(*given)
        if method == "nsga2":
            return proposals.by_evolution(*given)
        if method == "mobohb":
            return proposals.by_density(*given)
        size = 1 if method in ("hasco", "hasco-r") else self.config.lanes
        return proposals.by_surrogate(*given, self.hyper, size)

    def step(self) -> None:
        """Proposes a batch, measures it, and decides what the surrogate learns from."""
        began = time.perf_counter()
        number, rationed, area = self._wanted()
        again = self._unfinished()
        if len(again):
            number, rationed, area = len(again), False, 0
            predicted = np.full((number, 2, len(OBJECTIVES)), np.nan)
            proposal = proposals.Proposal(again, predicted)
        else:
            number = min(number, self.space.size - len(np.unique(self.history["index"])))
            proposal = self.propose(number)
        index, predicted = proposal.index, proposal.predicted
        short = number - len(index)
        if short > 0:  # the pool held no more; chance fills up
            seen = np.concatenate([self.history["index"], index])
            generator = np.random.default_rng([self.config.seed, self.batch, 1])
            more = proposals.random_points(generator, self.space, seen, short)
            index = np.concatenate([index, more])
            predicted = np.concatenate([predicted, np.full((len(more), *predicted.shape[1:]), np.nan)])
        if proposal.hyper is not None:
            self.hyper = proposal.hyper
        plan = self.config.plan(len(index), rationed=rationed, area_percent=area)
        searched, _ = run_bracket(self.lanes, index, plan, self._score, area=self.config.area)
        found = measured(searched, self.lanes.config)
        power, size = self._fitted(index)
        if power is not None:
            found = dataclasses.replace(found, power_W=np.where(np.isfinite(found.latency_s), power, np.inf))
            found = dataclasses.replace(found, area_mm2=size, robustness=found.delta)
        self.history = self.history.append(found, self._curves(searched), predicted, self.batch)
        if len(again):
            self.history = self.history.renewed(self.batch)
        else:
            self._filter()
        self.batch += 1
        self.seconds.append((self.seconds[-1] if self.seconds else 0.0) + time.perf_counter() - began)

    def _fitted(self, index: np.ndarray) -> tuple[Any, Any]:
        """Power and area by the fit, `[H]` each, where the settings say so; else None."""
        if self.config.ppa == "model":
            return None, None
        return unico_fit(self.space, self.space.digits(index))

    def _curves(self, searched: Searched) -> tuple[np.ndarray, np.ndarray]:
        latency, power = searched.curves()
        fitted, _ = self._fitted(searched.index)
        return latency, power if fitted is None else np.where(np.isfinite(latency), fitted[:, None], np.inf)

    def _score(self, searched: Searched) -> np.ndarray:
        """Curves `[H, B]` that a bracket compares: ParEGO's scalar of latency, power and area, or one of the others.

        Points that break the limit on power stand behind those that keep it.
        """
        latency, power = self._curves(searched)
        there = np.isfinite(latency)
        late = np.where(power > (self.config.power_cap_W or np.inf), _BROKEN, 1.0)
        if self.config.score == "latency":
            return latency * late
        if self.config.score == "edp":
            return np.where(there, np.where(there, latency, 0) ** 2 * np.where(there, power, 0) * late, np.inf)
        _, size = self._fitted(searched.index)
        size = np.asarray(searched.points.area, float) if size is None else size
        rows = np.stack([latency, power, np.broadcast_to(size[:, None], latency.shape)], axis=-1)
        last = rows[np.arange(len(rows)), np.asarray(searched.state.generation) - 1]
        known = np.concatenate([self.history.objectives, last])
        scale = fidelity.scale_init((True, True, False), (0.0, 0.0, 0.0))
        scale = fidelity.scale_update(scale, *_padded(known, np.asarray(np.isfinite(known).all(axis=1))))
        values = fidelity.normalise(scale, np.where(there[..., None], rows, 1).astype(np.float32))
        scalar = fidelity.parego(values, jnp.full(3, 1 / 3, jnp.float32))
        # Better than all before is below 0 on these axes; a bracket takes logarithms.
        return np.where(there, np.maximum(np.asarray(scalar), 1e-3) * late, np.inf)

    def _filter(self) -> None:
        """Which rows of the batch train the surrogate (UNICO, Section 3.2)."""
        config, history = self.config, self.history
        if config.method not in ("unico", "hasco", "hasco-r"):
            return
        values = proposals.targets(history, config)
        batch = history["batch"] == self.batch
        if self.batch == 0:  # all of the first batch, whatever the rule
            self.history = history.accept(batch & history.valid)
            return
        extra = values.shape[1] - 3
        scale = fidelity.scale_init(
            (True, True, False, True)[: 3 + extra], (0.0, 0.0, 0.0, fidelity.ROBUSTNESS_OFFSET)[: 3 + extra]
        )
        padded, valid = _padded(values, history.valid)
        scaled = fidelity.normalise(fidelity.scale_update(scale, padded, valid), padded)
        full = history["generations"] == config.generations
        masks = [_padded(mask[:, None], mask)[1] for mask in (history["accepted"], batch, full)]
        weights = np.full(values.shape[1], 1 / values.shape[1], np.float32)
        rule = config.rule if config.method == "unico" else "champion"
        decided = fidelity.accept(scaled, valid, *masks, weights, rule=rule)
        self.history = history.accept(np.asarray(decided.accepted)[: len(history)])

    # ------------------------------------------------------------ keeping

    def fingerprint(self) -> str:
        """Hash of what decides a search; a checkpoint goes on only under the same one."""
        record = {
            "layers": [plain(layer) for layer in self.application.layers],
            "space": [plain(axis) for axis in self.space.axes],
            "templates": [t.content_hash() for t in self.space.variants],
            "technology": technology_hash(self.technology),
            "package": package_to_dict(self.package),
            "config": plain(self.config),
            "version": __version__,
        }
        return hashlib.sha256(json.dumps(record, sort_keys=True, default=str).encode()).hexdigest()

    def save(self, store: CheckpointStore) -> None:
        """Keeps what it takes to go on."""
        tree = {"history": _plain_tree(self.history), "hyper": None if self.hyper is None else _leaves(self.hyper)}
        meta = {
            "fingerprint": self.fingerprint(),
            "rows": len(self.history),
            "batch": self.batch,
            "seconds": self.seconds,
            "hyper": None if self.hyper is None else [list(np.shape(leaf)) for leaf in _leaves(self.hyper)],
        }
        store.write(tree, meta)

    def restore(self, saved: Checkpoint) -> None:
        """Goes on from a checkpoint.

        Raises:
            InputError: it is damaged, or of another search.
        """
        check_same_search(saved, {"fingerprint": self.fingerprint()})
        try:
            rows, self.batch = int(saved.meta["rows"]), int(saved.meta["batch"])
            self.seconds = [float(s) for s in saved.meta["seconds"]]
            shapes = saved.meta["hyper"]
            own = self.history
            empty = History.empty(rows, own.curves.shape[2], own.genes)
            arrays = saved.arrays
            like, structure = jax.tree_util.tree_flatten_with_path({"history": _plain_tree(empty)})
            # Read back as they were written: double precision, which JAX arrays would not keep.
            leaves = [arrays[jax.tree_util.keystr(where)] for where, _ in like]
            if any(a.shape != b.shape for a, (_, b) in zip(leaves, like, strict=True)):
                raise KeyError("shape")
            tree = jax.tree_util.tree_unflatten(structure, leaves)["history"]
            tree["columns"] = {name: tree["columns"][name] for name in empty.columns}  # a pytree sorts its keys
            self.history = dataclasses.replace(empty, **tree)
            if shapes is not None:
                names = [f.name for f in dataclasses.fields(gp.Hyper)]
                hyper: dict[str, Any] = {name: arrays[f"['hyper'][{i}]"] for i, name in enumerate(names)}
                self.hyper = gp.Hyper(**hyper)
        except (KeyError, TypeError, ValueError) as error:
            raise saved.refused(f"damaged ({error} is missing or of another kind)") from None

    def result(self, *, interrupted: bool = False) -> CodesignResult:
        """What was found so far.

        Raises:
            InputError: no hardware point keeps the limit on power.
        """
        history, cap = self.history, self.config.power_cap_W
        front = history.front(cap)
        if not len(front):
            best = float(np.min(history["power_W"], initial=np.inf))
            raise InputError(
                f"no hardware point takes {cap:g} W or less; the least that was met is {best:.3g} W"
                if np.isfinite(best)
                else "no hardware point has a valid mapping of every layer",
                item="the argument `power_cap_W`" if np.isfinite(best) else f"space {self.space.name}",
                remedy="raise it, or choose another space",
            )
        nests = self.lanes.mappings(history["index"][front], jax.tree.map(lambda leaf: leaf[front], history.genes))
        batch = history["batch"]
        seconds = np.asarray(self.seconds, float)
        return CodesignResult(
            application=self.application,
            space=self.space,
            technology=self.technology,
            package=self.package,
            config=self.config,
            history=history,
            front=front,
            mappings=jax.tree.map(lambda leaf: leaf[:, : len(self.application.unique_layers)], nests),
            evaluations=history.costs() * self.per_generation,
            seconds=seconds[batch],
            interrupted=interrupted,
        )


def _leaves(hyper: gp.Hyper) -> list[Any]:
    return [np.asarray(getattr(hyper, f.name)) for f in dataclasses.fields(gp.Hyper)]


def _plain_tree(history: History) -> dict[str, Any]:
    return {f.name: getattr(history, f.name) for f in dataclasses.fields(History)}


def _padded(rows: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows `[n, M]` and their mask, filled up to a power of two from 64 on: few programs for a growing history."""
    size = max(64, 1 << (len(rows) - 1).bit_length())
    out = np.ones((size, rows.shape[1]), np.float32)
    out[: len(rows)] = np.where(mask[:, None], rows, 1)
    there = np.zeros(size, bool)
    there[: len(rows)] = mask
    return out, there


def search_hardware(
    search: HardwareSearch,
    *,
    checkpoint: CheckpointStore | None = None,
    resume: bool = False,
    listener: Callable[[CodesignProgress], None] | None = None,
) -> CodesignResult:
    """Runs a hardware search to its end.

    An interrupt (Ctrl-C) between the first batch and the end ends it with what was found so far.

    Args:
        search: the search.
        checkpoint: keeps the state after every batch (`io.CheckpointFile`); None keeps none.
        resume: go on from what it keeps; where that is nothing yet, from the beginning.
        listener: told after every batch.

    Raises:
        InputError: the checkpoint is damaged or of another search, or no point keeps the limit on power.
    """
    if resume:
        if checkpoint is None:
            raise InputError("there is no checkpoint to go on from", item="resume", remedy="name the checkpoint")
        saved = checkpoint.read()
        if saved is not None:
            search.restore(saved)
    began, interrupted = time.perf_counter(), False
    try:
        while not search.done():
            search.step()
            if checkpoint is not None:
                search.save(checkpoint)
            if listener is not None:
                config = search.config
                listener(
                    CodesignProgress(
                        batch=search.batch,
                        hardware=len(search.history),
                        evaluations=search.cost * search.per_generation,
                        total=config.total_cost * search.per_generation,
                        front=len(search.history.front(config.power_cap_W)),
                        seconds=time.perf_counter() - began,
                    )
                )
    except KeyboardInterrupt:
        if not len(search.history):
            raise
        interrupted = True
    return search.result(interrupted=interrupted)
