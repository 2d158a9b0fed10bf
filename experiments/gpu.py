"""Runs the programs of a search on a GPU: rates, launches, memory, and whether results agree with a processor's.

Where JAX finds a GPU, every program is timed there at the sizes below; small ones also run on the processor, whose
results must agree. Lines of the table are compiled side by side, each in a process of its own, and then run one after
another; a line that is not compiled within `--patience` seconds is left out, and the table says so. Without a GPU,
every program is compiled for an H200, its work is counted and its time estimated (`gpu_model`); such a table says so,
too. This needs `pip install "jax[cuda12]"` and no device:

    JAX_PLATFORMS=cpu python experiments/gpu.py --out experiments/results/gpu_estimates.md
    python experiments/gpu.py --out experiments/results/gpu.md --trace traces

Estimates come from tables of made-up mappings of the right shapes, measurements from those of the tiny budget. Loops
whose rounds depend on the data are given the rounds counted in searches on a processor: 6 swaps of an individual and 8
evictions of a mapping; thinning takes a fifth more steps than chunks enter the archive.
"""

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import bench_cost_model
import gpu_model
import jax
import jax.numpy as jnp
import numpy as np
from report import Report, header

from mohamjax.emo.loop import Course, Sizes, generations, start
from mohamjax.hardware import fits, load_technology, load_templates
from mohamjax.io import mapping_cache
from mohamjax.jobs.genetic import DEFAULT_RATES, gsharp_problem
from mohamjax.jobs.job_problem import job_problem
from mohamjax.jobs.scheduler import searched_islands
from mohamjax.jobs.table import JobTable
from mohamjax.mapper import LayerMapper, block_search
from mohamjax.mapper.config import MapperRates
from mohamjax.mapper.problems import largest_children_room
from mohamjax.mapping import Counting, evaluate_batch
from mohamjax.mapping.children import MAX_CHILDREN
from mohamjax.problem import DesignProblem
from mohamjax.runtime import platforms
from mohamjax.search import BUDGETS, Rates, Settings, genetic_problem
from mohamjax.search.plan_operators import PlanRates
from mohamjax.search.precompile import made_up_tables
from mohamjax.workload import load_scenario

