"""The verb `evaluate`: mappings, schedules and designs from files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from mohamjax.cli import options
from mohamjax.cli.inputs import technology_of, warn_of_slow_buffers
from mohamjax.cli.options import refuse
from mohamjax.cli.outputs import probe, write
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError
from mohamjax.text import plural

__all__ = ["add_parser", "run"]


def add_parser(verbs: Any) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("evaluate", help="evaluate mappings, schedules or designs from files")
    options.add_common(parser, "results; - for standard output, the default")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    mappings = kinds.add_parser("mappings", help="loop nests on given architectures, as Timeloop counts them")
    mappings.add_argument(
        "--architectures", metavar="FILE", help="architectures with their energies [pJ] and areas [um^2] (JSON)"
    )
    mappings.add_argument("--samples", metavar="FILE", help="layers and their loop nests on these (.jsonl, .jsonl.gz)")
    mappings.add_argument(
        "--timeloop",
        nargs="+",
        metavar="FILE",
        help="Timeloop's own YAML instead: architecture, problem, mapping and, if any, ERT, ART and constraints",
    )
    mappings.add_argument(
        "--links",
        choices=("on", "off"),
        default="on",
        help="count what neighbours hand on to each other where an architecture has such links (default on)",
    )
    mappings.add_argument("--float32", action="store_true", help="compute in single precision (default double)")
    mappings.add_argument(
        "--explain",
        nargs="?",
        choices=("text", "json"),
        const="text",
        help="also print why each mapping costs what it does: a table (text, the default) or JSON",
    )
    options.add_common(mappings, "predictions (.jsonl); - for standard output, the default", inner=True)
    schedules = kinds.add_parser(
        "schedules", help="schedules in the formats fluid-schedule/1, job-table/1, schedule/1 and designs/1"
    )
    schedules.add_argument("file", help="a JSON file of one of these formats")
    schedules.add_argument(
        "--technology",
        metavar="NAME|FILE",
        help="with schedule/1 and designs/1: the technology that they were made with, by name or file (default: the "
        "packaged one that they state)",
    )
    options.add_static_energy(schedules)
    schedules.add_argument("--float32", action="store_true", help="compute in single precision (default double)")
    schedules.add_argument(
        "--timelines",
        action="store_true",
        help="also write when each job runs and is slowed, in the file's time unit; for schedule/1 and designs/1 when "
        "each layer runs, and where",
    )
    options.add_common(schedules, "results (JSON); - for standard output, the default", inner=True)
    designs = kinds.add_parser("designs", help="designs of designs.json, or schedule/1 files")
    designs.add_argument("file", help="designs.json of a search, or a schedule/1 file")
    designs.add_argument(
        "--technology",
        metavar="NAME|FILE",
        help="the technology that the designs were made with, by name or file (default: the packaged one that they "
        "state)",
    )
    options.add_static_energy(designs)
    designs.add_argument("--float32", action="store_true", help="compute in single precision (default double)")
    designs.add_argument(
        "--explain",
        metavar="ID",
        nargs="?",
        const="",
        help="say where the time, the energy and the area of the design with this design_id go (without ID: of all "
        "designs), instead of the table unless --out asks for it too",
    )
    designs.add_argument("--json", action="store_true", help="with --explain: as JSON instead of text")
    designs.add_argument(
        "--trace", metavar="FILE", help="also write the timelines in the Chrome trace format (Perfetto)"
    )
    designs.add_argument(
        "--timeloop", metavar="FOLDER", help="also write every chiplet and its layers as input files of Timeloop"
    )
    options.add_common(
        designs, "table of objectives [s, J, mm^2] (CSV); - for standard output, the default", inner=True
    )


def _evaluate_mappings(arguments: argparse.Namespace) -> int:
    from mohamjax.io import evaluate_timeloop
    from mohamjax.io.samples import evaluate_samples

    options = {"links": arguments.links == "on", "float32": arguments.float32, "explain": arguments.explain}
    out = arguments.out or "-"
    pair = (arguments.architectures, arguments.samples)
    if arguments.timeloop is not None:
        if pair != (None, None):
            raise InputError(
                "stands in the place of --architectures and --samples", item="--timeloop", remedy="give either"
            )
        probe(arguments.out)
        summary = evaluate_timeloop(arguments.timeloop, out, **options)
    elif None in pair:
        raise InputError(
            "nothing to evaluate", item="evaluate mappings", remedy="give --architectures and --samples, or --timeloop"
        )
    else:
        probe(arguments.out)
        summary = evaluate_samples(*pair, out, **options)
    print(json.dumps(summary), file=sys.stderr)
    return 0


def _evaluate_schedules(arguments: argparse.Namespace) -> int:
    from mohamjax.io import (
        DESIGNS_FORMAT,
        SCHEDULE_FORMAT,
        check_format,
        dump_json,
        evaluate_designs,
        evaluate_schedules,
        read_json,
        schedules_document,
    )
    from mohamjax.io.schedules import SCHEDULE_READERS

    designs = (SCHEDULE_FORMAT, DESIGNS_FORMAT)
    if check_format(read_json(arguments.file), (*SCHEDULE_READERS, *designs), arguments.file) in designs:
        probe(arguments.out)
        technology = technology_of(arguments) if arguments.technology else None
        static = arguments.static_energy
        rows, evaluated = evaluate_designs(
            arguments.file, technology=technology, static_energy=static, float32=arguments.float32
        )
        _warn_of_slow_buffers(arguments, evaluated)
        write(arguments.out, dump_json(schedules_document(rows, evaluated, timelines=arguments.timelines)))
        _count_designs(rows)
        return 0
    given = {name: getattr(arguments, name) for name in ("technology", "static_energy")}
    refuse("is for the formats schedule/1 and designs/1", "leave it out", **given)
    probe(arguments.out)
    summary = evaluate_schedules(
        arguments.file, arguments.out or "-", float32=arguments.float32, timelines=arguments.timelines
    )
    print(json.dumps(summary), file=sys.stderr)
    return 0


def _evaluate_designs(arguments: argparse.Namespace) -> int:
    from mohamjax.io import (
        evaluate_designs,
        evaluation_csv,
        explain_designs,
        explanations_text,
        prepare_folder,
        write_design_trace,
        write_timeloop_designs,
    )

    if arguments.explain is None:
        refuse("is the form of an explanation", "add --explain, or leave it out", json=arguments.json)
    technology = technology_of(arguments) if arguments.technology else None
    for option in ("out", "trace"):
        probe(getattr(arguments, option), f"--{option}")
    if arguments.timeloop is not None:
        prepare_folder(arguments.timeloop, "--timeloop")
    rows, evaluated = evaluate_designs(
        arguments.file,
        technology=technology,
        static_energy=arguments.static_energy,
        float32=arguments.float32,
        wanted=arguments.explain or None,
    )
    _warn_of_slow_buffers(arguments, evaluated)
    told = None if arguments.explain is None else explain_designs(rows, evaluated, arguments.explain or None)
    if told is None or arguments.out is not None:
        write(arguments.out, evaluation_csv(rows))
    if told is not None:
        # Who asks for an explanation and names no file for the table wants the explanation alone.
        stream = sys.stderr if arguments.out == "-" else sys.stdout
        stream.write(json.dumps(told, indent=1) + "\n" if arguments.json else explanations_text(told))
    asked = {"--trace": arguments.trace, "--timeloop": arguments.timeloop}
    asked = {item: target for item, target in asked.items() if target is not None}
    if asked and evaluated is None:
        raise InputError("no design of the file is valid", file=arguments.file, item=", ".join(asked))
    if evaluated is not None:
        for item, target in asked.items():
            {"--trace": write_design_trace, "--timeloop": write_timeloop_designs}[item](target, evaluated)
    _count_designs(rows)
    return 0


def _warn_of_slow_buffers(arguments: argparse.Namespace, evaluated: Any) -> None:
    if arguments.technology and evaluated is not None:
        warn_of_slow_buffers(evaluated.templates, evaluated.technology)


def _count_designs(rows: Sequence[dict[str, Any]]) -> None:
    good = sum(row["valid"] for row in rows)
    print(f"{plural(len(rows), 'design')}, {good} valid", file=sys.stderr)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Evaluates what a file holds, by its kind."""
    kinds: dict[str, Callable[[argparse.Namespace], int]] = {
        "mappings": _evaluate_mappings,
        "schedules": _evaluate_schedules,
        "designs": _evaluate_designs,
    }
    return kinds[arguments.kind](arguments)
