"""The verb `decide`: which designs of a front meet a target, and what the next steps would cost."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence

from mohamjax.cli import options
from mohamjax.cli.outputs import probe, write
from mohamjax.cli.tables import decision_table, lines
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("decide", help="name the designs of a front that meet a target")
    parser.add_argument("folder", metavar="RESULTS", help="results folder of a search")
    parser.add_argument("target", metavar="TARGET", help=options.TARGET_HELP)
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")
    options.add_common(parser, "write what is printed to a file instead")


def several_folders(arguments: argparse.Namespace, unknown: Sequence[str]) -> str:
    """Returns the error message for several folders before the target; empty if the mistake is another one.

    Args:
        arguments: the parsed arguments.
        unknown: arguments that the parser does not know.
    """
    folders, target = [arguments.folder, arguments.target, *unknown[:-1]], unknown[-1]
    if any(word.startswith("-") for word in unknown) or not set("<>=") & set(target):
        return ""
    together = shlex.join(["mohamjax", "report", *folders, "--target", target])
    return (
        f"decide takes one results folder and a target, not {len(folders)} folders; {together} compares them on a page"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Prints the designs that meet the target; the exit code is 1 if there is none."""
    from mohamjax.io.results_reader import built_in, read_results
    from mohamjax.schedule.decision import decide
    from mohamjax.schedule.recommended import remarks

    probe(arguments.out)
    results = read_results(arguments.folder)
    try:
        decision = decide(results.front, arguments.target, results.certificate)
    except InputError as error:
        if error.argument is None:
            raise
        raise InputError(error.message, item="TARGET", remedy=error.remedy) from None
    best = decision.recommended
    said = [] if best is None else remarks(decision, built_in(arguments.folder, best["design_id"]))
    if arguments.json:
        told = json.dumps({**decision.to_dict(), "remarks": said}, indent=2)
    else:
        told = "\n".join([decision_table(decision, mapped_again=results.mapped_again), *map(lines, said)])
    write(arguments.out, told + "\n")
    return 0 if decision.kept else 1
