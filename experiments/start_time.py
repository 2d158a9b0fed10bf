"""How long a search takes from nothing, and where: whole command lines in fresh processes with empty cache folders.

Each run is `mohamjax search SCENARIO --budget BUDGET` in a process of its own, cold (nothing cached) and then warm
(with what the cold run left), each pair with a cache folder of its own. With `--against` the runs of this checkout and
of the other one are interleaved, so that both meet the same machine. Figures are medians of seconds of the clock and of
the processor, over all threads, and the ratio of the medians. JAX logs the compilations of a further cold run of this
checkout; the seconds per program overlap where programs are compiled side by side.

    python experiments/start_time.py --budgets tiny,paper --repeats 3 --against ../before --out results/start_time.md
"""

import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from checkouts import COMMAND
from report import Report, commit, header

HERE = pathlib.Path(__file__).resolve().parents[1]
_DONE = re.compile(
    r"Finished (tracing|jaxpr to MLIR|XLA compilation)\D*?(?:jit\()?(\w+)\)?(?: for \w+)? in ([\d.]+) sec"
)
_STEPS = {"tracing": "tracing", "jaxpr to MLIR": "lowering", "XLA compilation": "compiling"}


def command_line(checkout: pathlib.Path, cache: pathlib.Path, out: pathlib.Path, what: list[str], log: bool = False):
    """One run: seconds of the clock, seconds of the processor, its summary, and what it wrote to standard error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_COMPILATION_CACHE")}
    environment = {**kept, "PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(cache)}
    if log:
        environment |= {"JAX_LOG_COMPILES": "1"}
    before, tick = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "search", *what, "--json", "--out", str(out)],
        env=environment, cwd=cache, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, after = time.perf_counter() - tick, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, spent, json.loads(done.stdout), done.stderr


def measure(checkout: pathlib.Path, what: list[str]) -> dict[str, tuple[float, float, dict]]:
    """A cold and a warm run: seconds of the clock, of the processor, and the summary of each."""
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        return {
            name: command_line(checkout, here, here / name, what)[:3]
            for name in ("cold", "warm")
        }  # fmt: skip


def programs(what: list[str]) -> dict[str, collections.Counter]:
    """Seconds per program of a cold run of this checkout, by step."""
    found: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        log = command_line(HERE, here, here / "out", what, log=True)[3]
    for step, name, seconds in _DONE.findall(log):
        found[name][_STEPS[step]] += float(seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="ar-vr")
    parser.add_argument("--budgets", default="tiny")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--against", type=pathlib.Path, help="another checkout, whose runs are interleaved with ours")
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="further arguments of the searches")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables as Markdown")
    arguments = parser.parse_args()
    checkouts = {"here": HERE} | ({"there": arguments.against.resolve()} if arguments.against else {})
    report = Report()
    about = f"{header()}; {arguments.scenario}, medians of {arguments.repeats}."
    if arguments.against:
        about += f" The other checkout is of commit {commit(arguments.against / 'mohamjax')}."
    report.say(about, "")
    report.say((__doc__ or "").split("\n\n")[1].strip(), "")
    report.head("budget", "caches", "checkout", "seconds", "of the processor", "share of the other's seconds")
    for budget in arguments.budgets.split(","):
        what = [arguments.scenario, "--budget", budget, *arguments.more]
        runs = [{name: measure(folder, what) for name, folder in checkouts.items()} for _ in range(arguments.repeats)]
        for caches in ("cold", "warm"):
            of = {
                name: [statistics.median(run[name][caches][i] for run in runs) for i in range(2)] for name in checkouts
            }
            for name, (seconds, spent) in of.items():
                share = f"{of['here'][0] / of['there'][0]:.0%}" if name == "here" and "there" in of else ""
                report.row(budget, caches, name, f"{seconds:.1f}", f"{spent:.1f}", share)
    report.say("", f"Seconds per program of a cold run, budget {budget}:", "")
    report.head("program", *_STEPS.values())
    found = programs(what)
    for name in sorted(found, key=lambda name: -found[name].total()):
        if found[name].total() >= 0.5:
            report.row(f"`{name}`", *(f"{found[name][step]:.1f}" for step in _STEPS.values()))
    report.write(arguments.out)


if __name__ == "__main__":
    main()
