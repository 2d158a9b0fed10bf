"""Kills searches at random moments (kill -9), resumes them, and compares their files with an undisturbed search's.

    python experiments/kill_and_resume.py --kills 10 > experiments/results/kill_and_resume.csv

Each killed search starts without mapping tables, so that moments in the layer mapper count too; compiled programs are
shared. Files must be equal but for seconds: front, designs, settings and figures byte for byte (but for the one whose
title tells the seconds), the history without its column of seconds, the checkpoint array by array. Prints a row per
kill; the exit code is 1 if any file differs.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

SAME = ("front.csv", "designs.json", "config.yaml")
TELLS_SECONDS = "figures/convergence.png"


def history(folder: pathlib.Path) -> list[dict[str, str]]:
    with open(folder / "history.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def checkpoint(folder: pathlib.Path) -> tuple[dict[str, np.ndarray], dict]:
    with np.load(folder / "checkpoint.npz") as data:
        arrays = {name: data[name] for name in data.files}
    meta = json.loads(str(arrays.pop("meta")))
    for row in meta["history"]:
        row.pop("seconds")
    return arrays, meta


def differences(one: pathlib.Path, two: pathlib.Path) -> list[str]:
    """Files of two results folders that differ in more than seconds."""
    names = [{str(p.relative_to(f)) for p in f.rglob("*") if p.is_file()} for f in (one, two)]
    found = sorted(names[0] ^ names[1])
    drawn = {n for n in names[0] & names[1] if n.startswith("figures")} - {TELLS_SECONDS}
    same = [n for n in sorted(names[0] & names[1]) if n in SAME or n in drawn]
    found += [name for name in same if (one / name).read_bytes() != (two / name).read_bytes()]
    if history(one) != history(two):
        found.append("history.csv")
    (arrays, meta), (others, other) = checkpoint(one), checkpoint(two)
    if meta != other or arrays.keys() != others.keys():
        found.append("checkpoint.npz")
    else:
        found += [f"checkpoint.npz {k}" for k, v in arrays.items() if not np.array_equal(v, others[k], equal_nan=True)]
    return found


def words(arguments: list[str], out: pathlib.Path) -> list[str]:
    return ["search", *arguments, "--checkpoint-every", "0", "--no-mapping-cache", "--out", str(out)]


def search(arguments: list[str], out: pathlib.Path, cache: pathlib.Path) -> subprocess.Popen:
    """Starts a search that checkpoints as often as it can; only its compiled programs may be there already."""
    command = [sys.executable, "-m", "mohamjax.cli", *words(arguments, out)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def phase(lines: str) -> str:
    """What a killed search was at, from what it had said."""
    marks = ("results in", "double precision", "search  generation", "compiling the generation", "mapping")
    return next((mark for mark in marks if mark in lines), "starting")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("search", nargs="*", default=["ar-vr", "--budget", "tiny", "--generations", "200"])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options, more = parser.parse_known_args()
    moments = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as work:
        base = pathlib.Path(work)
        arguments = [*options.search, *more]
        cache = base / "cache"
        for name in ("compiling", "undisturbed"):
            began = time.perf_counter()
            first = search(arguments, base / name, cache)
            _, said = first.communicate()
            if first.returncode:
                sys.exit(said)
            seconds = time.perf_counter() - began
        worst = differences(base / "compiling", base / "undisturbed")
        print("kill,moment,phase,different_files")
        print(f"none,,,{' '.join(worst)}", flush=True)
        for k in range(options.kills):
            moment = moments.uniform(0, seconds)
            out = base / f"killed-{k}"
            process = search(arguments, out, cache)
            try:
                _, said = process.communicate(timeout=moment)
            except subprocess.TimeoutExpired:
                process.kill()
                _, said = process.communicate()
            again = search([*arguments, "--resume"], out, cache)
            _, complaint = again.communicate()
            found = differences(base / "undisturbed", out) if again.returncode == 0 else [complaint.splitlines()[-1]]
            worst += found
            print(f"{k},{moment / seconds:.2f},{phase(said)},{' '.join(found)}", flush=True)
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
