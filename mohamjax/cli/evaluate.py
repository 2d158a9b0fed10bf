"""The verb `evaluate`: evaluates mappings, schedules and designs from files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mohamjax.cli import options, spread, what_if
from mohamjax.cli.inputs import (
    given_technology,
    given_templates,
    technology_of,
    warn_of_other_memory,
    warn_of_slow_buffers,
)
from mohamjax.cli.options import refuse
from mohamjax.cli.outputs import probe, refuse_stream, tell_export, write, written_as
from mohamjax.cli.terminal import Terminal, warn
from mohamjax.errors import InputError
from mohamjax.text import plural

if TYPE_CHECKING:
    from mohamjax.hardware import Technology
    from mohamjax.io import DesignRow
    from mohamjax.schedule import Evaluated


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("evaluate", help="evaluate mappings, schedules or designs from files")
    options.add_common(parser, "results; - for standard output, the default")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    _add_mappings(kinds)
    _add_schedules(kinds)
    _add_designs(kinds)


def _add_mappings(kinds: options.Verbs) -> None:
    """Adds the kind `mappings` and its options."""
    mappings = kinds.add_parser(
        "mappings", help="loop nests on templates, or on given architectures as Timeloop counts them"
    )
    mappings.add_argument(
        "file",
        nargs="*",
        help="files of the format mappings/1 (JSON), as `map --out` writes them, with your loop nests: a row for each",
    )
    mappings.add_argument(
        "--template",
        "--templates",
        dest="templates",
        metavar="NAME|FILE,...",
        help="with such files: templates of your own that they name, separated by commas (packaged ones are known)",
    )
    mappings.add_argument(
        "--technology", metavar="NAME|FILE", help="with such files: energy and area tables (default: 45nm)"
    )
    mappings.add_argument(
        "--package",
        metavar="FILE",
        help="with such files: package parameters (YAML), of which the off-chip memory and the memory interface count "
        "(default: the memory that templates name, and an interface of 4 GB/s)",
    )
    mappings.add_argument(
        "--architectures", metavar="FILE", help="architectures with their energies [pJ] and areas [um^2] (JSON)"
    )
    mappings.add_argument("--samples", metavar="FILE", help="layers and their loop nests on these (.jsonl, .jsonl.gz)")
    mappings.add_argument(
        "--timeloop",
        nargs="+",
        metavar="FILE|FOLDER",
        help="Timeloop's own YAML instead: architecture, problem, mappings and, if any, ERT, ART and constraints; or "
        "folders of such files, as `map --timeloop` writes them",
    )
    mappings.add_argument(
        "--links",
        choices=("on", "off"),
        help="count what neighbours hand on to each other where an architecture has such links (default on)",
    )
    mappings.add_argument(
        "--first-fills",
        action="store_true",
        help="fill outputs as Timeloop did before version 3.0, where the first visit of an output word is a fill too",
    )
    mappings.add_argument("--float32", action="store_true", help="compute in single precision (default double)")
    mappings.add_argument(
        "--explain",
        nargs="?",
        choices=("text", "json"),
        const="text",
        help="also print why each mapping costs what it does: a table (text, the default) or JSON",
    )
    mappings.add_argument(
        "--strict",
        action="store_true",
        help="exit code 2 where any mapping is refused or cannot be read (default: only where none can be read)",
    )
    options.add_common(
        mappings,
        "rows of such files (.csv, .json, .jsonl), or predictions (.jsonl); - for standard output, the default",
        inner=True,
    )


def _add_schedules(kinds: options.Verbs) -> None:
    """Adds the kind `schedules` and its options."""
    formats = "formats schedule/1, designs/1, job-table/1, fluid-schedule/1 or package-schedule/1"
    schedules = kinds.add_parser("schedules", help=f"schedules in the {formats}")
    _add_files(schedules, f"files of the {formats} (JSON)")
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
    what_if.add_options(schedules)
    options.add_common(
        schedules,
        "results (.json, .csv or .jsonl, by default JSON; CSV for a what-if question and for a table of many entries, "
        "which may also be .jsonl or .npz); - for standard output, the default",
        random=True,
        inner=True,
    )


def _add_designs(kinds: options.Verbs) -> None:
    """Adds the kind `designs` and its options."""
    designs = kinds.add_parser("designs", help="designs of designs.json, or schedule/1 files")
    _add_files(designs, "designs.json of a search, or schedule/1 files")
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
        help="say where the time, the energy and the area of a design go: that with this design_id, or the `fastest`, "
        "the `knee` and so on of a results folder (without ID: all designs). Replaces the table, unless --out asks for "
        "it too",
    )
    designs.add_argument("--json", action="store_true", help="with --explain: as JSON instead of text")
    designs.add_argument(
        "--trace",
        metavar="FILE",
        help="also write timelines in the Chrome trace format (Perfetto): chiplets, interfaces and links as tracks, "
        "bandwidths as counters; a tenth of a MB per design of a hundred layers, see --design",
    )
    designs.add_argument(
        "--design",
        metavar="ID",
        action="append",
        default=[],
        help="only the design with this design_id or name, as for --explain; may be given several times (default: all "
        "designs)",
    )
    designs.add_argument(
        "--timeloop", metavar="FOLDER", help="also write every chiplet and its layers as input files of Timeloop"
    )
    what_if.add_options(designs)
    designs.add_argument(
        "--periods",
        type=options.positive,
        metavar="N",
        help="also run every design for N periods of the network with the lowest frame rate, see --periods-out",
    )
    designs.add_argument(
        "--periods-out", metavar="FILE", help="latencies, throughput and utilisation over the periods (JSON)"
    )
    options.add_common(
        designs,
        "table of objectives [s, J, mm^2] (.csv or .jsonl; also .json for one file and .npz for many entries; CSV by "
        "default); - for standard output, the default",
        random=True,
        inner=True,
    )


def _add_files(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the input files, one or very many, and the options for many."""
    parser.add_argument(
        "file",
        nargs="+",
        help=f"{what}; several of them, folders, JSON lines (.jsonl) and arrays (.npz) go into one table of all "
        "entries, which grows block by block",
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue the table --out of an unfinished evaluation of the same files"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit code 2 where any entry or file is broken (default: only where no file can be read)",
    )
    spread.add_devices(parser, "spread the blocks of a table of many entries")


