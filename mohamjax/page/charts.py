"""The charts of a report in Vega-Lite: projections of the front, convergence, schedule, traffic, energies and areas.

The charts are plain data. The page (`page.js`) replaces the texts that begin with `$`: sizes, limits of axes, names of
rows. It gives the data by name: `designs`, `current`, `bounds`, `history`, `bars`, `slowed`, `traffic`, `energy`,
`area`. Texts from files enter a chart only as values and titles. A column may have any name, so the field of an
objective and the signals of its axis are named by its place among the objectives: `objective_0`, `objective_0_low`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypedDict

Spec = dict[str, object]
"""A part of a chart in Vega-Lite; plain data."""


class Objective(TypedDict):
    """An objective of the front.

    Attributes:
        column: its column in the table of designs.
        label: name and unit, as shown.
        log: whether its axis is logarithmic.
    """

    column: str
    label: str
    log: bool


SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

SHAPES = ("circle", "triangle-up", "square", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")

_AXES = {
    "latency_s": ("latency", "s", "format(datum.value, '.3~s') + 's'"),
    "energy_J": ("energy", "J", "format(datum.value, '.3~s') + 'J'"),
    "area_mm2": ("area [mm²]", "mm²", "format(datum.value, '.3~g')"),
}
"""Title, unit, and expression for the tick labels of each objective."""

_SECONDS = "format(datum.value, '.5~s') + 's'"


def _key(place: int) -> str:
    """The field of an objective, from which the names of its signals are made; `page.js` makes the same names."""
    return f"objective_{place}"


def _title(label: str) -> str:
    """A label as a title. Backslashes and line breaks would break expressions into which Vega-Lite writes titles.

    The space at its end is not seen: Vega takes a title such as `constructor` for what every JavaScript object has.
    """
    return "".join(sign if sign.isprintable() and sign != "\\" else " " for sign in label) + " "


_DEFAULT = tuple(Objective(column=name, label=title, log=True) for name, (title, _, _) in _AXES.items())


def _objective(place: int, objective: Objective) -> Spec:
    """The axis of an objective; the page sets its limits and ticks."""
    name, key = objective["column"], _key(place)
    seconds = "format(datum.value, '.3~s')" + (" + 's'" if name.endswith("_s") else "")
    title, _, text = _AXES.get(name, (_title(objective["label"]), "", seconds))
    return {
        "field": key,
        "type": "quantitative",
        "title": title,
        "scale": {
            **({"type": "log"} if objective["log"] else {"type": "linear", "zero": False}),
            "domain": [{"expr": f"{key}_{end}"} for end in ("low", "high")],
            "nice": False,
        },
        "axis": {
            "labelExpr": text,
            "tickCount": 6,
            "labelOverlap": "greedy",
            "values": {"expr": f"{key}_ticks"},
        },
    }


def _told(*fields: tuple[str, str, str | None]) -> list[Spec]:
    """A tooltip of fields, each (name, title, format of numbers or None for texts)."""
    return [
        {"field": name, "title": title, "type": "nominal"}
        if written is None
        else {"field": name, "title": title, "type": "quantitative", "format": written}
        for name, title, written in fields
    ]


def _result(kind: str) -> Spec:
    """Colour or shape by results folder; the page's table of results is the legend."""
    scale: Spec = {"domain": "$results"}
    if kind == "shape":
        scale["range"] = list(SHAPES)
    else:
        scale["scheme"] = "tableau10"
    return {"field": "result", "type": "nominal", "title": "results", "scale": scale, "legend": None}


def _projection(number: int, x: int, y: int, objectives: Sequence[Objective]) -> Spec:
    """One projection of the front, on two objectives: bounds, designs, and a ring around the current design."""
    place = {"x": _objective(x, objectives[x]), "y": _objective(y, objectives[y])}
    usual = [
        ("result", "results", None),
        ("id", "design", None),
        ("values.latency_s", "latency [s]", ".4~s"),
        ("values.energy_J", "energy [J]", ".4~s"),
        ("values.area_mm2", "area [mm²]", ".4~g"),
        ("values.n_chiplets", "chiplets", "d"),
    ]
    # A tooltip shows one value for each title.
    taken = {title for _, title, _ in usual}
    titles = [_title(own["label"]) for own in objectives]
    titles = [f"{title}(objective)" if title.strip() in taken else title for title in titles]
    others = [(_key(k), titles[k], ".4~s") for k, own in enumerate(objectives) if own["column"] not in _AXES]
    tooltip = _told(*usual[:2], *others, *usual[2:])
    corner = {"type": "quantitative"}
    return {
        "width": "$width",
        "height": "$height",
        "layer": [
            {
                "data": {"name": "bounds"},
                "transform": [{"filter": f"datum.projection === {number}"}],
                "mark": {
                    "type": "line",
                    "clip": True,
                    "strokeDash": [4, 3],
                    "strokeWidth": 1.2,
                },
                "encoding": {
                    "x": {**place["x"], "field": "x", **corner},
                    "y": {**place["y"], "field": "y", **corner},
                    "order": {"field": "order", "type": "quantitative"},
                    "detail": {"field": "result", "type": "nominal"},
                    "color": _result("color"),
                },
            },
            {
                "name": f"projection_{number}",
                "data": {"name": "designs"},
                "mark": {"type": "point", "filled": True, "clip": True, "cursor": "pointer"},
                "encoding": {
                    **place,
                    "color": _result("color"),
                    "shape": _result("shape"),
                    "opacity": {"condition": {"param": "brush", "value": 0.85}, "value": 0.12},
                    "size": {"value": "$point"},
                    "tooltip": tooltip,
                },
            },
            {
                "data": {"name": "current"},
                "mark": {
                    "type": "point",
                    "clip": True,
                    "filled": False,
                    "size": 190,
                    "strokeWidth": 2.2,
                    "color": "$ink",
                },
                "encoding": {**place, "tooltip": tooltip},
            },
        ],
    }


