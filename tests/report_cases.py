"""Made-up results for reports, built around three real designs, and one whose names are all markup."""

import base64
import dataclasses
import gzip
import json
import re

import numpy as np

from mohamjax.page import Result
from mohamjax.schedule.measures import measure_named

COLUMNS = ("generation", "evaluations", "seconds", "hypervolume", "front_size", "stability")
HISTORY = [dict(zip(COLUMNS, (g, 64 + 70 * g, g / 2, 0.3 + g / 64, 3, 0.5), strict=True)) for g in range(5)]
CONFIG = {"scenario": "toy", "budget": "tiny", "seed": 3, "versions": {"jax": "1.2.3"}, "technology_hash": "abcd"}
HOSTILE = '</script><script>window.owned = 1</script><img src="http://a.b/c" onerror="window.owned = 1">\u2028{{data}}'


NAMES = [
    ("latency:a.b", "latency:a-b", "latency:a_b"),  # differ in signs that names of signals cannot have
    ("latency:yolo.v3", "energy", "area"),  # a path in an object for Vega, unless it is escaped
    ("latency:größe", "own:x[Ω]", "latency:net[1]"),
    ("own:id", "own:result", "own:key"),  # what the page knows of a design beside its values
    ("own:r", "own:i", "own:whole"),
    ("own:values", "own:objective_1", "own:design"),
    ("own:constructor", "own:toString", "latency:__proto__"),  # what every object of JavaScript has
    ("latency:a\\", 'latency:"\n\u2028', "area"),  # would end a text in an expression
]
"""Names of objectives that files can state."""


def rows_of(evaluated, count):
    """Rows of a made-up front of `count` designs near those of the toy."""
    rng = np.random.default_rng(count)
    values = np.asarray(evaluated.objectives)[np.arange(count) % len(evaluated)] * np.exp(
        rng.uniform(-1, 1, (count, 3))
    )
    columns = "latency_s", "energy_J", "area_mm2"
    return [
        {
            "design_id": str(i),
            **dict(zip(columns, map(float, row), strict=True)),
            "n_chiplets": 1 + i % 4,
            "n_simba": i % 3,
        }
        for i, row in enumerate(values)
    ]


def made_up(evaluated, count, name="made up", **others):
    """A front of `count` designs, each shown in full as one of the toy designs."""
    place = {str(i): i % len(evaluated) for i in range(count)}
    front = rows_of(evaluated, count)
    return Result(name, f"{name}, seed 0", "search", front, HISTORY, CONFIG, (), None, evaluated, place, **others)


def unpacked(text):
    """The data embedded in a page."""
    found = re.search(r'<script id="data" type="text/plain">([A-Za-z0-9+/=]*)</script>', text)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def hostile(evaluated, count=5):
    """A result whose texts are all markup."""
    application = evaluated.application
    networks = [
        dataclasses.replace(
            n, name=HOSTILE + n.name, layers=tuple(dataclasses.replace(x, name=HOSTILE) for x in n.layers)
        )
        for n in application.networks
    ]
    evaluated = dataclasses.replace(evaluated, application=dataclasses.replace(application, networks=tuple(networks)))
    front = [{**row, "design_id": HOSTILE + row["design_id"], HOSTILE: HOSTILE} for row in rows_of(evaluated, count)]
    place = {row["design_id"]: i % len(evaluated) for i, row in enumerate(front)}
    return Result(
        HOSTILE, HOSTILE, HOSTILE, front, HISTORY, {HOSTILE: HOSTILE}, [(HOSTILE, HOSTILE)], None, evaluated, place
    )


def called(evaluated, count, names, name="called"):
    """A front of `count` designs over objectives with these names."""
    result = made_up(evaluated, count, name, measures=names)
    columns = [measure_named(own).column for own in names]
    values = np.exp(np.random.default_rng(count).uniform(-1, 1, (count, len(names))))
    for row, own in zip(result.front, values.tolist(), strict=True):
        row |= {column: value for column, value in zip(columns, own, strict=True) if column not in row}
    return result
