"""Kills searches at random moments (kill -9), resumes them, and compares their files with an undisturbed search's.

    python experiments/kill_and_resume.py --kills 10 > experiments/results/kill_and_resume.csv

Kills come in two rounds of as many each. In the first, searches start without mapping tables and the moments are drawn
from the whole command, so that most fall into the layer mapper; in the second the tables are there and the moments are
drawn from the time between the first and the last generation. Compiled programs are shared. Files must be equal but for
seconds: front, designs, settings and figures byte for byte (but for the one whose title tells the seconds), the history
without its column of seconds, the checkpoint array by array. Prints a row per kill, with the generation of the
checkpoint that it left; the exit code is 1 if any file differs.
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
SEARCHING = "search  generation"
EVALUATING = "double precision"


def history(folder: pathlib.Path) -> list[dict[str, str]]:
    with open(folder / "history.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def checkpoint(folder: pathlib.Path) -> tuple[dict[str, np.ndarray], dict]:
    with np.load(folder / "checkpoint.npz") as data:
        arrays = {name: data[name] for name in data.files}
    meta = json.loads(arrays.pop("meta").tobytes())
    arrays.pop("digest")  # of all, the seconds too
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
    return ["search", *arguments, "--checkpoint-every", "0", "--out", str(out)]


def search(arguments: list[str], out: pathlib.Path, cache: pathlib.Path) -> subprocess.Popen:
    """Starts a search that checkpoints as often as it can, with the compiled programs and tables of a cache."""
    command = [sys.executable, "-m", "mohamjax.cli", *words(arguments, out)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def undisturbed(arguments: list[str], out: pathlib.Path, cache: pathlib.Path) -> tuple[float, float, float]:
    """Runs a search to its end; when its generations began, when they and it ended, in seconds from its start."""
    began = time.perf_counter()
    marks = {SEARCHING: 0.0, EVALUATING: 0.0}
    said = []
    with search(arguments, out, cache) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            for mark, seen in marks.items():
                if not seen and mark in line:
                    marks[mark] = time.perf_counter() - began
    if process.returncode or not all(marks.values()):
        sys.exit("".join(said))
    return marks[SEARCHING], marks[EVALUATING], time.perf_counter() - began


def phase(lines: str) -> str:
    """What a killed search was at, from what it had said."""
    marks = ("results in", EVALUATING, SEARCHING, "compiling the generation", "mapping")
    return next((mark for mark in marks if mark in lines), "starting")


def kill_and_resume(
    arguments: list[str], out: pathlib.Path, cache: pathlib.Path, moment: float, whole: pathlib.Path
) -> tuple[str, str, list[str]]:
    """Kills a search after some seconds and resumes it: where it was, and the files that came out otherwise.

    Returns:
        What it was at, the generation of its checkpoint ("" for none), and the names of the files.
    """
    process = search(arguments, out, cache)
    try:
        _, said = process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
    left = str(len(checkpoint(out)[1]["history"]) - 1) if (out / "checkpoint.npz").exists() else ""
    again = search([*arguments, "--resume"], out, cache)
    _, complaint = again.communicate()
    return phase(said), left, differences(whole, out) if again.returncode == 0 else [complaint.splitlines()[-1]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("search", nargs="*", default=["ar-vr", "--budget", "tiny", "--generations", "600"])
    parser.add_argument("--kills", type=int, default=10, help="in each of the two rounds")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options, more = parser.parse_known_args()
    moments = random.Random(options.seed)
    arguments = [*options.search, *more]
    rounds = {"whole command": [*arguments, "--no-mapping-cache"], "generations": arguments}
    worst = []
    with tempfile.TemporaryDirectory() as work:
        base = pathlib.Path(work)
        cache = base / "cache"
        undisturbed(arguments, base / "compiling", cache)
        print("drawn_from,kill,moment,phase,checkpoint_generation,different_files")
        for name, command in rounds.items():
            whole = base / name
            first, last, end = undisturbed(command, whole, cache)
            start, stop = (first, last) if name == "generations" else (0.0, end)
            found = differences(base / "compiling", whole)
            print(f"{name},none,,,,{' '.join(found)}", flush=True)
            worst += found
            for k in range(options.kills):
                moment = moments.uniform(start, stop)
                at, left, found = kill_and_resume(command, base / f"{name} {k}", cache, moment, whole)
                worst += found
                print(f"{name},{k},{moment / end:.2f},{at},{left},{' '.join(found)}", flush=True)
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
