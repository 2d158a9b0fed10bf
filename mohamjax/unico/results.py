"""What a hardware search found, as designs in double precision and as rows of tables."""

from __future__ import annotations

import jax
import numpy as np
import numpy.typing as npt

from mohamjax import emo
from mohamjax.runtime.struct import put
from mohamjax.schedule import Design, Evaluated, SizedDesign, padded_jobs, reevaluate
from mohamjax.schedule.design import padded
from mohamjax.schedule.setup import Setup
from mohamjax.unico.axes import Axes, hypervolume
from mohamjax.unico.search import CodesignResult

HISTORY_COLUMNS = (
    "batch",
    "hardware",
    "evaluations",
    "modelled_generations",
    "seconds",
    "front_size",
    "hypervolume",
)

WORKERS = 8  # searches that run at a time in the modelled time; HASCO runs one


def evaluated_front(result: CodesignResult) -> tuple[Evaluated, np.ndarray]:
    """Evaluates the loop nests of the front again in double precision, and keeps what is still non-dominated.

    Returns:
        The designs that no other dominates in latency, power and area, and their indices into `result.front`.
    """
    application, space = result.application, result.space
    digits = space.digits(result.history["index"][result.front])
    structure = space.variant(digits)
    used = np.unique(structure)
    templates = [space.variants[v] for v in used]
    place = np.searchsorted(used, structure)
    # The k-th design of a template has the k-th mapping of every layer.
    entry = np.asarray([np.sum(place[:i] == t) for i, t in enumerate(place)], np.int32)
    unique, most = len(application.unique_layers), int(entry.max()) + 1

    def tabled(leaf: npt.ArrayLike) -> np.ndarray:
        leaf = np.asarray(leaf)
        out = np.empty((unique, len(used), most, *leaf.shape[2:]), leaf.dtype)
        out[:] = np.moveaxis(leaf[:1], 0, 1)[:, None]
        out[:, place, entry] = np.moveaxis(leaf, 0, 1)
        return out

    count = np.tile(np.bincount(place, minlength=len(used)), (unique, 1)).astype(np.int32)
    number, layers = len(place), len(application.layers)
    designs = Design(
        order=put(np.tile(np.arange(layers, dtype=np.int32), (number, 1))),
        assignment=put(np.zeros((number, layers), np.int32)),
        mapping=put(np.repeat(entry[:, None], layers, axis=1)),
        template=put(place[:, None].astype(np.int32)),
    )
    capacity, fanout = space.sizes(digits)
    evaluated = reevaluate(
        Setup(application, tuple(templates), result.technology, result.package),
        jax.tree.map(tabled, result.mappings),
        count,
        SizedDesign(design=padded(designs, padded_jobs(layers)), capacity=capacity[:, None], fanout=fanout[:, None]),
    )
    power, area = power_of(result, evaluated), evaluated.objectives[:, 2]
    if result.config.ppa != "model":
        power, area = (result.history[name][result.front] for name in ("power_W", "area_mm2"))
    values = np.stack([evaluated.objectives[:, 0], power, area], axis=1)
    kept = emo.distinct_front(np.where(np.isfinite(values).all(axis=1, keepdims=True), values, np.inf))
    return evaluated.take(kept), kept


def power_of(result: CodesignResult, evaluated: Evaluated) -> np.ndarray:
    """Power [W] of designs: energy over latency, plus leakage."""
    latency, energy, area = np.asarray(evaluated.objectives).T
    return energy / latency + result.config.leakage * area


def hardware_rows(result: CodesignResult) -> list[dict[str, object]]:
    """One row per hardware point measured, with the columns of `hardware.csv`."""
    history, space = result.history, result.space
    digits = space.digits(history["index"])
    front = set(result.front.tolist())
    return [
        {
            **{name: column[i].item() for name, column in history.columns.items()},
            "evaluations": int(result.evaluations[i]),
            "front": int(i in front),
            **space.values(digits[i]),
        }
        for i in range(len(history))
    ]


def modelled_time(result: CodesignResult) -> np.ndarray:
    """Sequential generations up to the end of each batch, with `WORKERS` searches at a time; one for HASCO."""
    config, history = result.config, result.history
    workers = 1 if config.method.startswith("hasco") else WORKERS
    out, total = [], 0
    for b in range(int(history["batch"].max()) + 1):
        own = np.sort(history["generations"][history["batch"] == b])
        # Points that stopped at a budget ran in all rounds up to it.
        before = 0
        for budget in np.unique(own):
            total += -(-int(np.sum(own >= budget)) // workers) * (int(budget) - before)
            before = int(budget)
        out.append(total)
    return np.asarray(out)


def history_rows(result: CodesignResult) -> list[dict[str, float]]:
    """One row per batch, with the columns of `history.csv`."""
    history, cap = result.history, result.config.power_cap_W
    rows = np.flatnonzero(history.within(cap))
    axes = Axes.of(history.objectives[rows], log=True)
    modelled, out = modelled_time(result), []
    for b in range(int(history["batch"].max()) + 1):
        last = int(np.flatnonzero(history["batch"] == b)[-1])
        front = rows[rows <= last]
        front = front[emo.distinct_front(history.objectives[front])]
        out.append(
            {
                "batch": b,
                "hardware": last + 1,
                "evaluations": int(result.evaluations[last]),
                "modelled_generations": int(modelled[b]),
                "seconds": round(float(result.seconds[last]), 3),
                "front_size": len(front),
                "hypervolume": hypervolume(history.objectives[front], axes),
            }
        )
    return out
