"""Fuzzes every reader for as long as one likes and keeps what fails (`tests/fuzzing.py` makes and judges the inputs).

Workers read in processes of their own, with 20 s of processor time and 2 GB for each input; an input on which a worker
hangs or dies is a finding too. Findings go to `tests/fuzz_findings/`, where `tests/test_fuzz.py` replays them; the
counts go to a table.

    python experiments/fuzz.py --minutes 60 --seed 1 --workers 2 --out experiments/results/fuzz.md
"""

import argparse
import collections
import json
import pathlib
import re
import resource
import selectors
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import fuzz_documents  # noqa: E402
import fuzzing  # noqa: E402
import numpy as np  # noqa: E402
from report import header  # noqa: E402

PATIENCE = 15 * fuzzing.SECONDS  # seconds; a worker silent for longer runs what Python cannot stop
MOST_BYTES = 1 << 16  # of a finding that is kept, at most
MOST_ALIKE = 3  # findings kept per message


def work(seed: int, first: int, step: int, names: list[str]) -> None:
    """Tries the cases first, first + step, ... for ever, of some readers or all; prints lines before and after each."""
    folder = pathlib.Path(tempfile.mkdtemp())
    for reader in names or fuzzing.READERS:  # imports and compiles everything before memory is limited
        print(json.dumps({"begins": first, "folder": ""}), flush=True)  # a sign of life
        if not reader.startswith("onnx"):
            fuzzing.attempt(fuzzing.Case(reader, "sound", fuzz_documents.sound(reader)), folder, 600)
    with open("/proc/self/status") as status:
        now = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (now + (fuzzing.MEGABYTES << 20),) * 2)
    number = first
    while True:
        print(json.dumps({"begins": number, "folder": str(folder)}), flush=True)
        rng = np.random.default_rng((seed, number))
        case = fuzzing.case(rng, folder, str(rng.choice(names)) if names else None)
        outcome = fuzzing.attempt(case, folder)
        line = {"number": number, "reader": case.reader, "made": case.kind, "kind": outcome.kind, "text": outcome.text,
                "seconds": outcome.seconds}  # fmt: skip
        if not outcome.good:
            line |= {"name": case.name, "data": case.data.hex()}
        print(json.dumps(line), flush=True)
        number += step


class Worker:
    """A process that tries cases, and what it said last."""

    def __init__(self, seed: int, first: int, step: int, readers: str) -> None:
        command = [sys.executable, __file__, "--worker", f"{seed},{first},{step}", "--readers", readers]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.step, self.number, self.folder, self.heard = step, first, "", time.monotonic()

    def stop(self) -> str:
        """Kills the process and returns the end of its standard error."""
        self.process.kill()
        return (self.process.communicate()[1] or "").strip()[-300:]


def keep(line: dict, alike: collections.Counter) -> None:
    """Prints a finding, and writes it where the tests find it unless it is large or enough alike are kept."""
    message = re.sub(r"\d+", "#", re.sub(r"'[^']*'", "Q", line["text"]))[:120]
    alike[line["reader"], line["kind"], message] += 1
    print(f"case {line['number']}: {line['reader']} ({line['made']}): {line['kind']}: {line['text'][:300]}", flush=True)
    data = bytes.fromhex(line["data"])
    if len(data) <= MOST_BYTES and alike[line["reader"], line["kind"], message] <= MOST_ALIKE:
        fuzzing.FINDINGS.mkdir(exist_ok=True)
        (fuzzing.FINDINGS / line["name"]).write_bytes(data)


def lost(worker: Worker, kind: str, text: str) -> dict:
    """The finding of a worker that died or hung: the case that it read or grew last."""
    files = pathlib.Path(worker.folder or "/nonexistent").glob("*.*")
    files = [path for path in files if path.stem in ("case", "growing")]
    path = max(files, key=lambda file: file.stat().st_mtime, default=None)
    data = b"" if path is None else path.read_bytes()
    readers = [name for name, reader in fuzzing.READERS.items() if path is not None and reader.suffix == path.suffix]
    case = fuzzing.Case(readers[0] if readers else "onnx", "unknown", data)
    return {"number": worker.number, "reader": case.reader, "made": "unknown", "kind": kind, "text": text,
            "seconds": PATIENCE, "name": case.name, "data": data.hex()}  # fmt: skip


