"""The verb `plot`: draws the figures of a search's results folder again."""

from __future__ import annotations

import argparse

from mohamjax.cli import options
from mohamjax.cli.inputs import given_technology
from mohamjax.cli.outputs import refuse_stream
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("plot", help="draw the figures of a search's results folder again")
    parser.add_argument("folder", help="results folder of a search")
    parser.add_argument("--format", default="png", help="png, svg or pdf; several separated by commas")
    parser.add_argument(
        "--technology",
        metavar="NAME|FILE",
        help="the technology that the designs were made with, by name or file (default: the packaged one that was "
        "used, or the one that the results hold)",
    )
    options.add_common(parser, "folder for the figures (default FOLDER/figures)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Draws the figures and prints their paths."""
    from mohamjax.figures import plot_results

    refuse_stream(arguments.out)
    formats = tuple(f for f in arguments.format.split(",") if f)
    if not formats:
        raise InputError("no format is named", item="--format", remedy="use png, svg or pdf")
    technology = given_technology(arguments)
    with terminal.waiting("drawing figures"):
        paths = list(plot_results(arguments.folder, out=arguments.out, formats=formats, technology=technology))
    for path in paths:
        print(path)
    return 0