def _single(arguments: argparse.Namespace, *asked: object) -> bool:
    """Returns whether one file is evaluated by itself; if so, `arguments.file` becomes that file instead of a list.

    JSON lines, arrays and results folders go into a table of entries, unless an option asks for something that such a
    table does not have.

    Args:
        arguments: the parsed arguments.
        asked: values of these options; None, False and empty lists are options that were not given.
    """
    from mohamjax.io import is_batch, one_file

    whole = any(one is not None and one is not False and one != [] for one in asked) or what_if.asked(arguments)
    paths = [str(one_file(path)) for path in arguments.file] if whole else arguments.file
    if is_batch(paths, arguments.out, whole=whole) or arguments.resume:
        return False
    (arguments.file,) = paths
    remedy = "name several files, a folder, or --out TABLE.npz"
    refuse("is for tables of many entries", remedy, devices=arguments.devices)
    return True


def _evaluate_batch(arguments: argparse.Namespace, terminal: Terminal, **single: object) -> int:
    """Evaluates any number of files, of mixed formats, into one table; returns the exit code.

    Args:
        arguments: the parsed arguments.
        terminal: shows the progress.
        single: values of options that are for one file only, by name.
    """
    from mohamjax.io import evaluate_files, find_inputs

    refuse("is for one file", _ONE_FILE, **single)
    written_as(arguments.out, "csv", "jsonl", "npz")
    probe(arguments.out)
    technology = given_technology(arguments)
    told = 0

    def complain(text: str) -> None:
        nonlocal told
        told += 1
        if told <= _MOST_TOLD:
            terminal.warn(text)

    with terminal.waiting("looking for files to evaluate"):
        inputs = find_inputs(arguments.file)
    with terminal.waiting("reading the files"):
        summary = evaluate_files(
            inputs,
            arguments.out,
            technology=technology,
            static_energy=arguments.static_energy,
            float32=arguments.float32,
            resume=arguments.resume,
            progress=terminal.evaluation,
            complain=complain,
            devices=arguments.devices,
        )
    if told > _MOST_TOLD:
        warn(f"{told - _MOST_TOLD} more entries are broken: the column `reason` of the table says why")
    if summary.passed_over:
        plain, were = plural(summary.passed_over, "file"), "was" if summary.passed_over == 1 else "were"
        named = ", ".join(map(str, inputs.others[:_MOST_NAMED]))
        more = f" and {summary.passed_over - _MOST_NAMED:,} more" if summary.passed_over > _MOST_NAMED else ""
        print(f"{plain} in folders held something else and {were} passed over: {named}{more}", file=sys.stderr)
    kept = f", {summary.resumed} of them from before" if summary.resumed else ""
    print(f"{plural(summary.rows, 'row')}{kept}, {summary.valid} valid", file=sys.stderr)
    read = summary.valid + summary.resumed + summary.entries + summary.empty > 0
    return _exit_code(arguments, summary.rows, summary.valid, read)


