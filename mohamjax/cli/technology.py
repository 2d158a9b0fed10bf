"""The verb `technology`: lists the packaged technologies, and makes new ones with CACTI."""

from __future__ import annotations

import argparse
import pathlib

from mohamjax.cli import options
from mohamjax.cli.outputs import probe, write
from mohamjax.cli.tables import fitted
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError
from mohamjax.text import plural, table

_node = options.real("a node in nm from 1 to 90, such as 28", lambda value: 1 <= value <= 90)


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("technology", help="list the packaged technologies, or make one of another node")
    options.add_common(parser, "write what is printed to a file instead")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="names and what their SRAM tables cover")
    options.add_common(listing, "write the list to a file instead", inner=True)
    make = actions.add_parser("make", help="a technology file of any node by CACTI (needs the extra `technology`)")
    make.add_argument("--node", type=_node, required=True, metavar="NM", help="technology node [nm]")
    make.add_argument(
        "--templates",
        metavar="NAME|FILE,...",
        help="templates whose SRAMs the table is to cover, by name or YAML file (default: those of MOHaM's Table 4)",
    )
    make.add_argument(
        "--logic",
        choices=("library", "scaled"),
        default="library",
        help="registers, comparators, arithmetic and DRAM: hwcomponents' own of this node (library, the default), or "
        "the packaged ones of 45 nm with its factors between nodes (scaled)",
    )
    options.add_common(
        make, "YAML file to write, with the SRAM table as CSV beside it (default NODEnm.yaml)", inner=True
    )


def _list(arguments: argparse.Namespace) -> int:
    import numpy as np

    from mohamjax.hardware import default_technology, packaged_technologies
    from mohamjax.hardware.technology import packaged_sram_rows

    cells = [["technology", "SRAM rows", "ports", "widths [bits]", "row counts", ""]]
    for name in packaged_technologies():
        rows = packaged_sram_rows(name)
        width, depth = rows[:, 0], rows[:, 1]
        ports = " ".join(f"{p:g}" for p in np.unique(rows[:, 2]))
        spans = [f"{x.min():.0f} to {x.max():,.0f}" for x in (width, depth)]
        cells.append([name, str(len(rows)), ports, *spans, "default" if name == default_technology() else ""])
    write(arguments.out, (fitted(cells) if arguments.out in (None, "-") else table(cells)) + "\n")
    return 0


def _make(arguments: argparse.Namespace, terminal: Terminal) -> int:
    import csv
    import io

    import yaml

    from mohamjax.hardware import DRAM_TYPES, default_technology, load_technology, load_templates
    from mohamjax.hardware.cacti import logic_scaling, make_sram_rows, memories_of
    from mohamjax.hardware.parts import library_dram, library_parts
    from mohamjax.hardware.technology import SRAM_COLUMNS

    file = pathlib.Path(arguments.out or f"{arguments.node:g}nm.yaml")
    if arguments.out == "-" or file.suffix.lower() not in (".yaml", ".yml"):
        raise InputError("does not name a YAML file", item="--out", remedy="name a file that ends in .yaml")
    base = load_technology()
    dram = {name: float(value) for name, value in zip(DRAM_TYPES, base.dram, strict=True)}
    if arguments.logic == "library":
        parts = library_parts(arguments.node)
        dram |= library_dram(DRAM_TYPES)
        told_of = "Registers, comparators, arithmetic and DRAM: hwcomponents-library (Aladdin) and -cacti at this node"
    else:
        energy, area = logic_scaling(arguments.node)
        parts = {"scale": {"energy": round(energy, 6), "area": round(area, 6), "leakage": round(energy, 6)}}
        told_of = "Logic: from 45 nm by Stillmaker and Baas (2017) at 0.8 V, as hwcomponents scales it"
    beside = file.with_name(f"{file.stem}_sram.csv")
    for target in (file, beside):
        probe(str(target))
    names = [n for n in (arguments.templates or "eyeriss,simba,shidiannao").split(",") if n]
    memories = memories_of(load_templates(names))
    if not memories:
        raise InputError("have no SRAM of limited size", item="--templates", remedy="name others")

    def told(known: int) -> None:
        if known % 50 == 0:
            terminal.line(f"{plural(known, 'size')} of memories known")

    rows = make_sram_rows(arguments.node, memories, progress=told)
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(SRAM_COLUMNS)
    out.writerows([*(f"{x:.0f}" for x in row[:3]), *(f"{x:.6g}" for x in row[3:])] for row in rows)
    write(str(beside), text.getvalue())
    document = {
        "format": "technology/1",
        "name": file.stem,
        "base": default_technology(),
        **parts,
        "sram": beside.name,
        "wire_energy_pJ": float(base.wire[0]),
        "dram_energy_pJ": dram,
    }
    head = (
        f"# {arguments.node:g} nm. SRAM: CACTI 7 through hwcomponents-cacti.\n"
        f"# {told_of}.\n# Wires, and DRAM of no other source, are the packaged ones, not scaled.\n"
    )
    write(str(file), head + yaml.safe_dump(document, sort_keys=False))
    terminal.line(f"{file}: {plural(len(rows), 'size')} of memories in {beside.name}")
    return 0


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Lists the technologies or makes one."""
    return _list(arguments) if arguments.action == "list" else _make(arguments, terminal)