ROUNDS = {r"_swaps|scheduling_mutation": 6.0, "evict": 8.0}
GENERATIONS = 8  # of a call that is measured
CHUNK = 512  # rows that enter an archive at once
Part = tuple[Any, Callable[[], tuple[Any, ...]], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: of the line.
        units: designs, mappings or schedules of one call.
        parts: makes the programs of a call: function, what makes its arguments, static arguments.
        target: the number to reach and its unit: per second, milliseconds or GB.
        entered: rows that enter an archive, on which the rounds of thinning depend; 0 if none.
        generations: generations of a measured call, by which its time is divided.
        kernels: whether our own kernel of the fluid model's timeline runs (`platforms.use_kernels`).
    """

    name: str
    units: int
    parts: Callable[[], list[Part]]
    target: tuple[float, str] | None = None
    entered: int = 0
    generations: int = 1
    kernels: bool = False

    @property
    def rounds(self) -> dict[str, float]:
        chunks = -(-self.entered // CHUNK)
        return {**ROUNDS, "archive_update": -(-1.2 * chunks // min(chunks, 32)) if chunks > 1 else 2.0}


@functools.cache
def problem(scenario: str, genes: str, population: int, real: bool) -> tuple[Any, Any]:
    """A scenario's space and the configuration of its search; mappings are made up unless `real`."""
    application, templates = load_scenario(scenario, warn=lambda _: None), load_templates()
    technology = load_technology()
    settings = Settings.preset("tiny", preset="default" if genes == "plans" else "layers")
    config = dataclasses.replace(settings.moham, population=population)
    if real:
        layers, found = application.unique_layers, BUDGETS["tiny"].mapper
        tables = LayerMapper(layers, templates, technology, found, cache=mapping_cache()).search(jax.random.key(0))
    else:
        tables = made_up_tables(application.unique_layers, templates, technology, settings.mapper.entries)
    few = dataclasses.replace(config, population=min(population, 250))
    space = DesignProblem(application).space(jax.random.key(0), tables, orders=few.orders)
    return (space if real else jax.device_get(space)), config


def co_optimiser(real: bool, genes: str, population: int, islands: int = 1) -> list[Part]:
    """A generation: breeding, evaluation, survival."""
    space, config = problem("ar-vr", genes, population, real)
    searched = genetic_problem(config)
    sizes = Sizes(population=population, immigrants=config.immigrant_count, archive=config.archive)
    rates = jax.tree.map(jnp.float32, PlanRates() if genes == "plans" else Rates())

    def arguments() -> tuple[Any, ...]:
        first = jax.jit(functools.partial(start, problem=searched, islands=islands, sizes=sizes))
        return first(jax.random.key(1), space), space, rates, jnp.int32(1), jnp.bool_(True)

    return [(generations.__wrapped__, arguments, {"course": Course(searched, GENERATIONS if real else 1)})]


def own_wires(layers: Any, mappings: Any, machines: Any, *, max_children: int) -> Any:
    """Costs of mappings, with the wires of the array that each uses."""
    used = jnp.prod(mappings.spatial.astype(machines.fanout.dtype), axis=3)
    machines = dataclasses.replace(machines, fanout=jnp.moveaxis(used, 1, 2))
    found = evaluate_batch(layers, mappings, machines, Counting(max_children=max_children))
    return found.cycles.total, found.cycles.onchip, found.energy.total, found.reason, found.level


def batch(most: int, max_children: int = MAX_CHILDREN) -> list[Part]:
    """`evaluate_batch`; without tables over children (`max_children` 0), as the mapper runs it where it can."""
    layers, spaces, machines = bench_cost_model.problems("ar-vr", 8, np.float32)

    def arguments() -> tuple[Any, ...]:
        which = np.random.default_rng(0).integers(0, layers.bounds.shape[0], most).astype(np.int32)
        mappings = bench_cost_model.drawn(jax.random.key(0), spaces, which)
        of_row = [jax.tree.map(lambda x: jnp.asarray(x)[which], tree) for tree in (layers, machines)]
        return of_row[0], mappings, of_row[1]

    return [(own_wires, arguments, {"max_children": max_children})]


def mapping(scenario: str) -> list[Part]:
    """A generation of the mapper, all problems of a scenario at once."""
    layers = load_scenario(scenario, warn=lambda _: None).unique_layers
    templates, technology = load_templates(), load_technology()
    config, rates = BUDGETS["paper"].mapper, MapperRates()
    keys, space, *_ = LayerMapper(layers, templates, technology, config).block(jax.random.key(0))
    sizes = Sizes(config.population, config.immigrants, config.archive)
    search = {"search": block_search.mapping_search(sizes, config.distinct, jnp.dtype(jnp.float32))}
    levels = max(len(template.levels) for template in templates)
    kind = {"fixed": False, "max_children": largest_children_room(layers, templates, technology, levels)}
    traced, own = jax.tree.map(jnp.float32, rates), (space.space, space.template, space.technology)

    def drawn() -> tuple[Any, Any]:
        return jax.jit(functools.partial(block_search.start.__wrapped__, **search))(keys, space.space, None, None)

    def told() -> tuple[Any, ...]:
        state, genes = drawn()
        values = jax.jit(functools.partial(block_search.evaluate.__wrapped__, **kind))(genes, *own)
        return state, genes, values

    return [
        (block_search.ask.__wrapped__, lambda: (drawn()[0], space.space, traced), search),
        (block_search.evaluate.__wrapped__, lambda: (drawn()[1], *own), kind),
        (block_search.tell.__wrapped__, told, search),
    ]


def jobs(population: int) -> list[Part]:
    """One generation of G# after the first population: 60 jobs on 4 accelerators, makespan and energy."""
    rng = np.random.default_rng(0)
    count, cores = 60, 4
    duration = rng.integers(1, 1000, (count, cores)).astype(float)
    table = JobTable(
        jobs=tuple(f"job {i}" for i in range(count)),
        accelerators=tuple(f"core {i}" for i in range(cores)),
        duration=duration,
        bytes=rng.exponential(300.0, (count, cores)),
        energy=1 / duration,
        predecessors=((),) * count,
        resources=("link",),
        bandwidth=(1.0,),
        resources_of_accelerator=((0,),) * cores,
    )
    space = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], job_problem(table))
    rates = jax.tree.map(jnp.float32, DEFAULT_RATES)
    chosen = gsharp_problem(("makespan", "energy"))
    sizes = Sizes(population=population, immigrants=0, archive=128)
    static = {"problem": chosen, "sizes": sizes, "generations": 1}
    return [
        (searched_islands.__wrapped__, lambda: (jax.random.split(jax.random.key(0), 1), space, None, rates), static)
    ]


