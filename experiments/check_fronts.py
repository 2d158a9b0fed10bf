"""Checks every design of results folders with the plain checker of the tests, which shares no code with the package.

It checks order, dependencies and mappings; that chiplets are large enough for their mappings and run one layer at a
time; that times are those of the plain fluid model and no bandwidth is exceeded; and sums and bounds
(`tests/plain_design.py`). The exit code is 1 if any design fails or a front is empty. Chiplets that `--require` fixes
and that stand idle count as failures.

    python experiments/check_fronts.py results/ar-vr results/edge --out experiments/results/check_fronts.csv
"""

import argparse
import json
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from plain_design import problems


def checked(folder: pathlib.Path) -> tuple[str, bool]:
    """The row of a results folder, and whether its front has designs of which none fails."""
    began = time.perf_counter()
    document = json.loads((folder / "designs.json").read_text())
    failed = 0
    for design in document["designs"]:
        found = problems(document, design)
        failed += bool(found)
        for line in found[:3]:
            print(f"{folder}: design {design['design_id']}: {line}", file=sys.stderr)
    layers, designs = len(document["layers"]), len(document["designs"])
    row = f"{folder.name},{layers},{designs},{failed},{time.perf_counter() - began:.1f}"
    return row, bool(designs) and not failed


def main() -> int:
    """Command line; exit code 1 where a design fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="FOLDER", help="what `mohamjax search` wrote")
    parser.add_argument("--out", type=pathlib.Path, help="CSV file for the counts; standard output without")
    arguments = parser.parse_args()
    rows, good = zip(*map(checked, arguments.folders), strict=True)
    text = "\n".join(["folder,layers,designs,designs_that_fail,seconds", *rows, ""])
    if arguments.out:
        arguments.out.write_text(text)
    else:
        print(text, end="")
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
