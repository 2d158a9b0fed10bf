"""Imported schedules per CPU second, from bulk files and JSON lines, against designs held in memory.

The schedules of a scenario are random, over random mappings. The evaluation in memory (`jit(vmap(evaluate))`, single
precision, 4,096 at a time) is measured again between blocks of the files, in the same process, so that both see the
same machine; the time before the first block (start, tables, compilation or its cache) is listed separately. Whole
commands follow, each in a process of its own, with their CPU seconds and their peak memory.

    python experiments/batch_schedules.py --bulk 100000 --lines 10000 --designs 2043
    python experiments/batch_schedules.py --front results/designs.json --against ../before

The second command also has another checkout read the designs of a front, such as the front of 1,866 designs that
`mohamjax search ar-vr --budget paper --population 1000 --generations 150 --archive 2043` made at 84a5f18.
"""

import argparse
import dataclasses
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np
from report import Report, header

import mohamjax as mj
from mohamjax.io import designs_document, dump_json, problem_document
from mohamjax.mapping import mapping_to_dict
from mohamjax.schedule import reevaluate

AT_ONCE = 4096


def cpu(who=resource.RUSAGE_SELF) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


@dataclasses.dataclass
class Sample:
    """The problem, its mappings and designs in memory."""

    problem: mj.DesignProblem
    tables: object
    space: object
    designs: object

    def some(self, count: int):
        return jax.tree.map(lambda leaf: np.resize(leaf, (count, *leaf.shape[1:])), self.designs)


