"""The verb `workload`: prints the layers of networks."""

from __future__ import annotations

import argparse

from mohamjax.cli import options
from mohamjax.cli.inputs import application_of
from mohamjax.cli.options import refuse
from mohamjax.cli.outputs import write
from mohamjax.cli.tables import fitted
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("workload", help="print the layers of networks")
    parser.add_argument(
        "workload",
        nargs="*",
        help="ONNX files, scenarios or packaged networks by name, or a scenario YAML; without any, the packaged ones",
    )
    parser.add_argument("--csv", metavar="FILE", help="the layers of one network as CSV; - for standard output")
    options.add_workload(parser)
    options.add_common(parser, "same as --csv")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Prints the networks, or the layers of one."""
    from mohamjax.io.files import csv_text
    from mohamjax.workload import LAYER_COLUMNS, layer_rows, networks_by_scenario, packaged_networks

    named = bool(arguments.workload)
    if not named:
        refuse(
            "is for networks that are named",
            "name one, such as resnet50",
            csv=arguments.csv, out=arguments.out, batch=arguments.batch, shape=arguments.shape,
            skip_unknown=arguments.skip_unknown, depthwise=arguments.depthwise,
        )  # fmt: skip
    application = application_of(arguments) if named else packaged_networks()
    if arguments.csv:
        refuse("is the same as --csv", "give one of the two", out=arguments.out)
    target = arguments.csv or arguments.out
    if target is not None:
        if len(application.networks) != 1:
            raise InputError(
                f"--csv prints one network, there are {len(application.networks)}", remedy="name one ONNX file"
            )
        write(target, csv_text(layer_rows(application.networks[0]), LAYER_COLUMNS))
        return 0
    rows = [["network", "layers", "unique", "GMAC", "types"]]
    for network in application.networks:
        types: dict[str, int] = {}
        for layer in network.layers:
            types[layer.type] = types.get(layer.type, 0) + 1
        unique = len({(x.type, x.shape) for x in network.layers})
        listed = ", ".join(f"{n} {t}" for t, n in sorted(types.items()))
        rows.append([network.name, str(len(network.layers)), str(unique), f"{network.macs / 1e9:.4f}", listed])
    print(fitted(rows))
    if not named:
        print(
            "\n" + fitted([["scenario", "networks"], *([k, ", ".join(v)] for k, v in networks_by_scenario().items())])
        )
    return 0
