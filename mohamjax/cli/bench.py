"""The verb `bench`: measures this machine and compares it with committed figures of another one."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from mohamjax.cli import options
from mohamjax.cli.outputs import write
from mohamjax.cli.tables import fitted, lines
from mohamjax.cli.terminal import Terminal

if TYPE_CHECKING:
    from mohamjax.benchmark import Bench


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(options.positive(part) for part in text.split(","))


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser(
        "bench",
        help="measure this machine: mappings/s, designs/s, compile seconds, memory",
        description="Measures the layer mapper and the co-optimiser on a scenario. Where there is a figure of another "
        "machine, it stands beside, and the machine and the version of the program are named below the table.",
    )
    parser.add_argument("scenario", nargs="?", default="ar-vr", help="a packaged scenario or a YAML (default ar-vr)")
    parser.add_argument(
        "--populations",
        type=_sizes,
        default=(256, 4096),
        metavar="P,P,...",
        help="designs per generation, one program each (default 256,4096)",
    )
    parser.add_argument("--repeats", type=options.positive, default=5, help="repeats of every measurement (default 5)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options.add_common(parser, "write what is printed to a file instead", random=True)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Measures, and prints the figures as a table or as JSON."""
    from mohamjax.benchmark import bench
    from mohamjax.cli.outputs import probe

    probe(arguments.out)
    found = bench(
        arguments.scenario, arguments.populations, repeats=arguments.repeats, seed=arguments.seed,
        announce=terminal.announce,
    )  # fmt: skip
    terminal.close()
    text = json.dumps(found, indent=2) if arguments.json else "\n".join(bench_lines(found))
    write(arguments.out, text + "\n")
    return 0


def bench_lines(found: Bench) -> list[str]:
    """Returns the lines that `mohamjax bench` prints: the machine, a table, and the sources of committed figures."""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:,.0f}"

    sources: list[str] = []  # each is printed once; rows refer to it by its number
    rows = [
        ["", "here", "elsewhere"],
        ["mapper: compile [s]", f"{found['mapper']['compile_s']:.1f}", ""],
        ["mapper: mappings/s", number(found["mapper"]["mappings_per_s"]), ""],
    ]
    for row in found["populations"]:
        name, committed, elsewhere = f"{row['population']:,} designs", row["committed"], ""
        if committed is not None:
            if committed["measured"] not in sources:
                sources.append(committed["measured"])
            place = sources.index(committed["measured"]) + 1
            elsewhere = f"{number(committed['generation_designs_per_s'])} ({place})"
        rows += [
            [f"{name}: compile [s]", f"{row['compile_s']:.1f}", ""],
            [f"{name}: evaluated/s", number(row["designs_per_s"]), ""],
            [
                f"{name}: whole generations, designs/s",
                number(row["generation_designs_per_s"]),
                elsewhere,
            ],
        ]
    rows.append(["memory [MB]", number(found["memory_MB"]), ""])
    if found["device_memory_MB"] is not None:
        rows.append(["memory of the device [MB]", number(found["device_memory_MB"]), ""])
    machine = f"{found['device']} ({found['platform']}), {found['cores']} cores, JAX {found['versions']['jax']}"
    told = [f"elsewhere ({place}): {source}" for place, source in enumerate(sources, start=1)]
    return [f"{machine}; {found['scenario']}", fitted(rows), *map(lines, told)]
