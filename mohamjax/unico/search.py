"""The outer loop of a hardware search: propose, measure, filter, until the evaluations are spent (UNICO, Algorithm 1).

All methods measure with the same lanes under the same key, so that two methods that measure a hardware point with the
same budget get the same numbers. A search depends only on its history and the surrogate's last hyper-parameters: a
checkpoint holds both, and a resumed search goes on as if it had never stopped.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import Argument, InputError
from mohamjax.hardware import PackageParameters, Technology, package_to_dict, technology_hash, template_to_dict
from mohamjax.mapping import Mapping
from mohamjax.runtime.programs import machinery
from mohamjax.runtime.struct import plain, put, shown_briefly
from mohamjax.search.resumed import Checkpoint, CheckpointStore, check_same_search, marks_of
from mohamjax.unico import fidelity, gp, proposals
from mohamjax.unico.bracket import MappingSearch, Searched, measured, run_bracket
from mohamjax.unico.config import CODESIGN_FORMAT, CodesignConfig
from mohamjax.unico.halving import Bracket
from mohamjax.unico.history import History, unico_fit, worth_finishing
from mohamjax.unico.lanes import LaneConfig, lane_problem, wires_room
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.space import HardwareSpace
from mohamjax.version import __version__
from mohamjax.workload import ApplicationModel

_BROKEN = 1e4  # least factor of the score of points that break the limit on power, in a bracket


class Wanted(NamedTuple):
    """Size and budget of a batch.

    Attributes:
        number: number of points.
        rationed: the points share a bracket; if false, each has the full budget.
        area_percent: share of the points alive that the area chooses in the bracket [%], see `halving.seats`.
    """

    number: int
    rationed: bool = False
    area_percent: int = 0

    def plan(self, number: int, config: CodesignConfig) -> Bracket:
        """The bracket of a batch of this kind with `number` points."""
        return config.plan(number, rationed=self.rationed, area_percent=self.area_percent)


@dataclasses.dataclass(frozen=True)
class CodesignProgress:
    """Progress of a hardware search; passed to the listener after every batch.

    Attributes:
        batch: batches done.
        hardware: measurements of hardware points.
        evaluations: mappings evaluated.
        total: budget of mappings to evaluate.
        front: number of designs in the front.
        seconds: seconds since the search began or was resumed.
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
    """Result of a hardware search.

    Attributes:
        application: the networks.
        space: the hardware space.
        technology: energy and area tables.
        package: the package, which holds one accelerator.
        config: settings.
        history: all measurements, n rows.
        front: rows of the history within the limit on power that no other dominates in latency, power and area, by
            rising latency.
        mappings: loop nests of the front, leading axes `[len(front), U]`.
        evaluations: mappings evaluated up to the end of each row's batch, `[n]` int64.
        seconds: time spent in batches up to the end of each row's batch [s], `[n]`, including time before a resume.
        interrupted: whether the user stopped the search before its end.
    """

    application: ApplicationModel
    space: HardwareSpace
    technology: Technology
    package: PackageParameters
    config: CodesignConfig
    history: History
    front: np.ndarray
    mappings: Mapping
    evaluations: np.ndarray
    seconds: np.ndarray
    interrupted: bool

    def record(self) -> dict[str, object]:
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