_ONE_FILE = "name a single JSON, JSON lines or npz file or a results folder, without --resume or a table as arrays"

_MOST_NAMED = 4  # passed-over files whose names are printed

_MOST_TOLD = 20  # broken entries that are reported one by one


def _tell_broken(broken: Sequence[str]) -> None:
    """Warns about the broken entries of one file."""
    for text in broken[:_MOST_TOLD]:
        warn(text)
    if len(broken) > _MOST_TOLD:
        warn(f"{len(broken) - _MOST_TOLD} more are broken: `reason` of the answer says why")


def _evaluate_mappings(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from mohamjax.io import evaluate_timeloop
    from mohamjax.io.samples import evaluate_samples

    options = {
        "links": arguments.links != "off",
        "first_fills": arguments.first_fills,
        "float32": arguments.float32,
        "explain": arguments.explain,
    }
    pair = (arguments.architectures, arguments.samples)
    if arguments.file:
        return _evaluate_nests(arguments, terminal)
    own = {name: getattr(arguments, name) for name in ("templates", "technology", "package")}
    refuse("is for files of the format mappings/1", "name one, or leave it out", **own)
    if arguments.timeloop is not None:
        if pair != (None, None):
            raise InputError(
                "replaces --architectures and --samples", item="--timeloop", remedy="give one or the other"
            )
    elif None in pair:
        raise InputError(
            "nothing to evaluate",
            item="evaluate mappings",
            remedy="name files of the format mappings/1, or give --architectures and --samples, or --timeloop",
        )
    written_as(arguments.out, "jsonl")
    probe(arguments.out)
    out = arguments.out or "-"
    if arguments.timeloop is not None:
        with terminal.waiting("evaluating the mappings"):
            summary = evaluate_timeloop(arguments.timeloop, out, **options)
    else:
        with terminal.waiting(f"evaluating {arguments.samples}"):
            summary = evaluate_samples(*pair, out, **options)
    print(json.dumps(summary), file=sys.stderr)
    return _exit_code(arguments, int(summary["samples"]), int(summary["accepted"]))


def _evaluate_nests(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Evaluates the loop nests of `mappings/1` files on templates; returns the exit code."""
    from mohamjax.hardware import load_package
    from mohamjax.io import evaluate_nests, rows_text

    others = ("architectures", "samples", "timeloop", "first_fills", "explain")
    own = {name: getattr(arguments, name) for name in others} | {"links": arguments.links}
    remedy = "leave it out, or name no such file; it goes with --samples or --timeloop"
    refuse("does not go with files of the format mappings/1", remedy, **own)
    ending = written_as(arguments.out, "csv", "json", "jsonl")
    probe(arguments.out)
    templates = given_templates(arguments)
    package = None if arguments.package is None else load_package(arguments.package)
    technology = technology_of(arguments)
    if package is not None:
        warn_of_other_memory(templates, package, technology)
    broken: list[str] = []
    with terminal.waiting(f"evaluating {', '.join(arguments.file)}"):
        rows = evaluate_nests(
            arguments.file,
            templates=templates,
            technology=technology,
            package=package,
            float32=arguments.float32,
            complain=broken.append,
        )
    _tell_broken([options.as_options(text) for text in broken])
    for row in rows:
        row["reason"] = options.as_options(row["reason"])
    write(arguments.out, rows_text(rows, ending, {"format": "nest-costs/1"}, "nests"))
    valid, files = sum(row["valid"] for row in rows), sum(not row["id"] for row in rows)
    unread = f"; {plural(files, 'file')} could not be read" if files else ""
    print(f"{plural(len(rows) - files, 'loop nest')}, {valid} valid{unread}", file=sys.stderr)
    return _exit_code(arguments, len(rows), valid)


def _evaluate_schedules(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from mohamjax.io import (
        DESIGNS_FORMAT,
        SCHEDULE_FORMAT,
        check_format,
        evaluate_schedules,
        read_document,
    )
    from mohamjax.io.designs_reader import refuse_answer
    from mohamjax.io.schedules import SCHEDULE_READERS

    what_if.check(arguments, timelines=arguments.timelines)
    if not _single(arguments, arguments.timelines):
        what_if.refuse_beside(arguments)
        return _evaluate_batch(arguments, terminal, timelines=arguments.timelines)
    ending = written_as(arguments.out, "csv") if what_if.asked(arguments) else ""
    ending = ending or written_as(arguments.out, "json", "csv", "jsonl")
    if ending == "csv":
        refuse("is a list per schedule, which CSV has no place for", "write .json", timelines=arguments.timelines)
    designs = (SCHEDULE_FORMAT, DESIGNS_FORMAT)
    document = None if arguments.file.endswith(".npz") else read_document(arguments.file)
    if document is None or check_format(document, (*SCHEDULE_READERS, *designs), arguments.file) in designs:
        probe(arguments.out)
        technology = given_technology(arguments)
        rows, evaluated = _evaluated(arguments, terminal, technology)
        if what_if.asked(arguments):
            what_if.answer(arguments, terminal, rows, evaluated)
            return _code_of(arguments, rows)
        _write_designs(arguments, rows, evaluated, ending)
        _count_designs(rows)
        return _code_of(arguments, rows)
    refuse_answer(document, arguments.file)
    given = ("technology", "static_energy", "vary", "sensitivities", "uncertainty")
    own = {name: getattr(arguments, name) for name in given}
    refuse("is for the formats schedule/1 and designs/1", "leave it out", **own)
    probe(arguments.out)
    broken: list[str] = []
    with terminal.waiting(f"evaluating {arguments.file}"):
        summary = evaluate_schedules(
            arguments.file,
            arguments.out or "-",
            float32=arguments.float32,
            timelines=arguments.timelines,
            ending=ending,
            complain=broken.append,
            document=document,
        )
    _tell_broken(broken)
    print(json.dumps(summary), file=sys.stderr)
    return _exit_code(arguments, len(broken), 0)


def _write_designs(
    arguments: argparse.Namespace, rows: Sequence[DesignRow], evaluated: Evaluated | None, ending: str
) -> None:
    """Writes the objectives of the designs of one file in the format `ending`."""
    from mohamjax.io import evaluation_csv, rows_text, schedules_document

    if ending == "csv":
        write(arguments.out, evaluation_csv(rows))
        return
    told = schedules_document(rows, evaluated, timelines=getattr(arguments, "timelines", False))
    write(arguments.out, rows_text(told.pop("schedules"), ending, told, "schedules"))


def _evaluate_designs(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from mohamjax.io import (
        choose_designs,
        explain_designs,
        explanations_text,
        prepare_folder,
        write_design_trace,
    )

    single = ("explain", "json", "trace", "timeloop", "periods", "periods_out", "design")
    if not _single(arguments, *(getattr(arguments, name) for name in single)):
        what_if.refuse_beside(arguments)
        refuse("is for one file", _ONE_FILE, explain=arguments.explain is not None)
        return _evaluate_batch(arguments, terminal, **{name: getattr(arguments, name) for name in single[1:]})
    if arguments.explain is None:
        refuse("is for explanations", "add --explain, or leave it out", json=arguments.json)
    own = {name: getattr(arguments, name) for name in ("trace", "timeloop", "periods", "periods_out")}
    what_if.check(arguments, explain=arguments.explain is not None, **own)
    ending = written_as(arguments.out, "csv") if what_if.asked(arguments) else ""
    ending = ending or written_as(arguments.out, "csv", "json", "jsonl")
    if (arguments.periods is None) != (arguments.periods_out is None):
        raise InputError(
            "goes together with --periods-out", item="--periods", remedy="give --periods N and --periods-out FILE"
        )
    technology = given_technology(arguments)
    refuse_stream(arguments.timeloop, "--timeloop")
    for option in ("out", "trace", "periods_out"):
        probe(getattr(arguments, option), f"--{option.replace('_', '-')}", stream=option == "out")
    if arguments.timeloop is not None:
        prepare_folder(arguments.timeloop, "--timeloop")
    if arguments.explain or arguments.design:
        from mohamjax.io.results_reader import design_called  # imported late: it imports the search

        arguments.explain = arguments.explain and design_called(arguments.file, arguments.explain)
        arguments.design = [design_called(arguments.file, name) for name in arguments.design]
        if arguments.explain and arguments.design and arguments.explain not in arguments.design:
            raise InputError(
                f"design {arguments.explain} is none of those that --design leaves: {', '.join(arguments.design)}",
                file=arguments.file,
                item="--explain",
                remedy="name it with --design, too, or give --explain without a name to explain those of --design",
            )
    wanted = [*([arguments.explain] if arguments.explain else []), *arguments.design]
    rows, evaluated = _evaluated(arguments, terminal, technology, wanted)
    if arguments.design:
        rows, evaluated = choose_designs(rows, evaluated, arguments.design)
    if what_if.asked(arguments):
        what_if.answer(arguments, terminal, rows, evaluated)
        return _code_of(arguments, rows)
    told = None
    if arguments.explain is not None:
        with terminal.waiting("explaining the designs"):
            told = explain_designs(rows, evaluated, arguments.explain or None)
    if told is None or arguments.out is not None:
        _write_designs(arguments, rows, evaluated, ending)
    if told is not None:
        # Without --out, only the explanation is printed; with --out -, the table takes standard output.
        stream = sys.stderr if arguments.out == "-" else sys.stdout
        stream.write(json.dumps(told, indent=1) + "\n" if arguments.json else explanations_text(told))
    asked = {"--trace": arguments.trace, "--timeloop": arguments.timeloop, "--periods-out": arguments.periods_out}
    asked = {item: target for item, target in asked.items() if target is not None}
    if asked and evaluated is None:
        raise InputError("no design of the file is valid", file=arguments.file, item=", ".join(asked))
    if evaluated is not None:
        names = [row["design_id"] for row in rows if row["valid"]]
        if arguments.trace is not None:
            with terminal.waiting(f"writing {arguments.trace}"):
                write_design_trace(arguments.trace, evaluated, names)
        if arguments.timeloop is not None:
            from mohamjax.io import write_timeloop_designs

            exported = write_timeloop_designs(
                arguments.timeloop, evaluated, names, progress=terminal.exporting("designs")
            )
            tell_export(terminal, "design", exported, arguments.timeloop)
        if arguments.periods is not None:
            from mohamjax.io.periods import write_periods

            with terminal.waiting("running the designs for several periods"):
                write_periods(arguments.periods_out, rows, evaluated, arguments.periods)
    _count_designs(rows)
    return _code_of(arguments, rows)


def _evaluated(
    arguments: argparse.Namespace, terminal: Terminal, technology: Technology | None, wanted: Sequence[str] = ()
) -> tuple[list[DesignRow], Evaluated | None]:
    """Evaluates the designs of the one input file, once what is asked of them is known to have an answer."""
    from mohamjax.io import check_wanted, evaluate_file, read_designs

    with terminal.waiting(f"evaluating {arguments.file}"):
        file = read_designs(arguments.file, technology=technology, static_energy=arguments.static_energy)
        for name in wanted:
            check_wanted(file.names, file.reasons, name)
        if len(file.designs):
            what_if.check_parameters(arguments, file)
        rows, evaluated = evaluate_file(file, float32=arguments.float32)
    _warn_of_slow_buffers(arguments, evaluated)
    return rows, evaluated


def _warn_of_slow_buffers(arguments: argparse.Namespace, evaluated: Evaluated | None) -> None:
    if arguments.technology and evaluated is not None:
        warn_of_slow_buffers(evaluated.templates, evaluated.technology)


def _exit_code(arguments: argparse.Namespace, entries: int, valid: int, read: bool = True) -> int:
    """Returns 2 if no file could be read or, with --strict, if some entry is not valid; otherwise 0.

    Without --strict, a broken entry is a row that says why, not an error.
    """
    return 2 if not read or (arguments.strict and valid < entries) else 0


def _code_of(arguments: argparse.Namespace, rows: Sequence[DesignRow]) -> int:
    """Returns the exit code for the designs of one file."""
    return _exit_code(arguments, len(rows), sum(bool(row["valid"]) for row in rows))


def _count_designs(rows: Sequence[DesignRow]) -> None:
    good = sum(row["valid"] for row in rows)
    print(f"{plural(len(rows), 'design')}, {good} valid", file=sys.stderr)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Evaluates the files as the kind that was named."""
    kinds: dict[str, Callable[[argparse.Namespace, Terminal], int]] = {
        "mappings": _evaluate_mappings,
        "schedules": _evaluate_schedules,
        "designs": _evaluate_designs,
    }
    return kinds[arguments.kind](arguments, terminal)