def _front(objectives: Sequence[Objective]) -> Spec:
    pairs = list(itertools.combinations(range(len(objectives)), 2))
    signals = [f"{_key(k)}_{what}" for what in ("low", "high", "ticks") for k in range(len(objectives))]
    interval = {"type": "interval", "resolve": "global", "zoom": False}
    return {
        "$schema": SCHEMA,
        "params": [
            *({"name": name, "value": f"${name}"} for name in signals),
            {"name": "brush", "select": interval, "views": [f"projection_{k}" for k in range(len(pairs))]},
        ],
        "columns": "$columns",
        "spacing": 34,
        "concat": [_projection(number, x, y, objectives) for number, (x, y) in enumerate(pairs)],
    }


def _convergence() -> Spec:
    return {
        "$schema": SCHEMA,
        "data": {"name": "history"},
        "width": "$width",
        "height": 190,
        "mark": {"type": "line", "point": {"size": 14, "filled": True}, "strokeWidth": 1.5},
        "encoding": {
            "x": {
                "field": "evaluations",
                "type": "quantitative",
                "title": "evaluations",
                "axis": {"format": "~s", "labelOverlap": "greedy", "tickCount": 8},
            },
            "y": {"field": "hypervolume", "type": "quantitative", "title": "hypervolume", "scale": {"zero": False}},
            "color": _result("color"),
            "shape": _result("shape"),
            "tooltip": _told(
                ("result", "results", None), ("evaluations", "evaluations", ",d"), ("hypervolume", "hypervolume", ".5f")
            ),
        },
    }


def _time() -> Spec:
    return {
        "field": "start",
        "type": "quantitative",
        "title": "time",
        "scale": {"domain": [0, "$latency"], "nice": False, "zero": False},
        "axis": {"labelExpr": _SECONDS, "labelOverlap": "greedy", "tickCount": 8},
    }


def _lane() -> Spec:
    """The chiplet of a bar, as a row of the chart."""
    return {
        "field": "lane",
        "type": "ordinal",
        "title": None,
        "scale": {"domain": "$lanes", "paddingInner": 0.16},
        "axis": {"labelLimit": 150},
    }


def _told_of_layer() -> list[Spec]:
    return _told(
        ("layer", "layer", None),
        ("network", "network", None),
        ("lane", "chiplet", None),
        ("start", "start [s]", ".6~s"),
        ("end", "end [s]", ".6~s"),
        ("alone", "alone [s]", ".4~s"),
        ("lost", "lost to bandwidth", ".1%"),
        ("energy", "energy [J]", ".4~s"),
        ("bytes", "off-chip bytes", ".4~s"),
    )


def _bars() -> Spec:
    """A bar for each layer; the picked one has an outline."""
    chosen = {"test": "datum.number === picked", "value": "$ink"}
    network = {
        "field": "network",
        "type": "nominal",
        "title": "network",
        "scale": {"domain": "$networks", "scheme": "tableau10"},
        "legend": {"orient": "top", "labelLimit": 260, "columns": 4},
    }
    return {
        "name": "gantt",
        "data": {"name": "bars"},
        "mark": {"type": "bar", "clip": True, "cursor": "pointer", "height": {"band": 1}},
        "encoding": {
            "x": _time(),
            "x2": {"field": "end"},
            "y": _lane(),
            "color": network,
            "stroke": {"condition": chosen, "value": "$paper"},
            "strokeWidth": {"condition": {**chosen, "value": 3}, "value": 0.6},
            "tooltip": _told_of_layer(),
        },
    }


