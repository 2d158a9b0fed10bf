"""The verb `validate`: checks files before a command takes them."""

from __future__ import annotations

import argparse

from mohamjax.cli import options
from mohamjax.cli.outputs import probe, write
from mohamjax.cli.terminal import Terminal, warn
from mohamjax.errors import InputError

_MOST_TOLD = 20  # broken entries of a file that are reported one by one


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser(
        "validate",
        help="check files of any format that is read",
        description="Reads files with every check that the commands make. Each valid file is a line; an invalid one is "
        "an error that names the place and the remedy, and the exit code is then 2.",
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
    options.add_common(parser, "write the lines to a file instead")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Checks every file; returns 2 if one of them, or an entry of one, is not valid."""
    from mohamjax.io.validation import FORMATS, validate_file
    from mohamjax.reader import choice

    if arguments.format is not None:  # before any file is read
        choice(arguments.format, FORMATS, what="format", item="--as")
    probe(arguments.out)
    lines, code = [], 0
    for path in arguments.file:
        try:
            with terminal.waiting(f"checking {path}"):
                checked = validate_file(path, arguments.format, warn=terminal.warn)
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
