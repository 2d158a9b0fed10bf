"""How far SRAM interpolation is from the table at sizes that it does not know.

    python experiments/technology_error.py [SRAM_TABLE.csv]

Every line leaves rows out of the table, builds the technology from the rest and compares at the rows left out:

- one out: each row between two others of its width, one at a time (the next rows are 1.33 or 1.5 times away);
- 1.5 * 2^k out: all row counts between powers of two at once;
- width out: one whole width between two others.

"Outside CACTI's range" are sizes that the table's source scales by a rule (below 32 bits or 64 rows).
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys

import numpy as np

from mohamjax.hardware import COMPONENT_CLASSES, component_costs, load_technology
from mohamjax.hardware.technology import packaged_sram_rows, read_sram_rows, sram_grid

WIDTH, DEPTH, PORTS = 0, 1, 2
QUANTITIES = ("read energy", "write energy", "area")


def errors(rows: np.ndarray, left_out: np.ndarray, at: np.ndarray) -> np.ndarray:
    """`[n, 3]` relative errors at the rows of the mask `at`; the technology knows all rows but `left_out`."""
    # Without the part of the address generator: the table holds the bare memory.
    technology = dataclasses.replace(load_technology(), sram=sram_grid(rows[~left_out]), address_generator=np.zeros(3))
    want = rows[at]
    sram = COMPONENT_CLASSES.index("sram")
    got = component_costs(technology, sram, want[:, DEPTH], want[:, WIDTH], want[:, PORTS].astype(int))
    return np.stack([np.asarray(g) for g in got], axis=-1) / want[:, 3:] - 1


def inner(rows: np.ndarray, axis: int) -> np.ndarray:
    """Mask of the rows that lie strictly between others along `axis` (width or depth), the rest being equal."""
    other = DEPTH if axis == WIDTH else WIDTH
    out = np.zeros(len(rows), bool)
    for i, row in enumerate(rows):
        same = rows[(rows[:, other] == row[other]) & (rows[:, PORTS] == row[PORTS]), axis]
        out[i] = same.min() < row[axis] < same.max()
    return out


def one_out(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every inner row left out alone: the rows and their `[n, 3]` errors."""
    index = np.flatnonzero(inner(rows, DEPTH))
    return rows[index], np.concatenate([errors(rows, mask, mask) for mask in np.eye(len(rows), dtype=bool)[index]])


def between_powers(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All inner row counts that are no power of two left out together."""
    mask = inner(rows, DEPTH) & (np.log2(rows[:, DEPTH]) % 1 != 0)
    return rows[mask], errors(rows, mask, mask)


def width_out(rows: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """One width left out of each port count that has wider and narrower ones; seen where both neighbours have rows."""
    at = (rows[:, WIDTH] == width) & inner(rows, WIDTH)
    ports = np.unique(rows[at, PORTS])
    return rows[at], errors(rows, (rows[:, WIDTH] == width) & np.isin(rows[:, PORTS], ports), at)


def report(name: str, rows: np.ndarray, error: np.ndarray) -> None:
    """Print median and largest absolute errors, inside and outside CACTI's range."""
    clamped = (rows[:, WIDTH] < 32) | (rows[:, DEPTH] < 64)
    for part, mask in (("CACTI's range", ~clamped), ("outside CACTI's range", clamped)):
        if mask.any():
            size = np.abs(error[mask])
            figures = "  ".join(f"{m:6.2%} {b:7.2%}" for m, b in zip(np.median(size, 0), size.max(0), strict=True))
            print(f"{name:<18} {part:<22} {mask.sum():5d}  {figures}")


def main(path: str | None = None) -> None:
    """Print the table of errors."""
    rows = packaged_sram_rows() if path is None else read_sram_rows(pathlib.Path(path).read_text(), path)
    print(f"{'left out':<18} {'sizes':<22} {'rows':>5}  " + "  ".join(f"{q:>14}" for q in QUANTITIES))
    print(" " * 48 + "  ".join("median largest" for _ in QUANTITIES))
    report("one", *one_out(rows))
    report("1.5 * 2^k", *between_powers(rows))
    for width in np.unique(rows[inner(rows, WIDTH), WIDTH]):
        report(f"width {width:.0f}", *width_out(rows, width))


if __name__ == "__main__":
    main(*sys.argv[1:2])
