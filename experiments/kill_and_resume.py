"""Stops searches at random moments, resumes them, and compares their files with an undisturbed search's.

    python experiments/kill_and_resume.py --kills 10 > experiments/results/kill_and_resume.csv
    python experiments/kill_and_resume.py --kills 10 --ways "kill,ctrl-c,ctrl-c twice,full disk" \
        > experiments/results/interruptions.csv

Ways: `kill` is kill -9; `ctrl-c` an interrupt, `ctrl-c twice` a second one within half a second; `full disk` lets no
file grow beyond a number of bytes, drawn up to those of the largest file. Stops come in two rounds of as many each. In
the first, searches start without mapping tables and the moments are drawn from the whole command, so that most fall
into the layer mapper; in the second the tables are there and the moments are drawn from the time between the first and
the last generation. Compiled programs are shared. Whatever a stopped search leaves must be whole, and what it says
true: no traceback, no "nothing to write" beside a checkpoint, no "--resume" or "results in" without one or the other,
designs and front of one another. After the resumption files must be equal but for seconds: front, designs, settings and
figures byte for byte (but for the one whose title tells the seconds), the history without its column of seconds, the
checkpoint array by array. Prints a row per stop, with the generation of the checkpoint that it left; the exit code is 1
if anything is wrong.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import resource
import signal
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


def search(
    arguments: list[str], out: pathlib.Path, cache: pathlib.Path, most_bytes: int | None = None
) -> subprocess.Popen:
    """Starts a search that checkpoints as often as it can, with the compiled programs and tables of a cache.

    With `most_bytes` no file that it writes can be larger, as on a full disk.
    """

    def limit() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    command = [sys.executable, "-m", "mohamjax.cli", *words(arguments, out)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    streams: dict = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, preexec_fn=limit, **streams)


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


def stopped(process: subprocess.Popen, way: str, moment: float, second: float) -> str:
    """What a search said that was stopped after some seconds, if it had not ended; `second` later a second time."""
    assert process.stderr is not None
    said = ""
    for after, number in ((moment, 1), (second, 2)):
        try:
            return process.communicate(timeout=after)[1]
        except subprocess.TimeoutExpired:
            if way == "kill":
                process.kill()
            elif number == 1 or way == "ctrl-c twice":
                process.send_signal(signal.SIGINT)
        if way != "ctrl-c twice":
            break
    said = process.communicate()[1]
    return said


def untrue(said: str, code: int, way: str, out: pathlib.Path) -> list[str]:
    """What a stopped search should not have left, or not have said."""
    kept, written = (out / "checkpoint.npz").exists(), (out / "front.csv").exists()
    expected = {"kill": (0, -signal.SIGKILL), "full disk": (0, 2)}.get(way, (0, 130))
    wrong = {
        f"exit code {code}": code not in expected,
        "traceback": "Traceback" in said,
        "nothing to write, beside a checkpoint": "nothing to write" in said and kept,
        "--resume without a checkpoint": "--resume goes on" in said and not kept,
        "results that are not there": ("results in" in said or "results are written" in said) and not written,
    }
    found = [what for what, is_so in wrong.items() if is_so]
    try:
        if kept:
            checkpoint(out)
        if written:
            designs = json.loads((out / "designs.json").read_text())["designs"]
            with open(out / "front.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            if [row["design_id"] for row in rows] != [str(design["design_id"]) for design in designs]:
                found.append("designs of another front")
    except (OSError, ValueError, KeyError) as error:
        found.append(f"half a file ({error})")
    return found


def stop_and_resume(
    arguments: list[str],
    out: pathlib.Path,
    cache: pathlib.Path,
    way: str,
    moments: random.Random,
    between: tuple[float, float],
    whole: pathlib.Path,
) -> tuple[float, str, str, list[str]]:
    """Stops a search at some moment and resumes it.

    Returns:
        The moment [s] (bytes of a full disk), what it was at, the generation of its checkpoint ("" for none), what was
        wrong, and the names of the files that came out otherwise.
    """
    if way == "full disk":
        moment = float(moments.randrange(1, max(p.stat().st_size for p in whole.rglob("*") if p.is_file())))
        process = search(arguments, out, cache, int(moment))
        said = process.communicate()[1]
    else:
        moment = moments.uniform(*between)
        process = search(arguments, out, cache)
        said = stopped(process, way, moment, moments.uniform(0.0, 0.5))
    found = untrue(said, process.returncode, way, out)
    left = str(len(checkpoint(out)[1]["history"]) - 1) if (out / "checkpoint.npz").exists() else ""
    again = search([*arguments, "--resume"], out, cache)
    _, complaint = again.communicate()
    found += differences(whole, out) if again.returncode == 0 else [complaint.splitlines()[-1]]
    return moment, phase(said), left, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("search", nargs="*", default=["ar-vr", "--budget", "tiny", "--generations", "600"])
    parser.add_argument("--kills", type=int, default=10, help="of each way in each of the two rounds")
    parser.add_argument("--ways", default="kill", help="of stopping, by commas")
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
        print("drawn_from,way,stop,moment,phase,checkpoint_generation,wrong")
        for name, command in rounds.items():
            whole = base / name
            first, last, end = undisturbed(command, whole, cache)
            between = (first, last) if name == "generations" else (0.0, end)
            found = differences(base / "compiling", whole)
            print(f"{name},none,,,,,{'; '.join(found)}", flush=True)
            worst += found
            for way in options.ways.split(","):
                for k in range(options.kills):
                    out = base / f"{name} {way} {k}"
                    moment, at, left, found = stop_and_resume(command, out, cache, way, moments, between, whole)
                    worst += found
                    print(f"{name},{way},{k},{moment:.2f},{at},{left},{'; '.join(found)}", flush=True)
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
