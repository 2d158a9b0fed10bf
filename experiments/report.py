"""Tables of the experiments: printed as they come, and written as Markdown below what made them."""

import datetime
import os
import pathlib
import shlex
import subprocess
import sys

import jax

import mohamjax
from mohamjax.runtime.code_hash import hash_of


class Report:
    """Lines of a Markdown table, printed as they come, kept for a file."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        self.lines += lines
        print(*lines, sep="\n", flush=True)

    def head(self, *columns: str) -> None:
        self.row(*columns)
        self.row(*["---"] * len(columns))

    def row(self, *cells: object) -> None:
        self.say("| " + " | ".join(map(str, cells)) + " |")

    def write(self, out: pathlib.Path | None) -> None:
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text("\n".join(self.lines) + "\n")


def command() -> str:
    """The command line of this run."""
    experiments = pathlib.Path(__file__).resolve().parent
    script = pathlib.Path(sys.argv[0]).resolve()
    named = script.relative_to(experiments.parent) if script.is_relative_to(experiments) else script.name
    return shlex.join(["python", str(named), *sys.argv[1:]])


def _running() -> pathlib.Path:
    """The package that runs; an installed one is in no repository, so the one beside this script where both agree."""
    folder, beside = pathlib.Path(mohamjax.__file__).parent, pathlib.Path(__file__).resolve().parents[1] / "mohamjax"
    return beside if hash_of(folder) == hash_of(beside) else folder


def commit(package: pathlib.Path | None = None) -> str:
    """The commit of a package, default the one that runs, and whether files have changed since."""
    folder = package or _running()

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    short = git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{short}, with changes" if git("status", "--porcelain", "--", ".") else short


def header() -> str:
    """What made a table: command, commit, date and machine."""
    device = jax.devices()[0]
    what = f"{os.cpu_count()} cores of a shared server" if device.platform == "cpu" else device.device_kind
    machine = f"{what}, load {os.getloadavg()[0]:.1f}, JAX {jax.__version__}"
    return f"`{command()}` at commit {commit()}, {datetime.date.today().isoformat()}: {machine}"