def fuzz(minutes: float, seed: int, workers: int, readers: str = "") -> tuple[collections.Counter, float]:
    """Runs workers; counts outcomes by (reader, how the input was made, outcome), and the longest time in seconds."""
    counts, alike, longest = collections.Counter(), collections.Counter(), 0.0
    pool = selectors.DefaultSelector()

    def start(first: int) -> None:
        worker = Worker(seed, first, workers, readers)
        pool.register(worker.process.stdout, selectors.EVENT_READ, worker)

    def enter(line: dict) -> None:
        counts[line["reader"], line["made"], line["kind"]] += 1
        if line["kind"] not in ("result", "refused"):
            keep(line, alike)

    for first in range(workers):
        start(first)
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        for key, _ in pool.select(timeout=5):
            worker: Worker = key.data
            text = worker.process.stdout.readline()
            worker.heard = time.monotonic()
            if not text:
                pool.unregister(worker.process.stdout)
                enter(lost(worker, "died", worker.stop()))
                start(worker.number + worker.step)
            elif "begins" in (line := json.loads(text)):
                worker.number, worker.folder = line["begins"], line["folder"]
            else:
                longest = max(longest, line["seconds"])
                enter(line)
        for worker in [key.data for key in pool.get_map().values()]:
            if time.monotonic() - worker.heard > PATIENCE:
                pool.unregister(worker.process.stdout)
                worker.stop()
                enter(lost(worker, "hung", f"silent for {PATIENCE} s"))
                start(worker.number + worker.step)
    for key in list(pool.get_map().values()):
        key.data.stop()
    return counts, longest


def table(counts: collections.Counter, longest: float, minutes: float, seed: int, workers: int) -> str:
    """The counts as Markdown."""
    kinds = ["result", "refused", *sorted({kind for _, _, kind in counts} - {"result", "refused"})]
    rows = sorted({(reader, made) for reader, made, _ in counts})
    total = sum(counts.values())
    failed = total - sum(n for (_, _, kind), n in counts.items() if kind in ("result", "refused"))
    lines = [
        "# Fuzzing of every reader", "",
        f"{header()}: {total:,} inputs, {failed}"
        f" that gave neither a result nor one clear line within {fuzzing.SECONDS} s of processor time and"
        f" {fuzzing.MEGABYTES} MB. The longest took {longest:.1f} s.", "",
        f"| reader | inputs made by | {' | '.join(kinds)} |", f"| --- | --- |{' --- |' * len(kinds)}",
    ]  # fmt: skip
    for reader, made in rows:
        lines.append(f"| {reader} | {made} | {' | '.join(f'{counts[reader, made, k]:,}' for k in kinds)} |")
    totals = [sum(n for (_, _, kind), n in counts.items() if kind == wanted) for wanted in kinds]
    lines.append(f"| all | | {' | '.join(f'{n:,}' for n in totals)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Command line; exit code 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (1)")
    parser.add_argument("--seed", type=int, default=0, help="what the inputs are drawn from (0)")
    parser.add_argument("--workers", type=int, default=1, help="processes (1)")
    parser.add_argument("--readers", default="", help="names of `fuzz_readers.READERS`, separated by commas (all)")
    parser.add_argument("--out", type=pathlib.Path, help="Markdown file for the counts; standard output without")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        seed, first, step = map(int, arguments.worker.split(","))
        work(seed, first, step, [name for name in arguments.readers.split(",") if name])
    counts, longest = fuzz(arguments.minutes, arguments.seed, arguments.workers, arguments.readers)
    text = table(counts, longest, arguments.minutes, arguments.seed, arguments.workers)
    if arguments.out:
        arguments.out.write_text(text)
    else:
        print(text)
    return int(any(kind not in ("result", "refused") for _, _, kind in counts))


if __name__ == "__main__":
    sys.exit(main())
