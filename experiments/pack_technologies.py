"""Packs the SRAM tables of the reference data into `mohamjax/hardware/tables/`, one compressed file per technology.

    python experiments/pack_technologies.py ../shared/reference/timeloop/component_tables

Figures are taken as they are; columns that no look-up needs (the name of the estimator, `clamped`) are left out. The
dense 45 nm table ends at 65,536 rows; to keep look-ups beyond as near as they were, it gets the larger sizes of the
coarse table, which agrees with it wherever both have a row. Equal tables give equal packed files.
"""

import csv
import pathlib
import sys

import numpy as np

from mohamjax.hardware.technology import SRAM_COLUMNS

DENSE = ("width_bits", "rows", "ports", "read_pJ", "write_pJ", "area_um2", "leakage_mW", "access_ns", "cycle_ns")
TARGET = pathlib.Path(__file__).parents[1] / "mohamjax" / "hardware" / "tables"
LARGEST = 65_536


def columns(path: pathlib.Path, names: tuple[str, ...]) -> np.ndarray:
    """`[R, 9]` float64; NaN where the file has no such column."""
    with path.open(newline="") as file:
        return np.array([[float(row.get(name, "nan")) for name in names] for row in csv.DictReader(file)])


def pack(name: str, rows: np.ndarray) -> None:
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0], rows[:, 2]))]
    assert len(np.unique(rows[:, :3], axis=0)) == len(rows)
    path = TARGET / f"sram_{name}.npz"
    whole = dict(zip(SRAM_COLUMNS, rows.T, strict=True))
    sizes = {column: whole[column].astype(np.int32) for column in SRAM_COLUMNS[:3]}
    np.savez_compressed(path, **(whole | sizes))
    print(f"{path.name}: {len(rows)} rows, {path.stat().st_size} bytes")


def main(folder: str) -> None:
    source = pathlib.Path(folder)
    coarse = columns(source / "sram_cacti_45nm.csv", SRAM_COLUMNS)
    pack("45nm-coarse", coarse)
    for node in (22, 32, 45, 65, 90):
        rows = columns(source / "dense" / f"sram_{node}nm.csv", DENSE)
        if node == 45:
            rows = np.concatenate([rows, coarse[coarse[:, 1] > LARGEST]])
        pack(f"{node}nm", rows)


if __name__ == "__main__":
    main(*sys.argv[1:2])
