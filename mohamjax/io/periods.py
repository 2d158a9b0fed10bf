"""Designs over several periods in a file, format `design-periods/1` (JSON).

`designs` has an entry per valid design: `design_id`; `networks`, each with `name`, `frames`, `throughput_per_s` (null
for fewer than three frames) and `latency_s` of every frame; `worst_lateness_s` (null without deadlines),
`missed_deadlines`; and for the steady state `busy`, the share of time that each chiplet is busy, and `used`, the share
of each resource's bandwidth that is used (docs/concepts/tenants.md).
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence

import jax
import numpy as np

from mohamjax.io.designs import DesignRow
from mohamjax.io.files import dump_json, write_text
from mohamjax.schedule import Evaluated, run_periods

PERIODS_FORMAT = "design-periods/1"


def periods_document(rows: Sequence[DesignRow], evaluated: Evaluated, periods: int) -> dict[str, object]:
    """Runs designs for several periods; returns a `design-periods/1` document.

    Args:
        rows: rows from `evaluate_designs`.
        evaluated: the valid designs, from `evaluate_designs`.
        periods: number of periods of the slowest network.

    Raises:
        InputError: as `run_periods`.
    """
    found = []
    for k, row in enumerate(row for row in rows if row["valid"]):
        design, report = jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[k], (evaluated.designs, evaluated.reports))
        seen = run_periods(design, report, evaluated.application, evaluated.package, periods)
        networks = [
            {
                "name": network.name,
                "frames": int((seen.frames.network == n).sum()),
                "throughput_per_s": _number(seen.throughput[n]),
                "latency_s": seen.latency[seen.frames.network == n].tolist(),
            }
            for n, network in enumerate(evaluated.application.networks)
        ]
        found.append(
            {
                "design_id": row["design_id"],
                "networks": networks,
                "worst_lateness_s": _number(seen.worst_lateness),
                "missed_deadlines": seen.missed,
                "busy": seen.busy[np.asarray(report.chiplets.occupied)].tolist(),
                "used": seen.used,
            }
        )
    return {"format": PERIODS_FORMAT, "periods": periods, "designs": found}


def write_periods(path: str | pathlib.Path, rows: Sequence[DesignRow], evaluated: Evaluated, periods: int) -> None:
    """Writes `periods_document` atomically."""
    write_text(path, dump_json(periods_document(rows, evaluated, periods)))


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
