"""Holds every design of results folders against the plain checker of the tests, which shares no code with the package.

Order, dependencies and mappings; sizes that hold them; no two layers of a chiplet at once; times as the plain fluid
model has them and no bandwidth exceeded; sums and bounds (`tests/plain_design.py`). The exit code is 1 if any design
fails or a front is empty. Fixed chiplets of `--require` that stand idle count as failures.

    python experiments/check_fronts.py results/ar-vr results/edge > experiments/results/check_fronts.csv
"""

import json
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from plain_design import problems


def main(folders: list[str]) -> int:
    if not folders:
        sys.exit(f"usage: {sys.argv[0]} FOLDER...: name folders that `mohamjax search` has written")
    bad = 0
    print("folder,layers,designs,designs_that_fail,seconds")
    for folder in map(pathlib.Path, folders):
        began = time.perf_counter()
        document = json.loads((folder / "designs.json").read_text())
        failed = 0
        for design in document["designs"]:
            found = problems(document, design)
            failed += bool(found)
            for line in found[:3]:
                print(f"{folder}: design {design['design_id']}: {line}", file=sys.stderr)
        sizes = len(document["layers"]), len(document["designs"])
        print(f"{folder.name},{sizes[0]},{sizes[1]},{failed},{time.perf_counter() - began:.1f}", flush=True)
        bad += failed or not sizes[1]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
