"""What-if questions of the verb `evaluate`: `--vary`, `--sensitivities`, `--uncertainty`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

from mohamjax.cli.options import positive, refuse
from mohamjax.cli.outputs import write
from mohamjax.cli.tables import fitted, lines
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError
from mohamjax.text import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mohamjax.io import DesignRow
    from mohamjax.schedule import Evaluated
    from mohamjax.whatif import Candidates, Sensitivities, Uncertainty, WhatIf
    from mohamjax.whatif.variant import Hardware, Told

_SAMPLES = 1000

_MOST = 10
"""Number of parameters that are printed for each objective."""


def _varied(text: str) -> tuple[str, str]:
    """Parses `NAME=V,V,...` of `--vary`."""
    name, _, values = text.partition("=")
    if not name or not values:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=V,V,... such as nop.interface_bandwidth=2,4,8")
    return name, values


def _spread(text: str) -> tuple[str, float]:
    """Parses `S` or `NAME=S` of `--uncertainty`."""
    name, _, value = text.rpartition("=")
    try:
        return name, float(value)  # `check` says which numbers are spreads
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a spread, such as 0.2 or technology.dram_energy=0.3"
        ) from None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for what-if questions to a kind of `evaluate`."""
    group = parser.add_argument_group("what if the hardware were another (one question at a time)")
    group.add_argument(
        "--vary",
        type=_varied,
        action="append",
        default=[],
        metavar="NAME=V,V,...",
        help="evaluate on every combination of these values, or of factors such as x0.5,x1,x2; may be given several "
        "times. The result is a table with a row for every variant and design",
    )
    group.add_argument(
        "--sensitivities",
        action="store_true",
        help="how strongly each objective depends on each number of the hardware: the ten that matter most for each "
        "objective; with --out FILE a table of all derivatives and elasticities",
    )
    group.add_argument(
        "--uncertainty",
        type=_spread,
        action="append",
        default=[],
        metavar="[NAME=]S",
        help="draw energies, areas and bandwidths with this standard deviation of their logarithm: intervals of the "
        "objectives and the probability of being non-dominated; with NAME only those that are named",
    )
    group.add_argument("--samples", type=positive, metavar="N", help=f"draws of --uncertainty (default {_SAMPLES})")
    group.add_argument("--figures", metavar="FOLDER", help="also draw the answer (PNG)")


def asked(arguments: argparse.Namespace) -> bool:
    """Returns whether a what-if question was asked."""
    return bool(arguments.vary or arguments.sensitivities or arguments.uncertainty)


def check(arguments: argparse.Namespace, **others: object) -> None:
    """Checks that the options go together, the spreads, and that the folder for figures can be written.

    Args:
        arguments: the parsed arguments.
        others: values of options that do not go with a question, by name.

    Raises:
        InputError: options do not go together, a spread is none, or the folder cannot be written.
    """
    questions = ("vary", "sensitivities", "uncertainty")
    given = [name for name in questions if getattr(arguments, name)]
    if not arguments.uncertainty:
        refuse("is for --uncertainty", samples=arguments.samples)
    if not given:
        refuse("is for --vary, --sensitivities or --uncertainty", figures=arguments.figures)
        return
    refuse(f"is a different question from --{given[0]}", "ask one at a time", **dict.fromkeys(given[1:], True))
    refuse(f"is a different question from --{given[0]}", "ask one at a time", **others)
    for item, names in (("--vary", arguments.vary), ("--uncertainty", arguments.uncertainty)):
        names = [name for name, _ in names]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{twice or 'a spread'} is given twice", item=item, remedy="write it once")
    if any(not name for name, _ in arguments.uncertainty) and len(arguments.uncertainty) > 1:
        raise InputError("a spread of all and one of some", item="--uncertainty", remedy="give either")
    if arguments.uncertainty:
        from mohamjax.whatif.uncertainty import checked_spread

        for name, spread in arguments.uncertainty:
            checked_spread(spread, name or None)
    if arguments.figures is not None:
        from mohamjax.io import prepare_folder
        from mohamjax.plot.whatif import check_panels

        check_panels([len(values.split(",")) for _, values in arguments.vary])
        prepare_folder(arguments.figures, "--figures")


def refuse_beside(arguments: argparse.Namespace) -> None:
    """Raises `InputError` if a question is asked about inputs that are evaluated into one table."""
    own = {name: getattr(arguments, name) for name in ("vary", "sensitivities", "uncertainty", "samples", "figures")}
    told = "does not go with several files, folders of them, --resume, or a table as arrays"
    refuse(told, "ask about one file or results folder, with a CSV file for its answer", **own)


def check_parameters(arguments: argparse.Namespace, hardware: Hardware) -> None:
    """Checks that the hardware of the designs has the parameters that are named; the designs are not evaluated yet."""
    from mohamjax import whatif

    if arguments.vary:
        whatif.read_axes(hardware, dict(arguments.vary))
    elif arguments.uncertainty:
        whatif.read_spreads(hardware, _spread_asked(arguments))


def _spread_asked(arguments: argparse.Namespace) -> float | dict[str, float]:
    """The spread of all parameters, or by name."""
    name, spread = arguments.uncertainty[0]
    return dict(arguments.uncertainty) if name else spread


