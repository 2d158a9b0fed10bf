"""The verb `validate`: checks files before a command takes them."""

from __future__ import annotations

import argparse
from typing import Any

from mohamjax.cli import options
from mohamjax.cli.inputs import application_of, given_technology, given_templates, reading_of
from mohamjax.cli.outputs import probe, write
from mohamjax.cli.terminal import Terminal, warn
from mohamjax.errors import InputError

_MOST_TOLD = 20  # broken entries of a file that are reported one by one


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser(
        "validate",
        help="check input files before a command takes them",
        description="Reads files with the checks that the commands make. Each file is a line; one that cannot be read "
        "is an error instead, which names the place and the remedy, and each broken entry is a warning. The exit code "
        "is 2 if anything is not valid. Architectures, samples and files of Timeloop (`evaluate mappings`) and tables "
        "of other tools (`convert`) are not checked here.",
    )
    parser.add_argument(
        "file",
        nargs="+",
        help="networks (ONNX), scenarios, templates, packages, technologies, requirements, designs, schedules, loop "
        "nests, jobs, or folders of results",
    )
    parser.add_argument(
        "--as",
        dest="format",
        metavar="FORMAT",
        help="format of the files, such as template/1 (default: by ending, by the key `format`, or by the other keys)",
    )
    parser.add_argument(
        "--workload",
        nargs="+",
        metavar="NAME|FILE",
        help="with robust/1: the scenario, or the ONNX files, whose networks its models name (default: these names are "
        "not looked up)",
    )
    parser.add_argument(
        "--templates", metavar="NAME|FILE,...", help="with mappings/1: templates of your own, separated by commas"
    )
    parser.add_argument(
        "--technology",
        metavar="NAME|FILE",
        help="with designs and loop nests: the technology that they are for (default: the packaged one that designs "
        "state, 45nm for loop nests)",
    )
    options.add_workload(parser)
    options.add_common(parser, "write the lines to a file instead")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Checks every file; returns 2 if one of them, or an entry of one, is not valid."""
    from mohamjax.io.validation import FORMATS, validate_file
    from mohamjax.reader import choice

    if arguments.format is not None:  # before any file is read
        choice(arguments.format, FORMATS, what="format", item="--as")
    probe(arguments.out)
    given: dict[str, Any] = {
        "application": application_of(arguments) if arguments.workload else None,
        "templates": given_templates(arguments),
        "technology": given_technology(arguments),
        "networks": reading_of(arguments),
        "warn": terminal.warn,
    }
    lines, code = [], 0
    for path in arguments.file:
        try:
            with terminal.waiting(f"checking {path}"):
                checked = validate_file(path, arguments.format, **given)
        except InputError as error:
            terminal.line(f"mohamjax: {options.with_option(error)}")
            code = 2
            continue
        for reason in checked.broken[:_MOST_TOLD]:
            warn(f"{path}: {reason}")
        if len(checked.broken) > _MOST_TOLD:
            warn(f"{path}: {len(checked.broken) - _MOST_TOLD} more are not valid")
        code = 2 if checked.broken else code
        lines.append(f"{checked}\n")
    write(arguments.out, "".join(lines))
    return code
