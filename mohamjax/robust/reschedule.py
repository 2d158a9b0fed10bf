"""Schedules on fixed packages: application models on chiplets that were made for others.

No chiplet grows. Every layer has the best mapping, under its chiplet's weight, that fits every buffer and every array
of the chiplet; layers are placed and ordered as those of a plan (`plans.decode`). A model with a layer that fits no
chiplet does not run on the package.

Axes: N packages, S tiles, V levels, U unique layers, T templates, M mappings of a set, L layers (padded), A application
models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.mapping import MappingTables
from mohamjax.problem.design_problem import DesignProblem
from mohamjax.problem.plan_tables import WEIGHTS, PlanTables
from mohamjax.problem.space import Genetics
from mohamjax.runtime.programs import jit_o1
from mohamjax.runtime.struct import take
from mohamjax.schedule import Design, Evaluated, SizedDesign
from mohamjax.schedule.ensemble import reevaluate_models
from mohamjax.search.plans import THRIFT, Plan, by_upward_rank, placed
from mohamjax.text import plural
from mohamjax.workload import ApplicationModel, Ensemble, Member


@dataclasses.dataclass(frozen=True)
class Packages:
    """Fixed chiplets, and how layers choose mappings and chiplets; NumPy arrays.

    Attributes:
        template: `[N, S]` int, template on each tile, -1 where it is empty.
        capacity: `[N, S, V]` float, words per buffer instance.
        fanout: `[N, S, V, 2]` float.
        weight: `[N, S]` int, the score by which layers choose their mapping on each chiplet (index in `plans.WEIGHTS`).
        thrift: `[N]` int, exponent of energy when layers are placed (index in `plans.THRIFT`).
    """

    template: np.ndarray
    capacity: np.ndarray
    fanout: np.ndarray
    weight: np.ndarray
    thrift: np.ndarray

    @staticmethod
    def of(evaluated: Evaluated, plans: Plan) -> Packages:
        """The packages of evaluated designs `[N]`, with the weights of their plans."""
        chips = evaluated.reports.chiplets
        return Packages(
            template=np.asarray(evaluated.designs.template),
            capacity=np.asarray(chips.capacity),
            fanout=np.asarray(chips.fanout),
            weight=np.asarray(plans.weight),
            thrift=np.asarray(plans.thrift),
        )

    def under_all(self) -> Packages:
        """Each package as it is and under every weight and exponent: `[N * (1 + W * K)]`, grouped by package."""
        choices = [(w, k) for w in range(len(WEIGHTS)) for k in range(len(THRIFT))]
        weight, thrift = (np.asarray(column) for column in zip(*choices, strict=True))
        number, several = len(self.template), 1 + len(choices)
        out = _rows_of(self, np.repeat(np.arange(number), several))
        decided = np.tile(np.arange(several) - 1, number)
        own = decided < 0
        return dataclasses.replace(
            out,
            weight=np.where(own[:, None], out.weight, weight[decided][:, None]).astype(np.int32),
            thrift=np.where(own, out.thrift, thrift[decided]).astype(np.int32),
        )


@dataclasses.dataclass(frozen=True)
class Served:
    """An application model on fixed packages.

    Attributes:
        application: the model.
        rows: `[n]` int, indices of the packages that it runs on.
        evaluated: its designs on them, `[n]`; None where there are none.
        reasons: per package, why it does not run there; empty where it does.
    """

    application: ApplicationModel
    rows: np.ndarray
    evaluated: Evaluated | None
    reasons: tuple[str, ...]

    @staticmethod
    def everywhere(evaluated: Evaluated) -> Served:
        """A model that runs on all packages."""
        number = len(evaluated)
        return Served(evaluated.application, np.arange(number), evaluated, ("",) * number)

    @property
    def objectives(self) -> np.ndarray:
        """`[N, 3]` float, latency [s], energy [J], area [mm^2]; inf where the model does not run."""
        out = np.full((len(self.reasons), 3), np.inf)
        if self.evaluated is not None:
            out[self.rows] = self.evaluated.objectives
        return out


def reschedule(
    packages: Packages,
    applications: Sequence[ApplicationModel],
    problem: DesignProblem,
    tables: MappingTables,
) -> list[Served]:
    """Schedules application models on packages, each model by itself.

    Args:
        packages: N packages, N >= 1.
        applications: A models.
        problem: the problem of their joined application (`workload.ensemble.joined`).
        tables: Pareto tables of its unique layers.

    Returns:
        Every model on the packages, evaluated in double precision.
    """
    models = Ensemble(tuple(Member(application) for application in applications))
    # Only searches need random orders.
    space = problem.cast(jnp.float32).space(jax.random.key(0), tables, orders=1, ensemble=models)
    genetics: Genetics = jax.device_get(space.genetics)
    plans: PlanTables = jax.device_get(space.plans)
    parts = []
    for first in range(0, len(packages.template), _ROWS):
        rows = np.minimum(np.arange(first, first + _ROWS), len(packages.template) - 1)
        parts.append(_designs(_rows_of(packages, rows), genetics, plans, tables))
    designs, runs = jax.tree.map(lambda *x: np.concatenate(x)[: len(packages.template)], *parts)
    own = SizedDesign(design=designs, capacity=packages.capacity, fanout=packages.fanout)
    evaluated = reevaluate_models(applications, problem.setup, tables.mapping, np.asarray(tables.count), own)
    found, first = [], 0
    for own in evaluated:
        layers = own.application.layers
        lost = ~runs[:, first : first + len(layers)]
        reasons = tuple(_told(own.application, row) for row in lost)
        fits = np.flatnonzero(~lost.any(axis=1))
        found.append(Served(own.application, fits, own.take(fits) if fits.size else None, reasons))
        first += len(layers)
    return found


_ROWS = 64
"""Packages that are scheduled at once."""


def _rows_of(packages: Packages, rows: np.ndarray) -> Packages:
    return Packages(**{f.name: getattr(packages, f.name)[rows] for f in dataclasses.fields(packages)})


def _told(application: ApplicationModel, lost: np.ndarray) -> str:
    """Says which layers fit no chiplet (`lost`, `[layers]` bool); empty where all fit one."""
    if not lost.any():
        return ""
    name = application.full_names[int(np.argmax(lost))]
    others = int(lost.sum()) - 1
    more = f", nor {'does' if others == 1 else 'do'} {plural(others, 'other')}" if others else ""
    return f"layer {name} fits no chiplet{more}"


def _designs(
    packages: Packages, genetics: Genetics, plans: PlanTables, tables: MappingTables
) -> tuple[Design, np.ndarray]:
    """Designs `[N, ...]` of the joined application, and which layers fit some chiplet, `[N, L]` bool."""
    mapping, found = _fitting(packages, plans, tables)
    template = np.maximum(packages.template, 0)
    unique = np.arange(mapping.shape[2])
    time, energy = (x[template[:, :, None], mapping, unique] for x in (plans.time, plans.log_energy))
    runs = genetics.able[:, template].transpose(1, 0, 2) & (packages.template >= 0)[:, None]  # [N, L, S]
    runs &= (genetics.pin < 0)[:, None] | (genetics.pin[:, None] == np.arange(template.shape[1]))
    times, costs = (x[:, :, genetics.unique].transpose(0, 2, 1) for x in (time, energy))
    fits = runs & found[:, :, genetics.unique].transpose(0, 2, 1)
    times = np.where(fits, times, np.inf)
    costs = np.where(fits, costs, 0.0) * plans.thrift[packages.thrift][:, None, None]
    order, tile = jax.device_get(_scheduled(times.astype(np.float32), costs.astype(np.float32), genetics))
    fits = fits.any(axis=2)
    tile = np.where(fits, tile, 0)
    rows = np.arange(len(tile))[:, None]
    genes: dict[str, Any] = {
        "order": order,
        "assignment": tile,
        "mapping": np.where(fits, mapping[rows, tile, genetics.unique], 0),
        "template": packages.template,
    }
    return Design(**genes), fits


@jit_o1
def _scheduled(times: jax.Array, costs: jax.Array, genetics: Genetics) -> tuple[jax.Array, jax.Array]:
    rows = jnp.arange(times.shape[1], dtype=jnp.int32)
    order = by_upward_rank(times, rows, genetics)
    return order, placed(order, times, costs, rows, genetics)


def _fitting(packages: Packages, plans: PlanTables, tables: MappingTables) -> tuple[np.ndarray, np.ndarray]:
    """The best mapping of every unique layer on every chiplet among those that fit, and whether one does.

    Sizes are compared exactly, not by the thresholds of plans, since nothing may grow.

    Returns:
        `[N, S, U]` int32, and `[N, S, U]` bool.
    """
    capacity, fanout = np.asarray(tables.capacity), np.asarray(tables.fanout)
    unique = capacity.shape[0]
    exists = tables.exists
    mapping = np.zeros((*packages.template.shape, unique), np.int32)
    found = np.zeros(mapping.shape, bool)
    n, s = np.nonzero(packages.template >= 0)
    columns: list[Any] = [packages.template[n, s][:, None], packages.weight[n, s][:, None], packages.capacity[n, s]]
    columns.append(packages.fanout[n, s].reshape(len(n), -1))
    # Packages of a front share many chiplets.
    _, first, owner = np.unique(np.concatenate(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    owner = np.ravel(owner)  # NumPy 2.0.0 returns it with two axes
    for k, row in enumerate(first):
        at = n[row], s[row]
        t, w = packages.template[at], packages.weight[at]
        fits = exists[:, t] & (capacity[:, t] <= packages.capacity[at]).all(axis=-1)
        fits &= (fanout[:, t] <= packages.fanout[at]).all(axis=(-2, -1))
        ranked = np.asarray(plans.ranked[t, w])  # [M, U]
        good = np.take_along_axis(fits.T, ranked, axis=0)
        mine = owner == k
        mapping[n[mine], s[mine]] = ranked[good.argmax(axis=0), np.arange(unique)]
        found[n[mine], s[mine]] = good.any(axis=0)
    return mapping, found


def rows_of_tables(known: MappingTables, places: Sequence[int], new: MappingTables | None) -> MappingTables:
    """Tables of unique layers, put together from known and new ones; NumPy arrays.

    Args:
        known: tables of some layers, `[K, T, M, ...]`.
        places: per layer, its row in `known`, or -1 for the next row of `new`.
        new: tables of the other layers, with as many places per set; None where there are no others.
    """
    fresh = iter(range(len(places)))
    rows = [(known, place) if place >= 0 else (new, next(fresh)) for place in places]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *(take(table, row) for table, row in rows))