def answer(
    arguments: argparse.Namespace,
    terminal: Terminal,
    rows: Sequence[DesignRow],
    evaluated: Evaluated | None,
) -> None:
    """Answers the question about the valid designs of a file: writes a table, and figures if asked for.

    Args:
        arguments: the parsed arguments.
        terminal: shows the progress.
        rows: rows from `evaluate_designs`.
        evaluated: the valid designs.

    Raises:
        InputError: no design is valid, or the question cannot be answered.
    """
    from mohamjax import whatif
    from mohamjax.io.what_if import columns_csv

    for row in rows:
        if not row["valid"]:
            print(f"design {row['design_id']} is left out: {row['reason']}", file=sys.stderr)
    if evaluated is None:
        raise InputError("no design of the file is valid", file=arguments.file)
    with terminal.waiting("evaluating the designs on other hardware"):
        candidates = whatif.candidates_of(evaluated, [row["design_id"] for row in rows if row["valid"]])
        found, told = _answered(arguments, candidates, evaluated, terminal.answering)
    if isinstance(found, whatif.Sensitivities) and arguments.out is None:
        number = len(found.names) * len(found.parameters) * 3
        print(told, f"--out FILE writes all {number:,} rows of the table; --out - prints them here", sep="\n")
    else:
        write(arguments.out, columns_csv(found.table()))
        print(told, file=sys.stderr)
    if arguments.figures is not None:
        with terminal.waiting("drawing figures"):
            _draw(arguments, found)


_SAME_NESTS = (
    "The loop nests are those of the design: a larger array or buffer runs them no faster, and has more area and costs "
    "more energy, per access and on its wires. To see what it would bring, search with the chiplet among the fixed "
    "ones of --require: this maps the layers on it"
)


def _answered(
    arguments: argparse.Namespace, candidates: Candidates, evaluated: Evaluated, progress: Told
) -> tuple[WhatIf | Sensitivities | Uncertainty, str]:
    """Returns the answer to the question, and the text to print about it."""
    from mohamjax import whatif

    if arguments.vary:
        found = whatif.what_if(candidates, dict(arguments.vary), progress)
        told = f"{plural(len(candidates), 'design')} on {plural(len(found.settings), 'variant')}"
        if any(name.startswith("chiplet.") for name, _ in arguments.vary):
            told += f"\n{lines(_SAME_NESTS, sys.stderr)}"
        for note in (*whatif.unchanged(candidates, found.axes), *whatif.reasons(found, candidates, evaluated)):
            told += f"\n{lines(note, sys.stderr)}"
    elif arguments.sensitivities:
        found = whatif.sensitivities(candidates, progress=progress)
        stream = sys.stdout if arguments.out is None else sys.stderr
        told = f"{plural(len(candidates), 'design')}, {plural(len(found.parameters), 'parameter')}"
        told += f"\n{_strongest(found, stream)}"
    else:
        spread = _spread_asked(arguments)
        found = whatif.uncertainty(candidates, spread, arguments.samples or _SAMPLES, arguments.seed, progress)
        told = _certainty(found)
    return found, told


def _strongest(found: Sensitivities, stream: IO[str]) -> str:
    """Returns a table of the parameters that matter most for each objective, as wide as `stream`."""
    strong = found.strongest(_MOST)
    rows: list[tuple[str, ...]] = [("objective", "parameter", "elasticity", "5 %", "95 %")]
    for m, objective in enumerate(("latency", "energy", "area")):
        for p in strong.rows[m]:
            name = found.parameters[p].name + (" (doubled)" if found.methods[p] == "doubling" else "")
            rows.append((objective, name, *(f"{x[p, m]:.3g}" for x in (strong.middle, strong.low, strong.high))))
    about = (
        f"The {_MOST} parameters that matter most for each objective. Elasticity: by how many per cent the objective "
        "grows when the parameter grows by one per cent; median, 5th and 95th percentile of the designs."
    )
    return f"{lines(about, stream)}\n{fitted(rows, stream)}"


def _certainty(found: Uncertainty) -> str:
    """Returns one line on how robust the nominal front is; names designs that almost never stay on it."""
    names = [str(name) for name in found.fragile]
    named = f": {', '.join(names[:10])}{' and others' if len(names) > 10 else ''}" if names else ""
    front = int(found.in_front.sum())
    return (
        f"{plural(len(found.names), 'design')} on {plural(len(found.factors), 'sample')}; of {front} on the nominal "
        f"front {len(names)} almost never survive{named}"
    )


def _figures(found: WhatIf | Sensitivities | Uncertainty, title: str) -> Iterator[tuple[str, Figure]]:
    from mohamjax.plot import whatif as plot
    from mohamjax.whatif import Sensitivities, WhatIf

    if isinstance(found, WhatIf):
        yield from plot.what_if_figures(found, title=title)
    elif isinstance(found, Sensitivities):
        yield "sensitivities", plot.tornado(found, title=title)
    else:
        yield "uncertainty", plot.front_under_uncertainty(found, title=title)


def _draw(arguments: argparse.Namespace, found: WhatIf | Sensitivities | Uncertainty) -> None:
    import pathlib

    from mohamjax.figures import save

    folder = pathlib.Path(arguments.figures)
    for name, figure in _figures(found, "/".join(pathlib.Path(arguments.file).absolute().parts[-2:])):
        print(save(figure, folder / f"{name}.png"), file=sys.stderr)
