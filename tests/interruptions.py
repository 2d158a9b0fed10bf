"""Stops commands at random moments, resumes them, and compares their files with an undisturbed run's.

Ways: `kill` is kill -9; `ctrl-c` is an interrupt, `ctrl-c twice` adds a second one within half a second; `full disk`
lets no file grow beyond a random number of bytes below the size of the largest file.
"""

import csv
import dataclasses
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time

import numpy as np

from mohamjax.runtime.part_files import target_of

WAYS = ("kill", "ctrl-c", "ctrl-c twice", "full disk")
SAME = ("front.csv", "designs.json", "config.yaml", "hardware.csv")
TELLS_SECONDS = "figures/convergence.png"


@dataclasses.dataclass(frozen=True)
class Verb:
    """A command that can be stopped and resumed.

    Attributes:
        words: name of the verb, and options that follow the arguments.
        began: output that appears once there is something that a checkpoint can hold.
        ended: output that appears once nothing more is searched.
        phases: output that marks each phase, the latest first.
    """

    words: tuple[str, ...]
    began: str
    ended: str
    phases: tuple[str, ...]


SEARCH = Verb(
    ("search", "--checkpoint-every", "0"),
    "search  generation",
    "double precision",
    (
        "results in",
        "double precision",
        "refitting the front",
        "search  generation",
        "compiling the generation",
        "mapping",
    ),
)
CODESIGN = Verb(
    ("codesign",), "batch 1 ", "results in", ("results in", "batch 4", "batch 3", "batch 2", "batch 1", "layers on")
)
VERBS = {"search": SEARCH, "codesign": CODESIGN}