def rows(real: bool) -> list[Row]:
    """All lines of the table."""

    def designs(name: str, genes: str, population: int, islands: int, target: Any) -> list[Row]:
        one = population + round(0.1 * population)
        parts = functools.partial(co_optimiser, real, genes, population, islands)
        plain = Row(name, one * islands, parts, target, one, generations=GENERATIONS if real else 1)
        return [plain, dataclasses.replace(plain, name=f"{name}, timeline in registers", kernels=True)]

    mapped = mapping_units("data-center")
    return [
        *designs("250 designs", "layers", 250, 1, (4.0, "ms")),
        *designs("256 islands of 250 designs", "layers", 250, 256, (4e6, "/s")),
        *designs("65,536 designs", "layers", 65_536, 1, (1e6, "/s")),
        *designs("65,536 designs, plans decoded", "plans", 65_536, 1, (3e5, "/s")),
        Row("evaluate_batch, own wires, 2^16", 1 << 16, lambda: batch(1 << 16), (1e8, "/s")),
        Row("evaluate_batch, own wires, 2^20", 1 << 20, lambda: batch(1 << 20), (1e8, "/s")),
        Row("evaluate_batch, no tables over children, 2^16", 1 << 16, lambda: batch(1 << 16, 0), (1e8, "/s")),
        Row("evaluate_batch, no tables over children, 2^20", 1 << 20, lambda: batch(1 << 20, 0), (1e8, "/s")),
        Row("mapper, all problems of data-center", mapped, lambda: mapping("data-center"), (3e7, "/s")),
        Row("G#, two objectives, 65,536 schedules", 2 << 16, lambda: jobs(1 << 16), (2e6, "/s"), 1 << 16),
        *designs("262,144 designs", "layers", 262_144, 1, (10.0, "GB")),
    ]


def chosen(real: bool, only: list[str], without: list[str]) -> list[Row]:
    """The lines asked for."""
    table = rows(real)
    found = {row.name: row for part in only for row in table if part in row.name}
    return [row for name, row in found.items() if not any(part in name for part in without)]


def mapping_units(scenario: str) -> int:
    """Mappings of a generation of the mapper, all problems of a scenario at once."""
    layers, templates = load_scenario(scenario, warn=lambda _: None).unique_layers, load_templates()
    config = BUDGETS["paper"].mapper
    number = sum(fits(template, layer.type, layer.shape) is None for layer in layers for template in templates)
    return config.problems_at_once(number) * (config.population + config.immigrants)


COLUMNS = (
    "one generation or batch of", "ms", "million/s", "kernels", "busy ms", "peak GB", "apart", "target", "verdict"
)  # fmt: skip
SMALL = ("250 designs", "evaluate_batch, own wires, 2^16", "mapper, all problems of data-center")
"""Lines that run on the processor too."""

UNITS = {"/s": "{:,.0f}/s", "ms": "{:.2f} ms", "GB": "{:.2f} GB"}


def met(row: Row, milliseconds: float, gigabytes: float) -> tuple[str, str]:
    """The target, and whether it is met."""
    if row.target is None:
        return "", ""
    value, unit = row.target
    has = {"/s": row.units / milliseconds * 1e3, "ms": milliseconds, "GB": gigabytes}[unit]
    fine = has >= value if unit == "/s" else has <= value
    return UNITS[unit].format(value), "met" if fine else "missed: " + UNITS[unit].format(has)


def estimate(row: Row, where: Any, report: Report, hlo: pathlib.Path | None) -> None:
    """Compiles the programs of a line and reports estimates of what they would take on the GPU."""
    began = time.perf_counter()
    whole, memory = gpu_model.Count(), 0.0
    for function, arguments, static in row.parts():
        program = gpu_model.compiled(
            jax.jit(functools.partial(function, **static)), jax.eval_shape(arguments), {}, where
        )
        found = program.memory_analysis()
        peak = found.temp_size_in_bytes + found.argument_size_in_bytes + found.output_size_in_bytes
        memory = max(memory, peak / 1e9)
        keep_text(program, row, function, hlo)
        own = gpu_model.count(program.as_text(), row.rounds)
        for field in ("launches", "trips", "bytes", "low", "high"):
            setattr(whole, field, getattr(whole, field) + getattr(own, field))
        for source, spent in own.where.items():
            whole.where[source] = whole.where.get(source, 0.0) + spent
    target, verdict = met(row, whole.low, memory)
    dearest = sorted(whole.where.items(), key=lambda item: -item[1])[:6]
    rate = f"{row.units / whole.high / 1e3:.3g} to {row.units / whole.low / 1e3:.3g}"
    counts = f"{whole.launches:,.0f}", f"{whole.trips:,.0f}", f"{whole.bytes / 1e9:.2f}", f"{memory:.2f}"
    report.row(row.name, *counts, f"{whole.low:.2f} to {whole.high:.2f}", rate, target, verdict)
    for source, spent in dearest:
        print(f"    {spent:8.3f} ms {source[-100:]}", flush=True)
    print(f"    compiled in {time.perf_counter() - began:.0f} s", flush=True)


