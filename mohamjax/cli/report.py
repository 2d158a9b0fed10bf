"""The verb `report`: makes one HTML page of results folders."""

from __future__ import annotations

import argparse
import os
import pathlib
from typing import TYPE_CHECKING

from mohamjax.cli import options
from mohamjax.cli.outputs import probe
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError

if TYPE_CHECKING:
    from mohamjax.hardware import Technology


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("report", help="make one HTML page of results folders")
    parser.add_argument("folders", nargs="+", metavar="RESULTS", help="results folders of search or codesign")
    parser.add_argument(
        "--details",
        type=options.natural,
        metavar="N",
        help="number of designs shown in detail (schedule, shares, mappings), over all folders; the others are only on "
        "the front and in the table (default 512, about 6 KB each)",
    )
    parser.add_argument(
        "--design",
        metavar="ID",
        action="append",
        default=[],
        help="always show the designs with this design_id in detail, or FOLDER/ID for one folder; may be given several "
        "times",
    )
    parser.add_argument(
        "--target", metavar="TARGET", help=f"open on the design recommended for this target: {options.TARGET_HELP}"
    )
    parser.add_argument("--title", help="title of the page (default: scenario, budget and seed)")
    parser.add_argument(
        "--technology",
        metavar="NAME|FILE",
        action="append",
        default=[],
        help="the technology that the designs were made with, a packaged one by name or a file (default: the packaged "
        "one that was used, or the one that the results hold); may be given several times, once for each technology",
    )
    options.add_common(parser, "the page (default report.html, in the folder if there is one only)")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Writes the page and prints its path."""
    from mohamjax.io.results import PAGE_FILE
    from mohamjax.reports import DETAILS, write_report

    _check_texts(arguments)
    alone = len(arguments.folders) == 1
    out = arguments.out or (pathlib.Path(arguments.folders[0]) if alone else pathlib.Path()) / PAGE_FILE
    if arguments.out:
        probe(arguments.out, stream=False)
    with terminal.waiting(f"evaluating what {out} shows"):
        path = write_report(
            arguments.folders,
            out,
            details=DETAILS if arguments.details is None else arguments.details,
            designs=arguments.design,
            target=arguments.target,
            title=arguments.title,
            technology=_technologies(arguments),
        )
    print(path)
    return 0


def _check_texts(arguments: argparse.Namespace) -> None:
    """Raises `InputError` for a folder's name or a title that is no UTF-8, as the page is, which shows both."""
    shown = [(os.path.basename(os.path.realpath(folder)), folder, None) for folder in arguments.folders]
    for text, folder, item in [*shown, (arguments.title or "", None, "--title")]:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            told, remedy = "is not written in UTF-8", "give another title"
            if folder is not None:
                told, remedy = "has a name that is not written in UTF-8, which a page cannot show", "rename the folder"
            raise InputError(told, file=folder, item=item, remedy=remedy) from None


def _technologies(arguments: argparse.Namespace) -> list[Technology]:
    """Loads the given technologies; raises `InputError` for one that no folder was made with, which would say nothing.

    Folders of early versions do not state theirs.
    """
    from mohamjax.hardware import load_technology, technology_hash
    from mohamjax.io.results_reader import read_results

    loaded = {name: load_technology(name) for name in arguments.technology}
    if loaded:
        files = [read_results(folder, kinds=("search", "codesign")) for folder in arguments.folders]
        stated = [one.config.get("technology_hash") for one in files]
        for name, technology in loaded.items():
            if None not in stated and technology_hash(technology) not in stated:
                told = f"no results here were made with {name}"
                raise InputError(told, item="--technology", remedy="name the one that they were made with, or none")
    return list(loaded.values())
