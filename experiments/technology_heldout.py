"""Asks CACTI for sizes that the packaged SRAM tables do not have (the extra `technology`, Python 3.12).

    python experiments/technology_heldout.py drawn > experiments/results/technology_heldout.csv
    python experiments/technology_heldout.py chiplets > experiments/results/technology_chiplets.csv

`drawn` draws sizes for every node with a fixed seed. Row counts are log-uniform over the multiples of 16 from 16 to
65,536 that are no row of the table; half of the sizes have a width of the table, half another multiple of 8 bits from
40 to 504. At 45 nm there are 200 sizes with one port and 50 with two; the other nodes have 50 each. `chiplets` takes
every size at 45 nm that SRAMs of the packaged templates can have, in multiples of 16 rows: about 1,200, four minutes of
one core. `experiments/technology_error.py` compares them with the tables.
"""

import csv
import sys

import numpy as np

from mohamjax.hardware import load_templates, packaged_templates
from mohamjax.hardware.cacti import memories_of, sram_figures
from mohamjax.hardware.technology import SRAM_COLUMNS, packaged_sram_rows

DRAWN = (("45nm", 1, 200), ("45nm", 2, 50), ("22nm", 1, 50), ("32nm", 1, 50), ("65nm", 1, 50), ("90nm", 1, 50))


def sizes(name: str, ports: int, count: int) -> list[tuple[int, int]]:
    """`count` random pairs of width and row count that the table does not have."""
    rng = np.random.default_rng([20261122, int(name.removesuffix("nm")), ports])
    rows = packaged_sram_rows(name)
    rows = rows[rows[:, 2] == ports]
    known = {(int(w), int(r)) for w, r in rows[:, :2]}
    tabled = sorted({w for w, _ in known})
    between = [w for w in range(40, 505, 8) if w not in tabled]
    found: list[tuple[int, int]] = []
    while len(found) < count:
        width = int(rng.choice(tabled if len(found) % 2 else between))
        size = width, 16 * round(2.0 ** rng.uniform(4, 16) / 16)
        if size not in known and size not in found:
            found.append(size)
    return found


def chiplets() -> list[tuple[int, int]]:
    """All widths and row counts of chiplets."""
    memories = memories_of(load_templates(packaged_templates()))
    assert {ports for _, ports, _ in memories} == {1}
    return [(width, rows) for width, _, most in memories for rows in range(16, most + 1, 16)]


def main(what: str) -> None:
    drawn = [(name, ports, sizes(name, ports, count)) for name, ports, count in DRAWN]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["technology", *SRAM_COLUMNS])
    for name, ports, asked in drawn if what == "drawn" else [("45nm", 1, chiplets())]:
        for width, rows in asked:
            figures = sram_figures(float(name.removesuffix("nm")), width, rows, ports)
            out.writerow([name, width, rows, ports, *(f"{x:.6g}" for x in figures)])
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:2])