def keep_text(program: Any, row: Row, function: Callable[..., Any], folder: pathlib.Path | None) -> None:
    """Writes the text of a compiled program to a folder, if there is one; it tells what each kernel is for."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{row.name} {function.__name__}.txt".replace("/", "_")).write_text(program.as_text())


def ready(row: Row, hlo: pathlib.Path | None) -> tuple[list[tuple[Any, Any]], float | None]:
    """Compiled programs of a line with their arguments, and the share of results that differ from the processor's."""
    platforms.use_kernels(row.kernels)
    checked, apart, out = row.name.startswith(SMALL), list[float](), []
    for function, arguments, static in row.parts():
        options = platforms.compiler_options() or None
        program = jax.jit(functools.partial(function, **static), compiler_options=options)
        given = jax.block_until_ready(arguments())
        compiled = program.lower(*given).compile()
        keep_text(compiled, row, function, hlo)
        found = jax.block_until_ready(compiled(*given))
        if checked:
            here = jax.devices("cpu")[0]
            with jax.default_device(here):  # so that the processor's form of the program is traced
                other = jax.jit(functools.partial(function, **static))(*jax.device_put(given, here))
            apart.append(difference(found, other))
        if row.generations > 1:
            given = (*given[:3], jnp.int32(row.generations), *given[4:])
        out.append((compiled, given))
    return out, max(apart) if checked else None


def measure(row: Row, repeats: int, trace: pathlib.Path | None, hlo: pathlib.Path | None) -> list[str]:
    """Compiles the programs of a line, says so, waits for permission and times them; returns the cells of the table."""
    began = time.perf_counter()
    programs, apart = ready(row, hlo)
    print(f"compiled in {time.perf_counter() - began:.0f} s", flush=True)
    if not sys.stdin.readline():
        sys.exit("nobody is there any more who gives leave")
    milliseconds = 0.0
    for program, given in programs:
        spent = []
        for _ in range(repeats):
            tick = time.perf_counter()
            jax.block_until_ready(program(*given))
            spent.append(time.perf_counter() - tick)
        milliseconds += 1e3 * statistics.median(spent) / row.generations
    used = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
    launches, busy = "", ""
    if trace is not None:
        number, nanoseconds = traced_kernels(row, programs, trace)
        launches, busy = f"{number / row.generations:,.0f}", f"{nanoseconds / row.generations / 1e6:.2f}"
    rate, agrees = f"{row.units / milliseconds / 1e3:.3g}", "" if apart is None else f"{apart:.1e}"
    return [row.name, f"{milliseconds:.2f}", rate, launches, busy, f"{used:.2f}", agrees, *met(row, milliseconds, used)]


def traced_kernels(row: Row, programs: list[tuple[Any, Any]], folder: pathlib.Path) -> tuple[int, float]:
    """Kernels and GPU nanoseconds of one call of all programs; writes their sums by kernel name to a file."""
    here = folder / re.sub(r"\W+", "_", row.name)
    with jax.profiler.trace(str(here)):
        for program, given in programs:
            jax.block_until_ready(program(*given))
    found: dict[str, list[float]] = {}
    for file in here.rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            if "GPU" not in plane.name:
                continue
            for line in (line for line in plane.lines if line.name.startswith("Stream")):
                for event in line.events:
                    of_name = found.setdefault(event.name, [0, 0.0])
                    of_name[0], of_name[1] = of_name[0] + 1, of_name[1] + event.duration_ns
        file.unlink()
    dearest = sorted(found.items(), key=lambda item: -item[1][1])
    table = "".join(f"{time / 1e6:.3f} ms {count:,} times {name}\n" for name, (count, time) in dearest)
    here.with_suffix(".txt").write_text(table)
    return round(sum(count for count, _ in found.values())), sum(time for _, time in found.values())


def side_by_side(names: list[str], options: argparse.Namespace, report: Report) -> None:
    """Compiles lines in processes of their own, then lets one after another run."""
    given = [sys.executable, __file__, "--repeats", str(options.repeats)]
    given += ["--trace", str(options.trace)] if options.trace else []
    given += ["--hlo", str(options.hlo)] if options.hlo else []
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = {name: subprocess.Popen([*given, "--line", name], **pipes) for name in names}
    try:
        _run(children, options.patience, lambda cells: (report.row(*cells), report.write(options.out)))
    finally:
        for child in children.values():
            child.kill()
            child.wait()


