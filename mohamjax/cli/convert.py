"""The verb `convert`: turns schedules and costs of other tools into the formats of this package."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mohamjax.cli import options
from mohamjax.cli.inputs import application_of, technology_of, templates_of, warn_of_other_memory
from mohamjax.cli.outputs import probe, write
from mohamjax.cli.terminal import Terminal

if TYPE_CHECKING:
    from mohamjax.io.importers import Target
    from mohamjax.mapping import MappingTables

_BANDWIDTH = options.real("a bandwidth from 1e-6 to 1e18", lambda value: 1e-6 <= value <= 1e18)

_KINDS = {
    "layers": "a CSV table with a row per layer: layer, chiplet, and order or start",
    "allocation": "layers and their cores in YAML or JSON, as Stream and ZigZag have them",
    "costs": "a CSV table of measured costs: layer, accelerator, duration, bytes",
}


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("convert", help="turn schedules and costs of other tools into files for mohamjax")
    options.add_common(parser, "JSON file; - for standard output, the default", random=True)
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    for name, told in _KINDS.items():
        kind = kinds.add_parser(name, help=told)
        kind.add_argument("file", help=told)
        if name != "allocation":
            kind.add_argument(
                "--column",
                type=_pair,
                action="append",
                default=[],
                metavar="WHAT=NAME",
                help="what a column is called, as in layer=node; may be given several times",
            )
        if name == "costs":
            kind.add_argument(
                "--bandwidth", type=_BANDWIDTH, required=True, help="memory bandwidth [bytes per time unit]"
            )
            kind.add_argument(
                "--time-unit",
                choices=("cycles", "s"),
                help="time unit (default: the one that the name of the durations' column ends with, else cycles)",
            )
            kind.add_argument("--schedule", metavar="FILE", help="CSV: layer, accelerator, and order or start")
        else:
            kind.add_argument(
                "--workload", nargs="+", required=True, metavar="NAME|FILE", help="scenario, or ONNX files"
            )
            kind.add_argument("--package", metavar="FILE", help="package parameters (YAML)")
            kind.add_argument(
                "--chiplets",
                default="",
                metavar="TEMPLATE,...",
                help="templates of the chiplets where the file does not say: one for all, or one for each",
            )
            kind.add_argument("--budget", choices=("tiny", "small", "paper"), help="mapper budget (default tiny)")
            kind.add_argument(
                "--sample",
                type=options.positive,
                metavar="N",
                help="draw N random mappings of each layer and take the fastest in the package, instead of searching",
            )
            options.add_workload(kind)
            options.add_hardware(kind)
        options.add_common(kind, "JSON file; - for standard output, the default", random=True, inner=True)


def _pair(text: str) -> tuple[str, str]:
    key, sign, name = text.partition("=")
    if not key or not sign or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not WHAT=NAME")
    return key, name


def _target(arguments: argparse.Namespace, terminal: Terminal) -> Target:
    """Returns the application and the hardware of a schedule; `tables` maps layers only when it is called."""
    from mohamjax.api import map_layers
    from mohamjax.io.importers import Target
    from mohamjax.mapper.random_mappings import sample_mappings
    from mohamjax.problem.design_problem import DesignProblem

    if arguments.sample is not None:
        options.refuse("is for mappings that are searched; --sample draws them", budget=arguments.budget)
    application = application_of(arguments)
    templates, technology = templates_of(arguments, application), technology_of(arguments)
    problem = DesignProblem(application, templates, arguments.package, technology)
    warn_of_other_memory(templates, problem.package, technology)

    def tables() -> MappingTables:
        if arguments.sample is not None:
            return sample_mappings(problem, arguments.sample, arguments.seed)
        return map_layers(problem, arguments.budget or "tiny", arguments.seed, progress=terminal.mapping, cache=True)

    chiplets = tuple(name for name in arguments.chiplets.split(",") if name)
    if not chiplets and len(problem.resolved.templates) == 1:
        chiplets = (problem.resolved.templates[0].name,)
    return Target(application, problem.resolved.templates, technology, problem.package, tables, chiplets)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Converts the file; a single warning lists what it does not state."""
    from mohamjax.io import dump_json
    from mohamjax.io.importers import read_allocation, read_cost_table, read_layer_table

    probe(arguments.out)
    if arguments.kind == "costs":
        found = read_cost_table(
            arguments.file,
            bandwidth=arguments.bandwidth,
            time_unit=arguments.time_unit,
            schedule=arguments.schedule,
            columns=dict(arguments.column),
        )
    elif arguments.kind == "allocation":
        found = read_allocation(arguments.file, _target(arguments, terminal))
    else:
        found = read_layer_table(arguments.file, _target(arguments, terminal), dict(arguments.column))
    terminal.close()
    write(arguments.out, dump_json(found.document))
    if found.missing:
        terminal.warn(found.warning)
    terminal.line(found.summary)
    return 0
