"""Figures of job scheduling (G#): schedule with the bandwidth that it uses, convergence, methods side by side."""

from __future__ import annotations

import dataclasses
from collections import abc
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from mohamjax.plot.style import PALETTE, clean, fill, heading, legend_below, new_figure, shade, styled
from mohamjax.schedule.segments import flow

_INCH_PER_ROW = 0.3
_BAR = 0.8
_OTHERS = 7  # tenants with a colour of their own; the rest share one
_DECADES = 20.0  # bars over more than this factor are drawn on a logarithmic axis


@dataclasses.dataclass(frozen=True)
class JobView:
    """The data of one schedule that its figures show; N jobs, A accelerators.

    Attributes:
        method: name of the method.
        accelerators: A names.
        tenants: tenant of each job; every tenant has a colour.
        start: `[N]` float [time units].
        end: `[N]` float [time units].
        duration: `[N]` float, without stalls [time units].
        bytes: `[N]` float, traffic of each job.
        accelerator: `[N]` int, of each job.
        bandwidth: bandwidth that all accelerators share [bytes per time unit].
        unit: unit of time.
    """

    method: str
    accelerators: tuple[str, ...]
    tenants: tuple[str, ...]
    start: np.ndarray
    end: np.ndarray
    duration: np.ndarray
    bytes: np.ndarray
    accelerator: np.ndarray
    bandwidth: float
    unit: str

    @property
    def makespan(self) -> float:
        """The latest end."""
        return float(np.max(self.end))


def _scaled(most: float, unit: str) -> tuple[float, str]:
    """Returns the factor to, and the name of, a unit with prefix for values up to `most`; an empty unit stays."""
    if not unit:
        return 1.0, unit
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if most >= size:
            return 1 / size, f"{name}{unit}" if unit == "s" else f"{name} {unit}"
    return 1.0, unit


def _in(unit: str) -> str:
    return f" [{unit}]" if unit else ""


def _tenant_colours(tenants: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Returns `[N]` index of each job's colour, and the labels: the most frequent tenants, then all others as one."""
    names, counts = np.unique(np.asarray(tenants, dtype=object).astype(str), return_counts=True)
    frequent = [str(names[i]) for i in np.argsort(-counts, kind="stable")[:_OTHERS]]
    index = {name: i for i, name in enumerate(frequent)}
    labels = [name or "jobs" for name in frequent]
    if len(names) > len(frequent):
        labels.append(f"{len(names) - len(frequent)} others")
    return np.asarray([index.get(str(t), len(frequent)) for t in tenants]), labels


@styled
def job_gantt(view: JobView, *, title: str) -> Figure:
    """Draws a schedule over the bandwidth that it uses (G#, Figure 13).

    Accelerators are rows, tenants colours; the more bandwidth slows a job, the paler its bar. Below are the traffic
    through the shared link, its limit, and the bandwidth that the running jobs ask for.

    Args:
        view: the schedule.
        title: title of the figure.
    """
    rows = len(view.accelerators)
    figure = new_figure(11.0, 3.0 + _INCH_PER_ROW * max(rows, 4))
    upper, lower = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [_INCH_PER_ROW * max(rows, 4), 1.35]}
    )
    factor, unit = _scaled(view.makespan, view.unit)
    seen = flow(
        view.start,
        view.end,
        view.duration,
        view.bytes,
        view.accelerator,
        [(0,)] * rows,
        [view.bandwidth],
    )
    colour_of, labels = _tenant_colours(view.tenants)
    times = seen.time * factor
    rate = np.where(seen.rate > 0, seen.rate, np.nan)
    slow = np.nanmin(rate, axis=1) if len(rate) else np.zeros(0)  # one link: all running jobs have the same rate
    for j, where in enumerate(view.accelerator):
        spans = np.flatnonzero(seen.rate[:, j] > 0)
        base, hatch = fill(int(colour_of[j]))
        # Adjacent stretches with nearly the same rate become one box, or thousands would be drawn.
        level = np.round(slow[spans] * 8) / 8
        for part in np.split(np.arange(len(spans)), np.flatnonzero(np.diff(level)) + 1):
            if not len(part):
                continue
            left, right = times[spans[part[0]]], times[spans[part[-1]] + 1]
            paler = shade(base, 0.75 * (1 - float(level[part[0]])))
            upper.broken_barh([(left, right - left)], (where - _BAR / 2, _BAR), facecolor=paler, hatch=hatch, lw=0)
    upper.vlines(
        view.start * factor, view.accelerator - _BAR / 2, view.accelerator + _BAR / 2, colors="white", linewidths=0.6
    )
    upper.set_yticks(range(rows), [clean(name, 24) for name in view.accelerators], parse_math=False)
    upper.set_ylim(rows - 0.45, -0.55)
    upper.tick_params(axis="y", length=0)
    upper.spines["left"].set_visible(False)
    for k in range(rows):
        mine = view.accelerator == k
        busy = float((view.end - view.start)[mine].sum()) / view.makespan if view.makespan else 0.0
        upper.annotate(
            f"{busy:.0%} busy", (1.0, k), (5, 0), ("axes fraction", "data"), textcoords="offset points",
            va="center", size=7.5, color="0.3",
        )  # fmt: skip
    through = seen.through[:, 0]
    asked = through / np.where(slow > 0, slow, 1.0)
    lower.fill_between(times, np.append(through, 0.0), step="post", color=PALETTE[0], alpha=0.55, lw=0)
    lower.step(times, np.append(asked, asked[-1:]), where="post", color=PALETTE[5], lw=0.8)
    finite = np.isfinite(view.bandwidth)
    if finite:
        lower.axhline(view.bandwidth, color="black", lw=0.8, ls="--")
    most = max(float(np.max(asked, initial=0.0)), float(view.bandwidth) if finite else 0.0)
    if finite and most > 2 * view.bandwidth:
        lower.set_yscale("symlog", linthresh=view.bandwidth, linscale=1.0)
        lower.yaxis.set_minor_formatter(NullFormatter())
        lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    lower.set_ylim(0, most * 1.15 if most else 1.0)
    lower.set_ylabel(f"bandwidth\n[bytes/{'cycle' if view.unit == 'cycles' else view.unit}]")
    lower.set_xlabel(f"time [{unit}]")
    lower.set_xlim(0, view.makespan * factor or 1.0)
    lower.grid(True)
    upper.grid(True, axis="x")
    handles: list = []
    for i in range(len(labels)):
        base, hatch = fill(i)
        handles.append(Patch(facecolor=base, hatch=hatch, lw=0))
    handles += [
        Patch(facecolor=PALETTE[0], alpha=0.55),
        lower.lines[0],
        *([lower.lines[1]] if finite else []),
    ]
    texts = [clean(label, 30) for label in labels] + ["flows", "asked for (paler bars: slowed)"]
    legend_below(figure, handles, texts + (["shared bandwidth"] if finite else []))
    heading(figure, title, f"{view.method}: makespan {view.makespan * factor:.4g} {unit}")
    return figure


