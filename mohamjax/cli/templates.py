"""The verb `templates`: lists templates, shows one, or exports one as Timeloop's input."""

from __future__ import annotations

import argparse
import pathlib

from mohamjax.cli import options
from mohamjax.cli.inputs import technology_of
from mohamjax.cli.options import refuse
from mohamjax.cli.outputs import keep_inputs_in, refuse_stream, write
from mohamjax.cli.tables import fitted
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError
from mohamjax.text import table


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("templates", help="list, show or export sub-accelerator templates")
    options.add_common(parser, "write what is printed to a file instead")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="names and sizes")
    listing.add_argument("files", nargs="*", help="template files to list beside the packaged ones")
    options.add_common(listing, "write the list to a file instead", inner=True)
    show = actions.add_parser("show", help="one template in full")
    show.add_argument("name", nargs="?", help="name or YAML file")
    show.add_argument("--yaml", action="store_true", help="print it as a YAML file")
    show.add_argument("--example", action="store_true", help="print a documented example of a template file")
    options.add_common(show, "write it to a file instead", inner=True)
    export = actions.add_parser(
        "export", help="write one template, at its largest sizes, as Timeloop's input with its dataflow as constraints"
    )
    export.add_argument("name", help="name or YAML file")
    export.add_argument(
        "--technology",
        metavar="NAME|FILE",
        help="where energies and areas come from: a packaged technology by name or a file (default: 45nm)",
    )
    options.add_common(export, "folder to write to, made if absent (default: the name of the template)", inner=True)


def _export(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from mohamjax.hardware import load_template
    from mohamjax.io import prepare_folder, write_timeloop_template

    refuse_stream(arguments.out)
    template, technology = load_template(arguments.name), technology_of(arguments)
    out = pathlib.Path(arguments.out or template.name)
    rules = [path.name for path in out.glob("constraints*.yaml")]
    keep_inputs_in(arguments, out, ["arch.yaml", "ERT.yaml", "ART.yaml", *rules])
    folder = prepare_folder(out, "--out")
    written = write_timeloop_template(folder, template, technology)
    terminal.line(
        f"{', '.join(path.name for path in written)} in {folder}: for timeloop-mapper, add a problem and a mapper, "
        "and set TIMELOOP_DISABLE_LINK_TRANSFERS=1"
    )
    return 0


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Lists the templates, or shows or exports one."""
    from mohamjax.hardware import (
        describe,
        example_yaml,
        load_template,
        load_templates,
        named_templates,
        template_to_yaml,
    )

    if arguments.action == "list":
        rows = [["template", "levels", "MACs", "layer types", "description"]]
        for template in load_templates([*named_templates(), *arguments.files]):
            macs = 1
            for level in template.levels:
                macs *= level.fanout[0] * level.fanout[1]
            rows.append(
                [
                    template.name,
                    str(len(template.levels)),
                    str(macs),
                    " ".join(template.layer_types),
                    template.description,
                ]
            )
        write(arguments.out, (fitted(rows) if arguments.out in (None, "-") else table(rows)) + "\n")
        return 0
    if arguments.action == "export":
        return _export(arguments, terminal)
    if arguments.example:
        refuse("is for a template, not for the example, which is a YAML file", yaml=arguments.yaml)
        if arguments.name:
            raise InputError("does not go with --example", item=arguments.name, remedy="leave out one of the two")
        write(arguments.out, example_yaml())
        return 0
    if arguments.name is None:
        raise InputError("no template is named", item="templates show", remedy="name one, or ask for --example")
    template = load_template(arguments.name)
    text = template_to_yaml(template) if arguments.yaml else describe(template)
    write(arguments.out, text if text.endswith("\n") else text + "\n")
    return 0