def _slowed() -> Spec:
    """Strips at the foot of the bars, where bandwidth slows the layers."""
    return {
        "data": {"name": "slowed"},
        "mark": {"type": "bar", "clip": True, "height": {"band": 0.2}, "yOffset": "$foot", "color": "$ink"},
        "encoding": {
            "x": _time(),
            "x2": {"field": "end"},
            "y": _lane(),
            "opacity": {
                "field": "lost",
                "type": "quantitative",
                "scale": {"domain": [0, 1], "range": [0.25, 1]},
                "legend": None,
            },
            "tooltip": _told(
                ("layer", "layer", None),
                ("cause", "slowed by", None),
                ("lost", "speed lost", ".1%"),
                ("start", "start [s]", ".6~s"),
                ("end", "end [s]", ".6~s"),
            ),
        },
    }


def _names() -> Spec:
    """Names of layers on their bars.

    Names that do not fit are empty: transparent ones would cover neighbouring bars and take their clicks.
    """
    wide = "scale('concat_0_x', datum.end) - scale('concat_0_x', datum.start)"
    name = f"{wide} > 5.4 * length(datum.layer) + 4 ? datum.layer : ''"
    return {
        "data": {"name": "bars"},
        "mark": {
            "type": "text",
            "clip": True,
            "fontSize": 9,
            "color": "black",
            "align": "left",
            "dx": 3,
            "text": {"expr": name},
        },
        "encoding": {"x": _time(), "y": _lane(), "tooltip": _told_of_layer()},
    }


def _traffic() -> Spec:
    """The traffic through the shared resources: a row for each, coloured by the share of its bandwidth."""
    return {
        "name": "traffic",
        "data": {"name": "traffic"},
        "width": "$width",
        "height": "$resources",
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": _time(),
            "x2": {"field": "end"},
            "y": {
                "field": "top",
                "type": "quantitative",
                "title": None,
                "scale": {"domain": ["$rows", 0], "nice": False, "zero": False},
                "axis": {
                    "values": "$middles",
                    "labelExpr": "resources[floor(datum.value)]",
                    "labelLimit": 150,
                    "grid": False,
                    "ticks": False,
                },
            },
            "y2": {"field": "foot"},
            "color": {
                "condition": {"test": "datum.limit === 'unlimited'", "value": "#8a94a0"},
                "field": "share",
                "type": "quantitative",
                "title": "share of bandwidth",
                "scale": {"domain": [0, 1], "range": ["#9ecae1", "#d7301f"]},
                "legend": {"orient": "bottom", "format": ".0%", "gradientLength": 160},
            },
            "tooltip": _told(
                ("resource", "resource", None),
                ("written", "flows", None),
                ("limit", "bandwidth", None),
                ("start", "from [s]", ".6~s"),
                ("end", "to [s]", ".6~s"),
            ),
        },
    }


def _schedule() -> Spec:
    """The Gantt chart above the traffic through the shared resources, with one zoom for both."""
    gantt = {"width": "$width", "height": "$gantt", "layer": [_bars(), _slowed(), _names()]}
    return {
        "$schema": SCHEMA,
        "params": [
            {"name": "picked", "value": -1},
            {"name": "resources", "value": "$names"},
            {
                "name": "zoom",
                "select": {
                    "type": "interval",
                    "encodings": ["x"],
                    "zoom": "wheel![event.shiftKey || event.ctrlKey]",
                    "clear": "dblclick",
                },
                "bind": "scales",
                "views": ["gantt", "traffic"],
            },
        ],
        "spacing": 8,
        "vconcat": [gantt, _traffic()],
        "resolve": {"scale": {"color": "independent"}},
    }


def _shares(data: str, title: str, text: str, unit: str) -> Spec:
    """Stacked bars per chiplet."""
    return {
        "$schema": SCHEMA,
        "data": {"name": data},
        "width": "$width",
        "height": "$stacks",
        "mark": {"type": "bar", "stroke": "$paper", "strokeWidth": 0.4},
        "encoding": {
            "y": {"field": "lane", "type": "ordinal", "title": None, "scale": {"domain": "$lanes"}},
            "x": {
                "field": "value",
                "type": "quantitative",
                "title": title,
                "axis": {"labelExpr": text, "tickCount": 5},
            },
            "color": {
                "field": "part",
                "type": "nominal",
                "title": None,
                "sort": None,
                "scale": {"domain": f"${data}Parts", "scheme": "tableau20" if data == "area" else "tableau10"},
                "legend": {"orient": "bottom", "columns": 3, "labelLimit": 180},
            },
            "order": {"field": "number", "type": "quantitative"},
            "tooltip": _told(
                ("lane", "chiplet", None), ("part", "part", None), ("value", unit, ".4~s"), ("share", "of all", ".1%")
            ),
        },
    }


def charts(objectives: Sequence[Objective] = _DEFAULT) -> dict[str, Spec]:
    """Returns all charts by name, for the page to fill in.

    Args:
        objectives: the two or three objectives of the front.
    """
    return {
        "front": _front(objectives),
        "convergence": _convergence(),
        "schedule": _schedule(),
        "energy": _shares("energy", "energy", "format(datum.value, '.3~s') + 'J'", "energy [J]"),
        "area": _shares("area", "area [mm²]", "format(datum.value, '.3~g')", "area [mm²]"),
    }