@styled
def job_convergence(
    histories: abc.Mapping[str, Sequence[tuple[int, float]]], *, bound: float | None, label: str, unit: str, title: str
) -> Figure:
    """Draws the best value so far against the evaluations, for every method that searches.

    Args:
        histories: by method, (evaluations so far, best value so far); values may be infinite at first.
        bound: lower bound of the value, or None.
        label: what the value is.
        unit: unit of the value; may be empty.
        title: title of the figure.
    """
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    handles, texts = [], []
    values = np.concatenate([np.asarray(h, float)[:, 1] for h in histories.values()])
    values = values[np.isfinite(values)]
    factor, unit = _scaled(float(np.abs(values).max(initial=0.0)), unit)
    for i, (name, history) in enumerate(histories.items()):
        evaluations, best = np.asarray(history, float).T
        best = best * factor
        style = ("-", "--", ":")[i // len(PALETTE) % 3]
        mark = "o" if len(history) == 1 else None  # a line of one point would not be seen
        (line,) = axes.plot(evaluations, best, color=PALETTE[i % len(PALETTE)], ls=style, lw=1.4, marker=mark, ms=4)
        handles.append(line)
        texts.append(clean(name, 30))
    if bound is not None:
        handles.append(axes.axhline(bound * factor, color="black", lw=0.8, ls="--"))
        texts.append("lower bound")
    if len(values) and values.max() > 4 * values.min() > 0:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("schedules evaluated")
    axes.set_ylabel(f"best {label} so far{_in(unit)}")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(True)
    legend_below(figure, handles, texts)
    heading(figure, title)
    return figure


@styled
def method_bars(values: abc.Mapping[str, float], *, bound: float | None, label: str, unit: str, title: str) -> Figure:
    """Draws one bar per method, the best on top, with the distance to the bound.

    Bars begin at zero; those of values below it, such as a negative lateness, extend to the left.

    Args:
        values: finite value by method.
        bound: lower bound above zero, or None.
        label: what the value is.
        unit: unit of the value; may be empty.
        title: title of the figure.
    """
    names = sorted(values, key=lambda name: values[name])
    figure = new_figure(7.5, 1.1 + 0.26 * len(names))
    axes = figure.subplots()
    factor, unit = _scaled(max(abs(value) for value in values.values()), unit)
    numbers = [values[name] * factor for name in names]
    bound = None if bound is None else bound * factor
    axes.barh(range(len(names)), numbers, 0.72, color=PALETTE[0])
    axes.set_yticks(range(len(names)), [clean(name, 30) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.45, -0.55)
    if numbers[0] > 0 and numbers[-1] > _DECADES * numbers[0]:
        axes.set_xscale("log")
        axes.set_xlim(0.8 * min(numbers[0], bound or numbers[0]), 8 * numbers[-1])
    else:
        low, high = min(0.0, numbers[0]), max(0.0, numbers[-1])
        room = 0.4 * (high - low)  # beside the bars, for their values
        axes.set_xlim(low - room if low < 0 else 0.0, high + room if high > 0 else (0.05 * room or 1.0))
        if low < 0:
            axes.axvline(0.0, color="0.3", lw=0.8)
    if bound:
        axes.axvline(bound, color="black", lw=0.8, ls="--")
    for k, value in enumerate(numbers):
        text = f"{value:,.4g}" + (f" ({value / bound:.3f} x bound)" if bound else "")
        aside, side = (4, "left") if value >= 0 else (-4, "right")
        axes.annotate(text, (value, k), (aside, 0), textcoords="offset points", ha=side, va="center", size=7.5)
    axes.set_xlabel(f"{label}{_in(unit)}{' (dashed: lower bound)' if bound else ''}")
    axes.grid(True, axis="x")
    heading(figure, title)
    return figure