@dataclasses.dataclass
class HardwareSearch:
    """A hardware search: `HardwareSearch(problem, config).run()`.

    After an interrupt (Ctrl-C), `run` returns what was found so far if at least one batch is done.

    Attributes:
        problem: networks and hardware.
        config: settings.
        checkpoint: keeps the state after every batch (`io.CheckpointFile`); None keeps none.
        resume: go on from the checkpoint; if it is empty, start from the beginning.
        listener: called after every batch.
        block: hardware points per call of the lanes' program.

    Raises:
        InputError: settings and space do not fit together.
    """

    problem: CodesignProblem
    config: CodesignConfig = dataclasses.field(default_factory=CodesignConfig)
    _: dataclasses.KW_ONLY
    checkpoint: CheckpointStore | None = None
    resume: bool = False
    listener: Callable[[CodesignProgress], None] | None = None
    block: int = 1

    def __post_init__(self) -> None:
        """Checks the settings before anything is compiled."""
        if self.config.ppa == "unico-fit" and self.problem.space.name not in ("unico-edge", "unico-cloud"):
            raise InputError(
                "is for unico-edge and unico-cloud", argument=Argument("ppa", value="unico-fit"), remedy="leave it out"
            )

    def run(self) -> CodesignResult:
        """Proposes, measures and learns batch by batch until the evaluations are spent.

        Raises:
            InputError: the checkpoint is missing, damaged or of another search, or no point keeps the limit on power.
        """
        if self.resume and self.checkpoint is None:
            raise InputError("there is no checkpoint to go on from", item="resume", remedy="name the checkpoint")
        self.begin()
        saved = self.checkpoint.read() if self.resume and self.checkpoint is not None else None
        if saved is not None:
            self.restore(saved)
        began, interrupted = time.perf_counter(), False
        try:
            while not self.done():
                self.step()
                if self.checkpoint is not None:
                    self.save(self.checkpoint)
                self._tell(time.perf_counter() - began)
        except KeyboardInterrupt:
            if not self.batch:
                raise
            interrupted = True
        return self.result(interrupted=interrupted)

    # ------------------------------------------------------------ the steps

    def begin(self) -> None:
        """Creates the lanes of the mapping searches and an empty history."""
        problem, config = self.problem, self.config
        lanes = LaneConfig(
            population=config.population,
            generations=config.generations,
            objective=config.objective,
            max_children=wires_room(problem.space),
        )
        seed = config.seed if config.mapping_seed is None else config.mapping_seed
        key = jax.random.fold_in(jax.random.key(seed), 0x11A9)
        layers = len(problem.application.unique_layers)
        own = lane_problem(problem, leakage=config.leakage)
        self.lanes = MappingSearch(key, own, problem.space, layers, lanes, block=self.block)
        genes = self.lanes.begin([0]).state.network.genes
        self.history = History.empty(0, config.generations, genes)
        self.hyper: gp.Hyper | None = None
        self.batch = 0
        self.seconds: list[float] = []

    def done(self) -> bool:
        """Whether the evaluations are spent or the whole space is measured, and no point is to be finished."""
        if len(self._unfinished()):
            return False
        wanted = self._wanted()
        number = min(wanted.number, self._new_points)
        # Near the end of a small space a bracket has fewer points, and thus fewer rounds of more generations each.
        return number < 1 or self.cost + wanted.plan(number, self.config).cost > self.config.total_cost

    @property
    def _new_points(self) -> int:
        """Points of the space that were not measured."""
        return self.problem.space.size - len(np.unique(self.history["index"]))

    def step(self) -> None:
        """Proposes and measures a batch, and decides which of its rows train the surrogate.

        After an interrupt the search is as it was before the batch, so that no row lacks its seconds.
        """
        before = self.history, self.hyper, self.batch, self.seconds
        try:
            self._next_batch()
        except KeyboardInterrupt:
            self.history, self.hyper, self.batch, self.seconds = before
            raise

    def _next_batch(self) -> None:
        """The work of `step`."""
        began = time.perf_counter()
        again = self._unfinished()
        if len(again):
            proposal, wanted = proposals.Proposal.of(again), Wanted(len(again))
        else:
            wanted = self._wanted()
            proposal = self._proposed(wanted.number)
        if proposal.hyper is not None:
            self.hyper = proposal.hyper
        self._measure(proposal, wanted.plan(len(proposal.index), self.config))
        if len(again):
            self.history = self.history.renewed(self.batch)
        else:
            self._filter()
        self.batch += 1
        spent = (self.seconds[-1] if self.seconds else 0.0) + time.perf_counter() - began
        self.seconds = [*self.seconds, spent]  # a new list: `step` may still go back to the old one

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
                argument="power_cap_W" if np.isfinite(best) else None,
                item=None if np.isfinite(best) else f"space {self.problem.space.name}",
                remedy="raise it, or choose another space",
            )
        nests = self.lanes.mappings(history["index"][front], jax.tree.map(lambda leaf: leaf[front], history.genes))
        batch = history["batch"]
        seconds = np.asarray(self.seconds, float)
        return CodesignResult(
            application=self.problem.application,
            space=self.problem.space,
            technology=self.problem.technology,
            package=self.problem.package,
            config=self.config,
            history=history,
            front=front,
            mappings=jax.tree.map(lambda leaf: leaf[:, : len(self.problem.application.unique_layers)], nests),
            evaluations=history.costs() * self.per_generation,
            seconds=seconds[batch],
            interrupted=interrupted,
        )

    # ------------------------------------------------------------ one batch

    @property
    def cost(self) -> int:
        """Generations spent so far, summed over hardware points."""
        return int(self.history["generations"].sum())

    @property
    def per_generation(self) -> int:
        """Mappings evaluated in one generation of one hardware point."""
        return self.config.population * len(self.problem.application.unique_layers)

    def _unfinished(self) -> np.ndarray:
        """Points of the front that get the full budget next; none before it is time for them or without budget left."""
        config, history = self.config, self.history
        if not config.finished:
            return np.zeros(0, np.int64)
        full = set(history["index"][history["generations"] == config.generations].tolist())
        whole = len(np.unique(history["index"])) >= self.problem.space.size
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
            for i in worth_finishing(history, config.power_cap_W, aimed=config.aims > 0)
            if int(history["index"][i]) not in full
        ]
        return history["index"][rows[:most]]

    def _wanted(self) -> Wanted:
        """Size and budget of the next batch of new points."""
        config, left = self.config, self.config.total_cost - self.cost
        if config.method == "unico" and config.rationed:
            return Wanted(config.lanes, True, config.area_percent)
        if config.method == "mobohb":
            return Wanted(config.lanes, True)
        # The first points take only part of a small budget, so that the method can still learn from them.
        most = config.total_cost // config.generations
        number = config.lanes
        if config.method in ("hasco", "hasco-r"):
            number = min(config.initial, max(2, most // 2)) if self.batch == 0 else 1
        elif config.method == "nsga2":
            number = min(config.nsga_population, max(4, most // 3))
        return Wanted(min(number, left // config.generations))

    def _proposed(self, number: int) -> proposals.Proposal:
        """A batch of `number` new points, or of all that are left if there are fewer."""
        space = self.problem.space
        number = min(number, self._new_points)
        found = self._chosen(number)
        short = number - len(found.index)
        if short <= 0:
            return found
        # The pool held no more points: random points fill up the batch.
        seen = np.concatenate([self.history["index"], found.index])
        generator = np.random.default_rng([self.config.seed, self.batch, 1])
        return found.joined(proposals.random_points(generator, space, seen, short))

    def _chosen(self, number: int) -> proposals.Proposal:
        """Points chosen by the method, at most `number`."""
        given = (self.history, self.problem.space, self.config, self.batch, number)
        method = self.config.method
        if self.batch == 0 or method == "random":
            return proposals.by_chance(*given)
        if method == "nsga2":
            return proposals.by_evolution(*given)
        if method == "mobohb":
            return proposals.by_density(*given)
        size = 1 if method in ("hasco", "hasco-r") else self.config.lanes
        return proposals.by_surrogate(*given, self.hyper, size)

    def _measure(self, proposal: proposals.Proposal, plan: Bracket) -> None:
        """Searches mappings for the points of a batch, and appends the results to the history."""
        searched, _ = run_bracket(self.lanes, proposal.index, plan, self._score, area=self.config.area)
        found = measured(searched, self.lanes.config)
        fitted = self._fitted(proposal.index)
        if fitted is not None:
            power, size = fitted
            power = np.where(np.isfinite(found.latency_s), power, np.inf)
            apart = found.delta * np.sin(found.theta)  # in latency: this power does not depend on the mapping
            theta = np.full_like(apart, math.pi / 2)
            found = dataclasses.replace(found, power_W=power, area_mm2=size, robustness=apart, delta=apart, theta=theta)
        self.history = self.history.append(found, self._curves(searched), proposal.predicted, self.batch)

    def _fitted(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Power [W] and area [mm^2] by the fit, `[H]` each, if the settings ask for it; else None."""
        if self.config.ppa == "model":
            return None
        return unico_fit(self.problem.space, self.problem.space.digits(index))

    def _curves(self, searched: Searched) -> tuple[np.ndarray, np.ndarray]:
        """Latency [s] and power [W] after each generation, `[H, B]`; power by the fit if the settings ask for it."""
        latency, power = searched.curves()
        fitted = self._fitted(searched.index)
        return latency, power if fitted is None else np.where(np.isfinite(latency), fitted[0][:, None], np.inf)

    def _score(self, searched: Searched) -> np.ndarray:
        """Curves `[H, B]` that a bracket compares, by `CodesignConfig.score`; ParEGO's is of latency, power and area.

        By their last values, points that break the limit on power rank behind all others (`_behind`).
        """
        latency, power = self._curves(searched)
        there = np.isfinite(latency)
        broken = power > (self.config.power_cap_W or np.inf)
        done = int(np.max(searched.state.generation))
        if self.config.score == "latency":
            return _behind(latency, broken, done)
        if self.config.score == "edp":
            product = np.where(there, latency, 0) ** 2 * np.where(there, power, 0)
            return _behind(np.where(there, product, np.inf), broken, done)
        fitted = self._fitted(searched.index)
        size = np.asarray(searched.points.area, float) if fitted is None else fitted[1]
        rows = np.stack([latency, power, np.broadcast_to(size[:, None], latency.shape)], axis=-1)
        last = rows[np.arange(len(rows)), np.asarray(searched.state.generation) - 1]
        known = np.concatenate([self.history.objectives, last])
        scale = fidelity.scale_init((True, True, False), (0.0, 0.0, 0.0))
        scale = fidelity.scale_update(scale, *_padded(known, np.asarray(np.isfinite(known).all(axis=1))))
        values = fidelity.normalise(scale, np.where(there[..., None], rows, 1).astype(np.float32))
        scalar = fidelity.parego(values, jnp.full(3, 1 / 3, jnp.float32))
        # Points better than all before are below 0 on these axes, and a bracket takes logarithms.
        return _behind(np.where(there, np.maximum(np.asarray(scalar), 1e-3), np.inf), broken, done)

    def _filter(self) -> None:
        """Decides which rows of the batch train the surrogate (UNICO, Section 3.2)."""
        config, history = self.config, self.history
        if config.method not in ("unico", "hasco", "hasco-r"):
            return
        values = proposals.targets(history, config)
        batch = history["batch"] == self.batch
        if self.batch == 0:  # all of the first batch, under every rule
            self.history = history.accept(batch & history.valid)
            return
        extra = values.shape[1] - 3
        scale = fidelity.scale_init(
            (True, True, False, True)[: 3 + extra], (0.0, 0.0, 0.0, fidelity.ROBUSTNESS_OFFSET)[: 3 + extra]
        )
        padded, valid = _padded(values, history.valid)
        scaled = fidelity.normalise(fidelity.scale_update(scale, padded, valid), padded)
        full = history["generations"] == config.generations
        masks = [fidelity.padded(mask, False) for mask in (history["accepted"], batch, full)]
        weights = np.full(values.shape[1], 1 / values.shape[1], np.float32)
        rule = config.rule if config.method == "unico" else "champion"
        decided = fidelity.accept(scaled, valid, *masks, weights, rule=rule)
        self.history = history.accept(np.asarray(decided.accepted)[: len(history)])

    # ------------------------------------------------------------ keeping and telling

    def _tell(self, seconds: float) -> None:
        """Reports the progress of the search to the listener."""
        if self.listener is None:
            return
        config, history = self.config, self.history
        self.listener(
            CodesignProgress(
                batch=self.batch,
                hardware=len(history),
                evaluations=self.cost * self.per_generation,
                total=config.total_cost * self.per_generation,
                front=len(history.front(config.power_cap_W)),
                seconds=seconds,
            )
        )

    def marks(self) -> dict[str, object]:
        """Hashes of all that a search depends on; a checkpoint is resumed only if they are the same."""
        problem = self.problem
        record = {
            "networks": [plain(layer) for layer in problem.application.layers],
            "space": [plain(axis) for axis in problem.space.axes],
            "templates": [t.content_hash() for t in problem.space.variants],
            "technology": technology_hash(problem.technology),
            "package": package_to_dict(problem.package),
            # Preset and budget are only names of what the other settings hold.
            "settings": {k: v for k, v in plain(self.config).items() if k not in ("preset", "budget")},
            "version of mohamjax": __version__,
        }
        return marks_of(record)

    def save(self, store: CheckpointStore) -> None:
        """Writes the state of the search to a checkpoint."""
        tree = {"history": _plain_tree(self.history), "hyper": None if self.hyper is None else _leaves(self.hyper)}
        meta = {
            **self.marks(),
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
        check_same_search(saved, self.marks())
        try:
            rows, self.batch = int(saved.meta["rows"]), int(saved.meta["batch"])
            self.seconds = [float(s) for s in saved.meta["seconds"]]
            shapes = saved.meta["hyper"]
            own = self.history
            empty = History.empty(rows, own.curves.shape[2], own.genes)
            arrays = saved.arrays
            like, structure = jax.tree_util.tree_flatten_with_path({"history": _plain_tree(empty)})
            # Leaves stay NumPy arrays: JAX arrays would lose the double precision.
            leaves = [arrays[jax.tree_util.keystr(where)] for where, _ in like]
            if any(a.shape != b.shape for a, (_, b) in zip(leaves, like, strict=True)):
                raise KeyError("shape")
            tree = jax.tree_util.tree_unflatten(structure, leaves)["history"]
            tree["columns"] = {name: tree["columns"][name] for name in empty.columns}  # a pytree sorts its keys
            self.history = dataclasses.replace(empty, **tree)
            if shapes is not None:
                self.hyper = gp.Hyper(*(put(arrays[f"['hyper'][{i}]"]) for i in range(len(shapes))))
        except (KeyError, TypeError, ValueError) as error:
            raise saved.refused(f"damaged ({error} is missing or of another kind)") from None


def _behind(score: np.ndarray, broken: np.ndarray, done: int) -> np.ndarray:
    """Scores in which points that break the limit on power rank behind all others at the generation compared.

    All scores of points that break the limit are multiplied by one factor: `_BROKEN` if that is enough, else twice the
    ratio that the scores need. A factor leaves how far a score fell, which the seats for the area compare, as it is.

    Args:
        score: `[H, B]`, positive; inf where there is none.
        broken: `[H, B]` bool, where the limit is broken.
        done: generations after which the points are compared.
    """
    end, over = score[:, done - 1], broken[:, done - 1]
    there = np.isfinite(end)
    worst, least = np.max(end[there & ~over], initial=0.0), np.min(end[there & over], initial=np.inf)
    factor = _BROKEN if worst < _BROKEN * least else 2 * worst / least
    return np.where(broken & np.isfinite(score), score * factor, score)


def _leaves(hyper: gp.Hyper) -> list[np.ndarray]:
    """Hyper-parameters in the order of their fields."""
    return [np.asarray(getattr(hyper, f.name)) for f in dataclasses.fields(gp.Hyper)]


def _plain_tree(history: History) -> dict[str, object]:
    """Fields of a history by name."""
    return {f.name: getattr(history, f.name) for f in dataclasses.fields(History)}


def _padded(rows: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows `[n, M]`, 1 where masked, and their mask, both padded."""
    return fidelity.padded(np.where(mask[:, None], rows, 1).astype(np.float32), 1), fidelity.padded(mask, False)