def prepare(scenario: str, mappings: int, count: int) -> Sample:
    problem = mj.DesignProblem(mj.load_scenario(scenario))
    tables = mj.sample_mappings(problem, mappings, seed=0)
    space = problem.arrays(tables)
    parts = [
        jax.device_get(mj.sample_designs(key, space, AT_ONCE))
        for key in jax.random.split(jax.random.key(0), -(-count // AT_ONCE))
    ]
    designs = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *parts)
    return Sample(problem, tables, space, designs)


def write_lines(path: pathlib.Path, drawn: Sample, count: int) -> None:
    """Writes designs as JSON lines: the problem with its loop nests first, then one design per line."""
    problem, tables = drawn.problem, drawn.tables
    templates = problem.resolved.templates
    number = {(u, t, m): i for i, (u, t, m) in enumerate(np.argwhere(np.isfinite(tables.objectives[..., 0])).tolist())}
    head = problem_document(problem.setup)
    head["mappings"] = [
        {
            "template": templates[t].name,
            **mapping_to_dict(
                jax.tree.map(lambda leaf, at=(u, t, m): leaf[at], tables.mapping), templates[t].level_names
            ),
        }
        for u, t, m in number
    ]
    unique = problem.application.unique_of_layer
    with open(path, "w") as stream:
        stream.write(dump_json(head))
        for k in range(count):
            template, tile, mapping = (
                x[k].tolist() for x in (drawn.designs.template, drawn.designs.assignment, drawn.designs.mapping)
            )
            chips = [t for t, kind in enumerate(template) if kind >= 0]
            steps = [
                {
                    "layer": layer,
                    "chiplet": chips.index(tile[layer]),
                    "mapping": number[unique[layer], template[tile[layer]], mapping[layer]],
                }
                for layer in drawn.designs.order[k].tolist()
                if layer < len(unique)
            ]
            names = [{"template": templates[template[t]].name} for t in chips]
            stream.write(dump_json({"chiplets": names, "schedule": steps}))


def interleaved(drawn: Sample, path: pathlib.Path, out: pathlib.Path, every: int, float32: bool) -> dict[str, float]:
    """CPU seconds before the first block, rows per CPU second after it, and designs in memory per CPU second."""
    inside = jax.jit(jax.vmap(mj.evaluate, (0, None)))
    some = drawn.some(AT_ONCE)
    inside(some, drawn.space).block_until_ready()
    state = {"begun": cpu(), "first": None, "memory": [], "rows": 0, "last": 0.0, "blocks": 0}

    def listen(progress) -> None:
        if state["first"] is None:
            state["first"] = (cpu() - state["begun"], progress.rows)
            state["last"] = cpu()
            state["spent"] = 0.0
            return
        state["spent"] += cpu() - state["last"]
        state["rows"] = progress.rows - state["first"][1]
        state["blocks"] += 1
        if state["blocks"] % every == 0:
            began = cpu()
            inside(some, drawn.space).block_until_ready()
            state["memory"].append(AT_ONCE / (cpu() - began))
        state["last"] = cpu()

    summary = mj.evaluate_files(path, out, float32=float32, progress=listen)
    assert summary.valid == summary.rows, summary
    return {
        "before": state["first"][0],
        "rate": state["rows"] / state["spent"],
        "memory": float(np.median(state["memory"])),
    }


def command(*words: str, package: str | None = None) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak memory [MB] of a command in a process of its own, as users begin and end it.

    Memory is Linux's VmHWM, since the maximum of `getrusage` begins with the memory of the parent process.
    """
    code = (
        "import atexit, pathlib, re, sys\nfrom mohamjax import cli\n"
        "def most(): print(re.search(r'VmHWM:\\s*(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])\n"
        "atexit.register(most)\nsys.exit(cli.command() if hasattr(cli, 'command') else cli.main())\n"
    )
    began, before = time.monotonic(), cpu(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=package, check=True)
    seconds, used = time.monotonic() - began, cpu(resource.RUSAGE_CHILDREN) - before
    return seconds, used, float(done.stdout.strip().splitlines()[-1]) * 1.024e-3


def in_turns(path: pathlib.Path, folder: pathlib.Path, packages: list[str | None], repeats: int) -> np.ndarray:
    """Figures of `command` for `evaluate designs`, `[repeats, checkouts, 3]`, in turns, after a run that compiles."""
    words = "evaluate", "designs", str(path), "--out", str(folder / "out.csv")
    runs = [[command(*words, package=package) for package in packages] for _ in range(1 + repeats)]
    return np.asarray(runs[1:])


def cells(runs: np.ndarray) -> list[list[str]]:
    """Medians of the runs of `in_turns` as cells, a row for each checkout."""
    return [[f"{s:.1f}", f"{used:.2f}", f"{most:,.0f}"] for s, used, most in np.median(runs, axis=0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="ar-vr")
    parser.add_argument("--mappings", type=int, default=16, help="random mappings of a set")
    parser.add_argument("--bulk", type=int, default=100_000)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--designs", type=int, default=2_043, help="designs of a designs.json")
    parser.add_argument("--front", type=pathlib.Path, help="designs.json of a search, read as well")
    parser.add_argument("--against", help="checkout whose `evaluate designs` reads `--front` in turn")
    parser.add_argument("--repeats", type=int, default=5, help="runs of designs.json files by each checkout")
    parser.add_argument("--out", default=str(pathlib.Path(__file__).parent / "results" / "batch_schedules.md"))
    arguments = parser.parse_args()
    if arguments.front:
        arguments.front = arguments.front.resolve()  # the other checkout's command runs in another folder
    drawn = prepare(arguments.scenario, arguments.mappings, max(arguments.bulk, arguments.lines, arguments.designs))
    report = Report()
    report.say(f"# Imported schedules of `{arguments.scenario}` per CPU second")
    report.say(
        f"\n{header()}. {len(drawn.problem.application.layers)} layers, random schedules over up to "
        f"{arguments.mappings} random mappings per layer and template. Ratios are to designs in memory (single "
        f"precision, {AT_ONCE} at a time), measured between the blocks of the file.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        bulk, few, lines = root / "bulk.npz", root / "few.npz", root / "lines.jsonl"
        mj.write_designs(bulk, drawn.problem, drawn.tables, drawn.some(arguments.bulk))
        mj.write_designs(few, drawn.problem, drawn.tables, drawn.some(arguments.bulk // 10))
        write_lines(lines, drawn, arguments.lines)
        report.head("what", "MB", "CPU s before the first block", "rows/CPU s", "in memory", "ratio")
        for name, path, every, single in (
            (f"{arguments.bulk:,} in bulk", bulk, 12, False),
            (f"{arguments.bulk:,} in bulk, `--float32`", bulk, 12, True),
            (f"{arguments.lines:,} JSON lines", lines, 1, False),
        ):
            found = interleaved(drawn, path, root / "out.csv", every, single)
            size = path.stat().st_size / 1e6
            ratio = found["rate"] / found["memory"]
            rates = f"{found['rate']:,.0f}", f"{found['memory']:,.0f}"
            report.row(name, f"{size:.0f}", f"{found['before']:.1f}", *rates, f"{ratio:.2f}")
        report.say(
            "\nWhole commands, each in a process of its own, with programs compiled beforehand. Figures of "
            f"designs.json files are medians of {arguments.repeats} runs, in which several checkouts take turns.\n"
        )
        report.head("command", "s", "CPU s", "peak memory, MB")
        own = drawn.problem
        designs = jax.tree.map(lambda leaf: leaf[: arguments.designs], drawn.designs)
        evaluated = reevaluate(own.setup, drawn.tables.mapping, drawn.tables.count, designs)
        stored = root / "designs.json"
        stored.write_text(dump_json(designs_document(evaluated, arguments.scenario)))
        for name, path in (
            (f"`evaluate designs`, {arguments.bulk // 10:,} in bulk", few),
            (f"`evaluate designs`, {arguments.bulk:,} in bulk", bulk),
            (f"`evaluate designs`, {arguments.lines:,} JSON lines", lines),
        ):
            report.row(name, *cells(in_turns(path, root, [None], 1))[0])
        given = [(stored, "random", {"": None})]
        if arguments.front:
            others = {", `--against`": arguments.against} if arguments.against else {}
            given.append((arguments.front, "a front's", {"": None} | others))
        for path, kind, packages in given:
            number = len(json.loads(path.read_bytes())["designs"])
            name = f"`evaluate designs`, designs.json of {number:,} {kind} ({path.stat().st_size / 1e6:.0f} MB)"
            runs = in_turns(path, root, list(packages.values()), arguments.repeats)
            for which, row in zip(packages, cells(runs), strict=True):
                report.row(name + which, *row)
        if len(packages) > 1:
            shares = runs[:, 0, 1] / runs[:, 1, 1]
            report.say(
                f"\nThe CPU seconds of a front's designs are {np.median(shares):.3f} of the other checkout's, "
                f"{shares.min():.3f} to {shares.max():.3f} in {len(shares)} pairs of consecutive runs."
            )
    report.write(pathlib.Path(arguments.out))


if __name__ == "__main__":
    main()
