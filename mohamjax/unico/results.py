"""The results folder of a hardware search, in the formats of a search (DESIGN section 8).

- `front.csv`: as of `search`, then `power_W`, `robustness`, `generations` and the sizes of the hardware;
- `designs.json` (`designs/1`): every accelerator of the front alone in its package, with its sizes and the mappings of
  every layer: what `evaluate designs` and the exports read;
- `history.csv`: a row per batch: `batch, hardware, evaluations, modelled_generations, seconds, front_size, hypervolume`
  (on the logarithmic min-max axes of all that this search measured, up to 1.1);
- `hardware.csv`: a row per hardware point measured; `config.yaml`; `checkpoint.npz`; `figures/`.
"""

from __future__ import annotations

import csv
import io
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import yaml

from mohamjax import emo
from mohamjax.io.designs import Evaluated, reevaluate, write_designs
from mohamjax.io.files import write_text
from mohamjax.io.results import front_rows, plain
from mohamjax.schedule import Design
from mohamjax.unico.history import OBJECTIVES, non_dominated
from mohamjax.unico.protocol import REFERENCE, Axes
from mohamjax.unico.search import CodesignResult

__all__ = ["HISTORY_COLUMNS", "codesign_front", "evaluated_front", "hardware_rows", "history_rows", "write_codesign"]

HISTORY_COLUMNS = (
    "batch",
    "hardware",
    "evaluations",
    "modelled_generations",
    "seconds",
    "front_size",
    "hypervolume",
)

WORKERS = 8  # of the modelled time; HASCO searches one point at a time


def evaluated_front(result: CodesignResult) -> tuple[Evaluated, np.ndarray]:
    """The front in double precision, from its loop nests on, and what is left of it there.

    Returns:
        The designs, and the rows of `result.front` that they are: those that no other dominates in latency, power and
        area.
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

    def tabled(leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        out = np.empty((unique, len(used), most, *leaf.shape[2:]), leaf.dtype)
        out[:] = np.moveaxis(leaf[:1], 0, 1)[:, None]
        out[:, place, entry] = np.moveaxis(leaf, 0, 1)
        return out

    count = np.tile(np.bincount(place, minlength=len(used)), (unique, 1)).astype(np.int32)
    number, layers = len(place), len(application.layers)
    genes: dict[str, Any] = {
        "order": np.tile(np.arange(layers, dtype=np.int32), (number, 1)),
        "assignment": np.zeros((number, layers), np.int32),
        "mapping": np.repeat(entry[:, None], layers, axis=1),
        "template": place[:, None].astype(np.int32),
    }
    designs = Design(**genes)
    capacity, fanout = space.sizes(digits)
    evaluated = reevaluate(
        application,
        templates,
        result.technology,
        result.package,
        jax.tree.map(tabled, result.mappings),
        count,
        _padded(designs, layers),
        sizes=(capacity[:, None], fanout[:, None]),
    )
    values = np.stack([evaluated.objectives[:, 0], _power(result, evaluated), evaluated.objectives[:, 2]], axis=1)
    kept = non_dominated(np.where(np.isfinite(values), values, np.inf))
    return evaluated.take(kept), kept


def _padded(designs: Any, layers: int) -> Any:
    """Designs with as many layers as the evaluation pads to."""
    from mohamjax.search.seeding import padded

    return padded(designs, 32 * -(-layers // 32))


def _power(result: CodesignResult, evaluated: Evaluated) -> np.ndarray:
    """Power [W] of designs: energy over latency, and leakage."""
    latency, energy, area = np.asarray(evaluated.objectives).T
    return energy / latency + result.config.leakage * area


def codesign_front(result: CodesignResult, evaluated: Evaluated, kept: np.ndarray) -> list[dict[str, Any]]:
    """One row per design, as in `front.csv`."""
    history, rows = result.history, result.front[kept]
    power = _power(result, evaluated)
    out = []
    for i, row in enumerate(front_rows(evaluated)):
        at = rows[i]
        values = result.space.values(result.space.digits(history["index"][at : at + 1])[0])
        model = result.config.ppa == "model"
        own = {
            "power_W": float(power[i]) if model else float(history["power_W"][at]),
            "robustness": float(history["robustness"][at]),
            "samples": int(history["samples"][at]),
            "generations": int(history["generations"][at]),
        }
        if not model:
            row["area_mm2"] = float(history["area_mm2"][at])
        out.append({**row, **own, **values})
    return out


def hardware_rows(result: CodesignResult) -> list[dict[str, Any]]:
    """One row per hardware point measured, as in `hardware.csv`."""
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
    """Generations one after the other up to the end of each batch, with `WORKERS` searches at a time; 1 for HASCO."""
    config, history = result.config, result.history
    workers = 1 if config.method.startswith("hasco") else WORKERS
    out, total = [], 0
    for b in range(int(history["batch"].max()) + 1):
        own = np.sort(history["generations"][history["batch"] == b])
        # Points that stop at a budget ran in all rounds up to it.
        before = 0
        for budget in np.unique(own):
            total += -(-int(np.sum(own >= budget)) // workers) * (int(budget) - before)
            before = int(budget)
        out.append(total)
    return np.asarray(out)


def history_rows(result: CodesignResult) -> list[dict[str, Any]]:
    """One row per batch, as in `history.csv`."""
    history, cap = result.history, result.config.power_cap_W
    rows = np.flatnonzero(history.within(cap))
    axes = Axes.of(history.objectives[rows], log=True)
    modelled, out = modelled_time(result), []
    for b in range(int(history["batch"].max()) + 1):
        last = int(np.flatnonzero(history["batch"] == b)[-1])
        front = rows[(rows <= last)]
        front = front[non_dominated(history.objectives[front])] if len(front) else front
        scaled = emo.with_spare_rows(axes.scaled(history.objectives[front].reshape(-1, len(OBJECTIVES))))
        out.append(
            {
                "batch": b,
                "hardware": last + 1,
                "evaluations": int(result.evaluations[last]),
                "modelled_generations": int(modelled[b]),
                "seconds": round(float(result.seconds[last]), 3),
                "front_size": len(front),
                "hypervolume": float(emo.hypervolume(scaled, np.full(len(OBJECTIVES), REFERENCE))),
            }
        )
    return out


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, numbers in full."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: repr(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    return text.getvalue()


def write_codesign(folder: pathlib.Path, result: CodesignResult) -> list[dict[str, Any]]:
    """Writes all files of a results folder but figures and checkpoint, each atomically.

    Args:
        folder: from `io.prepare_folder`.
        result: the search.

    Returns:
        The rows of `front.csv`.
    """
    evaluated, kept = evaluated_front(result)
    front = codesign_front(result, evaluated, kept)
    write_text(folder / "front.csv", csv_text(front))
    write_designs(folder / "designs.json", evaluated, result.application.name)
    write_text(folder / "history.csv", csv_text(history_rows(result)))
    write_text(folder / "hardware.csv", csv_text(hardware_rows(result)))
    record = yaml.safe_dump(plain(result.record()), sort_keys=False, allow_unicode=True)
    write_text(folder / "config.yaml", record)
    return front