def history(folder: pathlib.Path) -> list[dict[str, str]]:
    """The rows of `history.csv`, without seconds."""
    with open(folder / "history.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def checkpoint(folder: pathlib.Path) -> tuple[dict[str, np.ndarray], dict]:
    """Arrays and the record of a checkpoint, without seconds."""
    with np.load(folder / "checkpoint.npz") as data:
        arrays = {name: data[name] for name in data.files}
    meta = json.loads(arrays.pop("meta").tobytes())
    arrays.pop("digest")  # it covers the seconds too
    meta.pop("seconds", None)
    for row in meta.get("history", ()):
        row.pop("seconds")
    return arrays, meta


def progress(folder: pathlib.Path) -> str:
    """Generation (batch of hardware) of the checkpoint of a folder; empty without one."""
    if not (folder / "checkpoint.npz").exists():
        return ""
    meta = checkpoint(folder)[1]
    return str(meta["batch"] if "batch" in meta else len(meta["history"]) - 1)


def differences(one: pathlib.Path, two: pathlib.Path) -> list[str]:
    """Files of two results folders that differ in more than seconds; parts that killed writers left do not count."""
    names = [{str(p.relative_to(f)) for p in f.rglob("*") if p.is_file() and not target_of(p)} for f in (one, two)]
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


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that is stopped and resumed.

    Attributes:
        arguments: arguments of the verb.
        cache: folder of compiled programs and mapping tables.
        verb: the verb that is run.
    """

    arguments: tuple[str, ...]
    cache: pathlib.Path
    verb: Verb = SEARCH

    def words(self, out: pathlib.Path) -> list[str]:
        """The words after `mohamjax` on the command line."""
        first, *rest = self.verb.words
        return [first, *self.arguments, *rest, "--out", str(out)]

    def resumed(self) -> "Command":
        """The same command, resuming from the checkpoint of its folder."""
        return dataclasses.replace(self, arguments=(*self.arguments, "--resume"))

    def start(self, out: pathlib.Path, most_bytes: int | None = None) -> subprocess.Popen:
        """Starts the command; with `most_bytes` no file that it writes can be larger, as on a full disk."""

        command = [sys.executable, "-m", "mohamjax", *self.words(out)]
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache)}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if most_bytes is not None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        return process

    def undisturbed(self, out: pathlib.Path) -> tuple[float, float, float]:
        """Runs it to its end; returns when the search began and ended and the run ended, in seconds from its start."""
        started = time.perf_counter()
        marks = {self.verb.began: 0.0, self.verb.ended: 0.0}
        said = []
        with self.start(out) as process:
            assert process.stderr is not None
            for line in process.stderr:
                said.append(line)
                for mark, seen in marks.items():
                    if not seen and mark in line:
                        marks[mark] = time.perf_counter() - started
        if process.returncode or not all(marks.values()):
            raise RuntimeError("".join(said))
        return marks[self.verb.began], marks[self.verb.ended], time.perf_counter() - started

    def phase(self, said: str) -> str:
        """Phase of a stopped run, from its output."""
        return next((mark for mark in self.verb.phases if mark in said), "starting")


def stopped(process: subprocess.Popen, way: str, moment: float, second: float) -> str:
    """Output of a run that is stopped after `moment` seconds unless it has ended; `second` later a second time."""
    assert process.stderr is not None
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
    return process.communicate()[1]


def killed_after(process: subprocess.Popen, mark: str, delay: float) -> str:
    """Output of a run that is killed `delay` seconds after it has printed a mark, unless it has ended.

    Unlike a moment by the clock, this does not depend on how busy the machine is.
    """
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if mark in line:
            time.sleep(delay)
            process.kill()
            break
    return said + process.communicate()[1]


def untrue(said: str, code: int, way: str, out: pathlib.Path) -> list[str]:
    """What is wrong with the files and the output of a stopped run."""
    kept, written = (out / "checkpoint.npz").exists(), (out / "front.csv").exists()
    claimed = any(line in said.replace("no results are", "") for line in ("results in", "results are written"))
    expected = {"kill": (0, -signal.SIGKILL), "full disk": (0, 2)}.get(
        way, (130,) if "stopped by hand" in said else (0, 130)
    )
    wrong = {
        f"exit code {code}": code not in expected,
        "traceback": "Traceback" in said,
        "nothing to write, beside a checkpoint": "nothing to write" in said and kept,
        "--resume without a checkpoint": "--resume goes on" in said and not kept,
        "results that are not there": claimed and not written,
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


@dataclasses.dataclass(frozen=True)
class Stop:
    """A run that was stopped and resumed.

    Attributes:
        moment: when it was stopped [s]; for a full disk, the largest size of a file [bytes].
        phase: phase in which it was stopped.
        left: generation of its checkpoint; empty for none.
        wrong: what was wrong, and the names of the files that differ.
    """

    moment: float
    phase: str
    left: str
    wrong: list[str]


def stop_and_resume(
    command: Command,
    out: pathlib.Path,
    way: str,
    moments: random.Random,
    between: tuple[float, float],
    whole: pathlib.Path,
) -> Stop:
    """Stops a command at a moment drawn between two, resumes it, and compares with the folder of a whole run."""
    if way == "full disk":
        moment = float(moments.randrange(1, max(p.stat().st_size for p in whole.rglob("*") if p.is_file())))
        process = command.start(out, int(moment))
        said = process.communicate()[1]
    else:
        moment = moments.uniform(*between)
        process = command.start(out)
        said = stopped(process, way, moment, moments.uniform(0.0, 0.5))
    return resumed(command, out, way, moment, said, process.returncode, whole)


def kill_and_resume(
    command: Command, out: pathlib.Path, moments: random.Random, longest: float, whole: pathlib.Path
) -> Stop:
    """As `stop_and_resume`, but kills up to `longest` seconds after one of the phases, except the last, began."""
    process = command.start(out)
    moment = moments.uniform(0, longest)
    said = killed_after(process, moments.choice(command.verb.phases[1:]), moment)
    return resumed(command, out, "kill", moment, said, process.returncode, whole)


def resumed(
    command: Command, out: pathlib.Path, way: str, moment: float, said: str, code: int, whole: pathlib.Path
) -> Stop:
    """Resumes a command that was stopped, and compares with the folder of a whole run."""
    wrong = untrue(said, code, way, out)
    left = progress(out)
    # Without a folder the command was stopped before it began, and there is nothing to resume.
    again = (command.resumed() if out.exists() else command).start(out)
    _, complaint = again.communicate()
    wrong += differences(whole, out) if again.returncode == 0 else [complaint.splitlines()[-1]]
    return Stop(moment, command.phase(said), left, wrong)