def _run(children: dict[str, Any], patience: float, tell: Callable[[list[str]], Any]) -> None:
    """Waits until all are compiled or `patience` [s] is over, then lets one after another run and tells its cells."""
    answers: dict[str, str] = {}

    def wait(name: str, child: Any) -> None:
        answers[name] = child.stdout.readline().strip()

    began = time.perf_counter()
    waiting = {name: threading.Thread(target=wait, args=(name, child), daemon=True) for name, child in children.items()}
    for thread in waiting.values():
        thread.start()
    for name, thread in waiting.items():
        thread.join(max(0.0, patience + began - time.perf_counter()))
        said = answers.get(name, "not compiled in time") or "failed"
        print(f"    {time.perf_counter() - began:.0f} s: {name}: {said}", flush=True)
    late = children.keys() - answers.keys()
    for name in late:
        children[name].kill()  # or it would compile beside those that are measured
    for name, child in children.items():
        cells = [name, f"not compiled in {patience:.0f} s"]
        if name not in late:
            cells = _cells(child.communicate("go\n")[0]) or [name, f"failed, exit code {child.returncode}"]
        tell(cells + [""] * (len(COLUMNS) - len(cells)))


def _cells(said: str) -> list[str] | None:
    """The last line that a process said, if it is one of the table."""
    try:
        return json.loads(said.strip().rsplit("\n", 1)[-1])
    except ValueError:
        return None


def difference(one: Any, other: Any) -> float:
    """Share of numbers that differ by more than rounding, over all leaves; random keys are compared by their data.

    Says on standard error which leaves differ, in how many numbers and by how much.
    """
    wrong = total = 0
    (named, _), others = jax.tree_util.tree_flatten_with_path(one), jax.tree.leaves(other)
    for (path, a), b in zip(named, others, strict=True):
        keys = jnp.issubdtype(a.dtype, jax.dtypes.prng_key)
        a, b = (np.asarray(jax.random.key_data(x) if keys else x) for x in (a, b))
        apart = ~np.isclose(a, b, rtol=1e-5, equal_nan=True)
        if apart.any():
            first = a[apart][:4].tolist(), b[apart][:4].tolist()
            print(f"{jax.tree_util.keystr(path)}: {apart.sum()} of {a.size} differ: {first}", file=sys.stderr)
        wrong, total = wrong + apart.sum(), total + a.size
    return float(wrong / max(total, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--only", nargs="+", default=[""], help="lines whose name has one of these in it, in this order"
    )
    parser.add_argument("--without", nargs="+", default=[], help="no lines whose name has one of these in it")
    parser.add_argument("--hlo", type=pathlib.Path, help="keep the compiled programs in this folder")
    parser.add_argument("--trace", type=pathlib.Path, help="kernels of each line in this folder (measurements)")
    parser.add_argument("--patience", type=float, default=1200, help="seconds of compiling (measurements)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--line", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    options = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share a GPU
    if options.line:
        row = next(row for row in rows(True) if row.name == options.line)
        print(json.dumps(measure(row, options.repeats, options.trace, options.hlo)))
        return
    real = jax.default_backend() != "cpu"
    report = Report()
    report.say(f"{header()}.", "")
    wanted = chosen(real, options.only, options.without)
    if real:
        report.say(
            "Measured. `apart` is the share of results that differ from the processor's by more than 1e-5. `kernels`",
            "(copies included) and their time `busy` are those of a further call under the profiler.",
            "",
        )
        report.head(
            "one generation or batch of",
            "ms",
            "million/s",
            "kernels",
            "busy ms",
            "peak GB",
            "apart",
            "target",
            "verdict",
        )
        side_by_side([row.name for row in wanted], options, report)
    else:
        report.say(
            "**Estimates, not measurements: nothing ran on a GPU.** Compiled for an H200, counted, and timed by the",
            "model of `experiments/gpu_model.py`. Low and high have cheap and dear launches; the verdict is by the low",
            "end. A round trip is one question to the host. `GB moved` counts every operand once.",
            "",
        )
        report.head(
            "one generation or batch of", "launches", "round trips", "GB moved", "peak GB", "ms", "million/s", "target",
            "verdict",
        )  # fmt: skip
        where = gpu_model.device()
        with platforms.traced("both"):
            for row in wanted:
                platforms.use_kernels(row.kernels)
                estimate(row, where, report, options.hlo)
                report.write(options.out)
    report.write(options.out)


if __name__ == "__main__":
    main()
