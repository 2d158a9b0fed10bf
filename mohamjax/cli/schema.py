"""The verb `schema`: JSON schemas of the files that are read and written."""

from __future__ import annotations

import argparse

from mohamjax.cli import options
from mohamjax.cli.outputs import write
from mohamjax.cli.terminal import Terminal


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("schema", help="print the JSON schema of a file format")
    parser.add_argument("name", nargs="?", help="name of a format, such as designs/1; without it, all names are listed")
    options.add_common(parser, "write what is printed to a file instead")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Prints one schema, or the names of all."""
    import json

    from mohamjax.io.schemas import FORMS, schema

    text = "\n".join(FORMS) if arguments.name is None else json.dumps(schema(arguments.name), indent=2)
    write(arguments.out, text + "\n")
    return 0
