"""What all figures share: colours, units, text that fits, legends, and rendering."""

from __future__ import annotations

import functools
import io
import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib import font_manager, style
from matplotlib.artist import Artist
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FT2Font
from matplotlib.legend import Legend
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from mohamjax.errors import InputError
from mohamjax.schedule.measures import DEFAULT, measure_named

FORMATS = ("png", "svg", "pdf")
"""File formats that `rendered` gives."""

_DPI = 160
_FONT = "DejaVu Sans"  # ships with matplotlib

_STYLE = {
    "font.family": [_FONT],
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "grid.color": "0.88",
    "grid.linewidth": 0.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "mohamjax",  # without it, element names of an SVG are random
}

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Okabe and Ito's colours for the colour-blind, without black, which marks slowed layers."""

_HATCHES = ("", "////", "....", "xxxx")

_P = ParamSpec("_P")
_R = TypeVar("_R")


def styled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Runs `function` in the style of this package, and restores the user's matplotlib settings after it."""

    @functools.wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with style.context(["default", _STYLE]):
            return function(*args, **kwargs)

    return wrapper


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure of this size [inches] on an Agg canvas; nothing is registered with pyplot."""
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


# ---------------------------------------------------------------- colours


def fill(index: int) -> tuple[str, str]:
    """Returns the colour and hatch of the index-th of many things; the hatch changes when the colours repeat."""
    return PALETTE[index % len(PALETTE)], _HATCHES[index // len(PALETTE) % len(_HATCHES)]


def shade(colour: str, lightness: float) -> tuple[float, float, float]:
    """Mixes a colour with white (lightness up to 1) or black (down to -1); returns red, green and blue, 0 to 1."""
    rgb = np.asarray(to_rgb(colour))
    mixed = rgb + (1 - rgb) * lightness if lightness >= 0 else rgb * (1 + lightness)
    return float(mixed[0]), float(mixed[1]), float(mixed[2])


def ink(colour: str | tuple[float, float, float]) -> str:
    """Returns black or white, whichever is easier to read on a colour."""
    return "black" if float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114))) > 0.5 else "white"


# ---------------------------------------------------------------- units

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))


def si(values: Iterable[float], unit: str) -> tuple[float, str]:
    """Returns the factor and the unit with SI prefix that bring the largest value to 1..1000.

    Args:
        values: in `unit`.
        unit: `s` and `J` take prefixes, everything else stays as it is.

    Returns:
        The factor for the values, and the unit to write.
    """
    most = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    if unit not in ("s", "J") or most == 0:
        return 1.0, unit
    # A value just below a unit is written as 1.00 of it, not as 1000 of the next smaller unit.
    size, prefix = next((p for p in _PREFIXES if most >= 0.9995 * p[0]), _PREFIXES[-1])
    return 1.0 / size, prefix + unit


def quantity(value: float, unit: str) -> str:
    """Formats a value with its unit: `5.31 ms`."""
    factor, name = si([value], unit)
    scaled = float(f"{value * factor:.3g}")
    digits = 0 if scaled == 0 else max(0, 2 - math.floor(math.log10(abs(scaled))))
    # Units that have no prefixes (J s) leave values that are far from 1.
    return f"{scaled:.{digits}f} {name}" if digits <= 6 else f"{scaled:.3g} {name}"


def objectives_text(objectives: Sequence[float], measures: Sequence[str] = DEFAULT) -> str:
    """Formats objectives in one line; those other than latency, energy and area are named."""
    kinds = [measure_named(name) for name in measures]
    texts = [quantity(value, kind.unit).strip() for value, kind in zip(objectives, kinds, strict=True)]
    named = zip(texts, kinds, strict=True)
    return ", ".join(text if kind.name in DEFAULT else f"{kind.label} {text}" for text, kind in named)


# ---------------------------------------------------------------- text


@functools.cache
def _font_file() -> FT2Font:
    return font_manager.get_font(font_manager.findfont(_FONT))


def clean(text: object, most: int = 100) -> str:
    """Makes a user's text fit to draw: on one line, without characters that the font lacks, shortened in the middle.

    Also pass `parse_math=False` to the artist, or a dollar sign starts a formula.
    """
    signs = (" " if unicodedata.category(c).startswith("C") or c.isspace() else c for c in str(text))
    line = " ".join("".join(c if _font_file().get_char_index(ord(c)) else "?" for c in signs).split())
    return line if len(line) <= most else f"{line[: most * 2 // 3]}…{line[len(line) + 1 + most * 2 // 3 - most :]}"


def text_width(text: str, size: float) -> float:
    """Returns the width of a line of text [points]."""
    if not text:
        return 0.0
    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(family=_FONT, size=size), False)
    return float(width)


def _number(value: float, _: int | None = None) -> str:
    return f"{value:.0f}" if 1 <= value < 1e6 and value == round(value) else f"{value:.3g}"


def log_ticks(axis: Axis, low: float, high: float) -> None:
    """Labels a log axis: 1-2-5 within about two decades, only whole decades beyond."""
    decades = math.log10(high / low)
    steps = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=12 if decades < 2.2 else 6))
    axis.set_major_formatter(FuncFormatter(_number))
    axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10)), numticks=12) if decades < 6 else NullLocator())
    axis.set_minor_formatter(NullFormatter())


def legend_below(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Adds a legend under all axes, in as few rows as fit; the figure grows in height for it.

    Args:
        figure: the figure.
        handles: artists.
        labels: drawn as they are: a leading underscore or a dollar sign has no special meaning.
    """
    size = matplotlib.rcParams["legend.fontsize"]
    widths = np.asarray([text_width(label, size) + 5 * size for label in labels])  # handle and gaps
    room = (figure.get_figwidth() - 0.4) * 72
    columns = next(
        (n for n in range(len(labels), 1, -1) if sum(max(part) for part in np.array_split(widths, n)) <= room), 1
    )
    rows = -(-len(labels) // columns)
    columns = -(-len(labels) // rows)
    figure.set_figheight(figure.get_figheight() + rows * size * 1.6 / 72)
    numbers = [str(i) for i in range(len(labels))]
    write_labels(figure.legend(list(handles), numbers, loc="outside lower center", ncols=columns), labels)


def write_labels(legend: Legend, labels: Sequence[str]) -> None:
    """Replaces the labels of a legend by these, unparsed."""
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(label)


def heading(figure: Figure, *lines: str) -> None:
    """Sets the title of a figure, in one or more lines; empty ones are left out."""
    figure.suptitle("\n".join(clean(line, 150) for line in lines if line), fontsize=10, parse_math=False)


# ---------------------------------------------------------------- files


def known_format(name: str) -> str:
    """Returns the format if it is one of `FORMATS`.

    Raises:
        InputError: it is not.
    """
    if name not in FORMATS:
        raise InputError(f"figures cannot be written as {name!r}", item="format", remedy=f"use {', '.join(FORMATS)}")
    return name


@styled
def rendered(figure: Figure, kind: str) -> bytes:
    """Returns a figure as the bytes of a file; equal figures give equal bytes.

    Args:
        figure: the figure.
        kind: one of `FORMATS`: PNG with 160 dots per inch, or vectors.

    Raises:
        InputError: there is no such format.
    """
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    buffer = io.BytesIO()
    if known_format(kind) == "png" and isinstance(figure.canvas, FigureCanvasAgg) and figure.dpi == _DPI:
        # As `savefig`, without the first drawing, which it throws away: that only runs the layout, and so does this.
        figure.canvas.print_png(buffer, metadata=undated[kind])
    else:
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=undated[kind])
    return buffer.getvalue()
