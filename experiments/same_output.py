"""Whether two versions of the code write the same: compares every file that a set of commands leaves.

    python experiments/same_output.py run --code ../before --out before
    python experiments/same_output.py run --code . --out after
    python experiments/same_output.py compare before after

`run` executes the commands of `COMMANDS` with the package of a checkout, each in a process of its own, and skips those
that are done already. `compare` ignores what depends on the clock or the machine: seconds, rates per second, versions.
Checkpoints are not compared, as they may change from one version to the next.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Any

import yaml
from checkouts import COMMAND

ZOO = pathlib.Path(__file__).resolve().parents[2] / "shared" / "workloads"

SCENARIOS = ("ar-vr", "edge", "mobile", "data-center")
ROBUST = """format: robust/1
over: mean
nominal: all
models:
  - {name: all, weight: 2}
  - {name: vision, networks: [resnet50, "ssd_*"]}
held_out:
  - {name: detection, networks: ["yolo*"]}
"""

COMMANDS: dict[str, str] = {
    **{f"tiny-{name}": f"search {name} --budget tiny --no-figures --out {{out}}" for name in SCENARIOS},
    "robust": "search ar-vr --budget tiny --robust {robust} --no-figures --out {out}",
    "paper-preset": "search ar-vr --budget tiny --preset paper --no-figures --out {out}",
    "layers-preset": "search ar-vr --budget tiny --preset layers --no-figures --out {out}",
    "remap": "search ar-vr --budget tiny --remap 10 --polish 1 --generations 25 --no-figures --out {out}",
    "islands": "search mobile --budget tiny --islands 2 --migration 5 --generations 15 --no-figures --out {out}",
    "periods": "search ar-vr-rates --budget tiny --objectives missed,energy,area --no-figures --out {out}",
    "map": "map ar-vr --budget tiny --out {out}/map.json --nests {out}/nests.txt --timeloop {out}/timeloop "
    "--template simba",
    "schedule": "schedule --pool mixed --sample 60 --platform S4 --bandwidth 1 --generations 30 --no-figures "
    "--out {out}",
    "loop-nest-jobs": "schedule --jobs mobile --platform S1 --bandwidth 4 --cost-model loop-nest --budget tiny "
    "--generations 20 --no-figures --out {out}",
    "codesign": "codesign mobile --budget ci --space unico-ci --no-figures --out {out}",
    "designs": "evaluate designs {tiny}/designs.json --explain --out {out}/designs.csv",
    "variants": "evaluate designs {tiny}/designs.json --vary nop.interface_bandwidth=2,4,8 --out {out}/vary.csv",
    "sensitivities": "evaluate designs {tiny}/designs.json --design 0 --sensitivities --out {out}/sensitivities.csv",
    "uncertainty": "evaluate designs {tiny}/designs.json --design 0 --uncertainty 0.2 --out {out}/uncertainty.csv",
    "schedules": "evaluate schedules {tiny}/designs.json --out {out}/schedules.json",
    "timeloop": "evaluate designs {tiny}/designs.json --design 0 --timeloop {out}/timeloop --out {out}/designs.csv",
    "report": "report {tiny} --out {out}/report.html",
    "workload": "workload {zoo}/resnet18.onnx --csv {out}/layers.csv",
    **{f"small-{name}": f"search {name} --budget small --no-figures --out {{out}}" for name in SCENARIOS},
}

CLOCK = re.compile(r"(^|_)(seconds|s_per|per_s|host|date|time|version|jax|python|numpy|code)(_|$)|_per_s$")
OF_THE_CLOCK = {"mapping_s", "compile_s", "search_s", "finish_s", "closing_s", "reevaluation_s", "machinery"}
LEFT_OUT = {"checkpoint.npz", "log.txt"}


def plain(value: Any) -> Any:
    """A value without entries that depend on the clock."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if not (k in OF_THE_CLOCK or CLOCK.search(str(k)))}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return value


HOME = re.compile(r"/[^\s\"']*/(?=mohamjax/)|/[^\s\"']*/(?=shared/)")
"""The folder of a checkout in a text."""


def content(path: pathlib.Path, folder: pathlib.Path) -> Any:
    """What is compared of a file: its bytes, or its text without folders and what depends on the clock."""
    if path.suffix in (".npz", ".png"):
        return path.read_bytes()
    text = HOME.sub("", path.read_text(encoding="utf-8").replace(str(folder.resolve()), ""))
    match path.suffix:
        case ".json":
            return plain(json.loads(text))
        case ".jsonl":
            return [plain(json.loads(line)) for line in text.splitlines()]
        case ".csv":
            return [plain(row) for row in csv.DictReader(io.StringIO(text))]
        case ".yaml":
            return [plain(document) for document in yaml.safe_load_all(text)]
    return [line for line in text.splitlines() if not re.search(r"seconds|_s\b.*:|per_s|version|designs/s", line)]


def run(options: argparse.Namespace) -> None:
    """Runs the commands."""
    code, out = options.code.resolve(), options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / "robust.yaml").write_text(ROBUST)
    environment = {**os.environ, "PYTHONPATH": str(code), "MPLBACKEND": "agg"}
    for name in [n for n in COMMANDS if re.fullmatch(options.only, n)]:
        folder = out / name
        if (folder / "done").exists():
            continue
        folder.mkdir(exist_ok=True)
        words = COMMANDS[name].format(out=folder, tiny=out / "tiny-ar-vr", zoo=ZOO, robust=out / "robust.yaml").split()
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *words],
            env=environment, cwd=out, capture_output=True, text=True, check=False,
        )  # fmt: skip
        (folder / "log.txt").write_text(done.stdout + done.stderr)
        print(f"{name}: exit {done.returncode}, {time.perf_counter() - began:.0f} s", flush=True)
        if done.returncode:
            print(done.stderr[-2000:])
            continue
        (folder / "done").write_text("")


def compare(options: argparse.Namespace) -> None:
    """Compares two folders; ends with 1 where they differ."""
    before, after = (
        {p.relative_to(f): p for p in f.rglob("*") if p.is_file()} for f in (options.before, options.after)
    )
    differ = sorted(str(name) for name in before.keys() ^ after.keys() if name.name not in LEFT_OUT)
    same = 0
    for name in sorted(before.keys() & after.keys()):
        if name.name in LEFT_OUT:
            continue
        if content(before[name], options.before) == content(after[name], options.after):
            same += 1
        else:
            differ.append(str(name))
    print(f"{same} files equal, {len(differ)} not")
    for name in differ:
        print(f"  {name}")
    sys.exit(bool(differ))


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether two states of the code write the same.")
    verbs = parser.add_subparsers(required=True)
    first = verbs.add_parser("run", help="do the commands with the package of a checkout")
    first.add_argument("--code", type=pathlib.Path, default=pathlib.Path())
    first.add_argument("--out", type=pathlib.Path, required=True)
    first.add_argument("--only", default=".*", help="regular expression of the commands' names")
    first.set_defaults(verb=run)
    second = verbs.add_parser("compare", help="compare what two runs wrote")
    second.add_argument("before", type=pathlib.Path)
    second.add_argument("after", type=pathlib.Path)
    second.set_defaults(verb=compare)
    options = parser.parse_args()
    options.verb(options)


if __name__ == "__main__":
    main()
