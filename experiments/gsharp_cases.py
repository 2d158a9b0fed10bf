"""The cases that the G# experiments share: reference batches on the settings of Table 4.

Read from the reference data beside the checkout (`../shared/reference/maestro`): `job_analysis.csv` for the layers of
`batches.csv`; and, named `public-...`, the batches of the public MAGMA release (`magma_batches`), for which results of
its GA are known.
"""

import csv
import functools
import pathlib

import numpy as np

from mohamjax.jobs.analysis import JobShapes, job_shapes, layer_shape
from mohamjax.jobs.platform import named_platform, platform_table
from mohamjax.jobs.table import JobTable

REFERENCE = pathlib.Path(__file__).resolve().parents[2] / "shared" / "reference" / "maestro"
BATCHES = ("mix0", "mix1", "vision0", "vision1", "lang0", "lang1", "recom0", "recom1")
SETTINGS = ("S1", "S2", "S3", "S4", "S5", "S6")


def bandwidths(setting: str) -> tuple[int, int]:
    """The least and the most bandwidth of the paper [bytes per cycle]."""
    return (1, 16) if setting in ("S1", "S2") else (1, 256)


PUBLIC = "public-"
"""What the names of the release's own batches begin with."""

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
def _layers(folder: pathlib.Path = REFERENCE) -> dict[str, dict]:
    def bounds(row: dict[str, str]) -> dict[str, int]:
        size = {letter: int(row[letter]) for letter in "KCRS"}
        if "P" in row:
            return size | {"P": int(row["P"]), "Q": int(row["Q"])}
        # The release's file has the sizes of inputs; its layers have stride 1 and no padding.
        return size | {"P": int(row["Y"]) - size["R"] + 1, "Q": int(row["X"]) - size["S"] + 1}

    with open(folder / "job_analysis.csv") as stream:
        return {row["layer_id"]: layer_shape(row["type"], bounds(row)) for row in csv.DictReader(stream)}


@functools.cache
def batch_shapes(batch: str) -> JobShapes:
    """Shapes of the 100 jobs of a batch."""
    folder = REFERENCE / "magma_batches" if batch.startswith(PUBLIC) else REFERENCE
    name = batch.removeprefix(PUBLIC)
    with open(folder / "batches.csv") as stream:
        layers = _layers(folder)
        return job_shapes([layers[row["layer_id"]] for row in csv.DictReader(stream) if row["batch"] == name])


@functools.cache
def public_results() -> dict[tuple[str, str, int], float]:
    """Cases of the public release's own batches, and the makespans that its GA reached (100 x 100, one seed)."""
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


def fresh_table(kind: str, setting: str, bandwidth: float, seed: int, jobs: int = 100) -> JobTable:
    """Job table of a batch drawn anew, with replacement, from the layers of a class (mix: all)."""
    with open(REFERENCE / "job_analysis.csv") as stream:
        pool = sorted({row["layer_id"] for row in csv.DictReader(stream) if kind in ("mix", row["app"])}, key=int)
    chosen = np.random.default_rng(seed).choice(pool, jobs)
    shapes = job_shapes([_layers()[layer] for layer in chosen])
    return platform_table([str(i) for i in range(jobs)], shapes, named_platform(setting), bandwidth)
