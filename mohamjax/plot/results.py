"""All figures of a search."""

from __future__ import annotations

import dataclasses
from collections import abc
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from mohamjax.plot.design import area_shares, energy_breakdown, gantt
from mohamjax.plot.front import Front, convergence, front_projections, roles_by_row
from mohamjax.plot.roofline import rooflines
from mohamjax.schedule import Certificate, Evaluated, landmarks
from mohamjax.schedule.measures import DEFAULT, measure_named
from mohamjax.schedule.view import DesignView

_FIGURES = {"gantt": gantt, "area": area_shares, "energy": energy_breakdown, "roofline": rooflines}


def front_of(evaluated: Evaluated) -> Front:
    """Returns the front of designs in memory, named by their row numbers."""
    latency, energy, area = np.asarray(evaluated.reports.objectives, float).T
    chiplets = (np.asarray(evaluated.designs.template) >= 0).sum(axis=1)
    values = None if evaluated.measures == DEFAULT else evaluated.objectives
    return Front(
        latency, energy, area, chiplets=chiplets, measures=evaluated.measures, values=values,
        offsets=tuple(evaluated.offsets.tolist()),
    )  # fmt: skip


def result_figures(
    front: Front,
    view: Callable[[int], DesignView],
    *,
    title: str,
    history: Sequence[abc.Mapping[str, float]] | None = None,
    certificate: Certificate | Callable[[], Certificate | None] | None = None,
) -> Iterator[tuple[str, Figure]]:
    """Draws `gantt`, `area`, `energy` and `roofline` of the landmarks, `front` and, with a history, `convergence`.

    Args:
        front: the front, at least one design.
        view: returns the view of a design by its row.
        title: scenario and budget.
        history: rows with the columns of `history.csv`.
        certificate: bounds to draw with the front, or a function that returns them, called after all else is drawn.

    Yields:
        Names, e.g. `gantt_knee`, and figures; that of a design with several roles comes once for each role.
    """
    rows = roles_by_row(landmarks(front.objectives, front.measures, front.offsets))
    chosen = [(view(row), roles) for row, roles in rows.items()]
    kinds = [measure_named(name) for name in front.measures]
    files = [kind.key for kind in kinds]
    # Networks whose names differ only in punctuation have equal keys.
    files = [name if files.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(files)]
    file_of_role = {**{kind.role: name for kind, name in zip(kinds, files, strict=True)}, "knee": "knee"}
    for one, roles in chosen:
        one = dataclasses.replace(one, design_id=f"{one.design_id} ({', '.join(roles)})")
        for name, draw in _FIGURES.items():
            figure = draw(one, title=title)
            for role in roles:
                yield f"{name}_{file_of_role[role]}", figure
    if history is not None:
        yield "convergence", convergence(history, title=title)
    bounds = certificate() if callable(certificate) else certificate
    yield "front", front_projections(front, title=title, certificate=bounds)
