"""The cases that the G# experiments share: batches of jobs on the settings of Table 4.

`data/gsharp_layers.csv` has the layers and `data/gsharp_batches.csv` the batches. Batches named `public-...` are those
of the public MAGMA release, for which results of its GA are known; they are read from the reference data beside the
checkout (`../shared/reference/maestro/magma_batches`).
"""

import csv
import functools
import pathlib
from collections.abc import Sequence

import numpy as np

from mohamjax.jobs.analysis import JobShapes, job_layer, job_shapes, layer_shape
from mohamjax.jobs.platform import JobBatch, named_platform, platform_table
from mohamjax.jobs.table import JobTable

DATA = pathlib.Path(__file__).resolve().parent / "data"
REFERENCE = pathlib.Path(__file__).resolve().parents[2] / "shared" / "reference" / "maestro"
BATCHES = ("mix0", "mix1", "vision0", "vision1", "lang0", "lang1", "recom0", "recom1")
SETTINGS = ("S1", "S2", "S3", "S4", "S5", "S6")


def bandwidths(setting: str) -> tuple[int, int]:
    """The paper's least and most bandwidth for a setting [bytes per cycle]."""
    return (1, 16) if setting in ("S1", "S2") else (1, 256)


PUBLIC = "public-"
"""Prefix of the names of the release's own batches."""

CASES = tuple((batch, setting, b) for setting in SETTINGS for b in bandwidths(setting) for batch in BATCHES)


TUNED = (
    ("mix0", "S4", 1),
    ("vision0", "S4", 1),
    ("lang0", "S4", 1),
    ("recom0", "S4", 1),
    ("mix0", "S2", 16),
    ("recom1", "S4", 1),
    ("lang1", "S6", 1),
    ("recom0", "S5", 1),
)
"""The cases that the operators' default rates were chosen on (`gsharp_rates.py`)."""


@functools.cache
def layers() -> dict[str, dict[str, str]]:
    """Rows of `gsharp_layers.csv` by their number."""
    with open(DATA / "gsharp_layers.csv") as stream:
        return {row["layer_id"]: row for row in csv.DictReader(stream)}


def _bounds(row: dict[str, str]) -> dict[str, int]:
    size = {letter: int(row[letter]) for letter in "KCRS"}
    if "P" in row:
        return size | {"P": int(row["P"]), "Q": int(row["Q"])}
    # The release's file gives the sizes of inputs; its layers have stride 1 and no padding.
    return size | {"P": int(row["Y"]) - size["R"] + 1, "Q": int(row["X"]) - size["S"] + 1}


def batch_of(chosen: Sequence[str]) -> JobBatch:
    """A batch with a job for each layer number; tenants are the layers' classes."""
    rows = [layers()[layer] for layer in chosen]
    return JobBatch(
        names=tuple(f"{i} {row['model']}/{row['layer']}" for i, row in enumerate(rows)),
        layers=tuple(job_layer(row["type"], _bounds(row)) for row in rows),
        tenants=tuple(row["task"] for row in rows),
        weight=(1.0,) * len(rows),
        deadline=(float("inf"),) * len(rows),
        target=tuple(range(len(rows))),
    )


@functools.cache
def named_batch(batch: str) -> JobBatch:
    """A batch of `gsharp_batches.csv`."""
    with open(DATA / "gsharp_batches.csv") as stream:
        return batch_of(next(row["layer_ids"] for row in csv.DictReader(stream) if row["batch"] == batch).split())


def fresh_batch(kind: str, seed: int, jobs: int = 100) -> JobBatch:
    """A batch drawn anew, with replacement, from the layers of a class (mix: all)."""
    pool = sorted((number for number, row in layers().items() if kind in ("mix", row["task"])), key=int)
    return batch_of(np.random.default_rng(seed).choice(pool, jobs).tolist())


@functools.cache
def batch_shapes(batch: str) -> JobShapes:
    """Shapes of the 100 jobs of a batch."""
    if not batch.startswith(PUBLIC):
        return named_batch(batch).shapes
    name, folder = batch.removeprefix(PUBLIC), REFERENCE / "magma_batches"
    with open(folder / "job_analysis.csv") as stream:
        known = {row["layer_id"]: layer_shape(row["type"], _bounds(row)) for row in csv.DictReader(stream)}
    with open(folder / "batches.csv") as stream:
        return job_shapes([known[row["layer_id"]] for row in csv.DictReader(stream) if row["batch"] == name])


@functools.cache
def public_results() -> dict[tuple[str, str, int], float]:
    """Makespans [cycles] that the public release's GA reached on its own batches (100 x 100, one seed), by case."""
    with open(REFERENCE / "magma_batches" / "reference_makespans.csv") as stream:
        return {
            (PUBLIC + row["batch"], row["platform"], int(row["system_bw"])): float(row["peer_ga"])
            for row in csv.DictReader(stream)
            if row["peer_ga"]
        }


def case_table(batch: str, setting: str, bandwidth: float, **options) -> JobTable:
    """Job table of a case; options as for `platform_table` (demand) and `named_platform` (lb, flexible)."""
    demand = options.pop("demand", "as-released")
    shapes = batch_shapes(batch)
    names = [str(i) for i in range(len(shapes))]
    return platform_table(names, shapes, named_platform(setting, **options), bandwidth, demand=demand)
