"""Initial individuals: a user's own designs, and list schedules over homogeneous and mixed packages."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.mapping import MappingTables
from mohamjax.problem.design_problem import DesignProblem
from mohamjax.problem.list_scheduling import PRIORITIES, Plans, list_scheduler, seed_packages
from mohamjax.problem.resolved import ResolvedRequirements
from mohamjax.schedule import Design
from mohamjax.schedule.design import padded
from mohamjax.search.config import MohamConfig


def list_packages(resolved: ResolvedRequirements, able: np.ndarray) -> list[tuple[int, ...]]:
    """Packages to schedule on: the fixed and the least demanded chiplets, joined with each of `seed_packages`.

    Args:
        resolved: the user's requirements.
        able: `[layers, T]` bool, templates that run each layer.

    Returns:
        Template of each chiplet, the fixed ones first, per package; only packages that keep the requirements.
    """
    templates = able.shape[1]
    base = tuple(int(t) for t in resolved.tiles[resolved.fixed])
    for t in range(templates):
        base += (t,) * max(int(resolved.least[t]) - base.count(t), 0)
    room = min(int(resolved.most[-1]), len(resolved.fixed) + len(resolved.free)) - len(base)
    added = seed_packages(templates, room, able.all(axis=0), [int(resolved.least[-1]) - len(base)]) if room > 0 else []
    packages = [base + extra for extra in ([()] if base else []) + added]

    def allowed(package: tuple[int, ...]) -> bool:
        counts = np.bincount(package, minlength=able.shape[1])
        counts = np.append(counts, counts.sum())
        uniform = not resolved.homogeneous or len(set(package)) == 1
        return uniform and bool(((counts >= resolved.least) & (counts <= resolved.most)).all())

    return [package for package in packages if allowed(package)]


def list_designs(
    problem: DesignProblem,
    tables: MappingTables,
    total_layers: int,
    *,
    priorities: Sequence[str] = PRIORITIES,
    keep: int | None = None,
) -> Design | None:
    """List schedules over homogeneous and mixed packages under several choices of mappings, as distinct designs.

    Args:
        problem: the problem.
        tables: Pareto tables.
        total_layers: L after padding.
        priorities: of `problem.list_scheduling.PRIORITIES`.
        keep: most designs, chosen by NSGA-II's survival on their estimates; default all.

    Returns:
        `Design` with a leading `[K]` axis, or None where the requirements allow no such package.
    """
    resolved = problem.resolved
    scheduler = list_scheduler(problem.setup, tables, resolved)
    packages = list_packages(resolved, scheduler.able)
    found = [scheduler.plans(packages, priority) for priority in priorities]
    plans = Plans.joined(found)
    if not len(plans):
        return None
    used = (plans.tile[:, None, :] == np.arange(plans.package.shape[1])[:, None]).any(axis=2)
    tiles = np.concatenate([resolved.fixed, resolved.free]).astype(np.int32)[: used.shape[1]]
    template = np.tile(np.where(resolved.tiles >= 0, resolved.tiles, -1).astype(np.int32), (len(plans), 1))
    template[:, tiles] = np.where(used, plans.package, template[:, tiles])
    columns = (plans.order, tiles[plans.tile], plans.mapping, template)
    # Another chiplet or another rule often changes nothing, so schedules repeat.
    _, first = np.unique(np.concatenate(columns, axis=1), axis=0, return_index=True)
    kept = np.sort(first)
    if keep is not None and keep < len(kept):
        estimate = emo.with_spare_rows(np.log(emo.positive(plans.estimate[kept])))
        index = np.sort(np.asarray(emo.survive(estimate, keep)[0]))
        kept = kept[index[index < len(kept)]]
    order, assignment, mapping, template = (jnp.asarray(column[kept]) for column in columns)
    return padded(Design(order=order, assignment=assignment, mapping=mapping, template=template), total_layers)


def seed_designs(
    problem: DesignProblem,
    tables: MappingTables,
    config: MohamConfig,
    total_layers: int,
    *,
    injected: Design | None = None,
) -> Design | None:
    """Initial individuals: a user's own designs, then list schedules.

    Args:
        problem: the problem.
        tables: Pareto tables.
        config: settings; `seeded` switches the list schedules off, not the user's designs.
        total_layers: L after padding.
        injected: the user's designs `[K, ...]`, layers not padded.

    Returns:
        `Design` with a leading axis, at most `config.seed_batches` populations; None where there are none.

    Raises:
        InputError: more designs are injected than that.
    """
    given = 0 if injected is None else len(injected.template)
    keep = config.population * config.seed_batches - given
    if keep < 0:
        raise InputError(
            f"{given} designs are to be injected, {given + keep} can be evaluated before the first generation",
            argument="designs",
            remedy="give fewer, or raise the argument `population`",
        )
    lists = None
    if config.seeded and keep:
        lists = list_designs(problem, tables, total_layers, keep=keep)
    own = None if injected is None else padded(injected, total_layers)
    chosen = [designs for designs in (own, lists) if designs is not None]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *chosen) if chosen else None
