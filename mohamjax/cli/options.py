"""Options that verbs share: their types, their groups, and the refusal of those that would be ignored."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from mohamjax.errors import Argument, InputError

_OPTIONS = {
    "archive": "--archive",
    "batch": "--batch",
    "budget": "--budget",
    "chiplets": "--chiplets",
    "columns": "--column",
    "coordinator": "--coordinator",
    "cost": "--cost",
    "cost_model": "--cost-model",
    "depthwise": "--depthwise",
    "designs": "--inject",
    "devices": "--devices",
    "format": "--as",
    "front": "--front",
    "islands": "--islands",
    "limit": "--limit",
    "logic": "--logic",
    "mappings": "--inject",
    "max_chiplets": "--max-chiplets",
    "method": "--method",
    "migration": "--migration",
    "objective": "--objective",
    "objectives": "--objectives",
    "one_axis": "--one-axis",
    "out": "--out",
    "package": "--package",
    "platform": "--platform",
    "pool": "--pool",
    "power_cap_W": "--power-cap",
    "ppa": "--ppa",
    "population": "--population",
    "populations": "--populations",
    "preset": "--preset",
    "process": "--process",
    "processes": "--processes",
    "repeats": "--repeats",
    "requirements": "--require",
    "resume": "--resume",
    "robust": "--robust",
    "samples": "--samples",
    "shapes": "--shape",
    "skip_unknown": "--skip-unknown",
    "space": "--space",
    "spread": "--uncertainty",
    "static_energy": "--static-energy",
    "target": "--target",
    "technology": "--technology",
    "template": "--template",
    "templates": "--templates",
    "vary": "--vary",
    "wanted": "--explain",
    "weights": "--weights",
    "within": "--within",
}
"""The option that sets each argument of the library."""

_FORM = {"columns": "NAME", "vary": "V,V,..."}
"""Placeholders for the value of an option `KEY=VALUE`; that of any other option is `d,d,...`, the sizes of a shape."""

_ADVICE = re.compile(r"(?:the )?argument `(\w+)(?:\[([^`]*)\])?(?:=([^`]*))?`")


def as_option(argument: Argument) -> str | None:
    """Returns the command-line option that sets an argument of the library; None if there is none."""
    name, key, value = argument.name, argument.key, argument.value
    if name not in _OPTIONS:
        return None
    if key is not None:
        value = f"{key}={value or _FORM.get(name, 'd,d,...')}"
    return _OPTIONS[name] if value is None else f"{_OPTIONS[name]} {value}"


def with_option(error: InputError) -> InputError:
    """Turns an error about an argument of the library into one about its command-line option, if it has one."""
    option = None if error.argument is None else as_option(error.argument)
    if option is None:
        return error
    return InputError(error.message, file=error.file, item=option, remedy=error.remedy)


def as_options(text: str) -> str:
    """Replaces the library arguments that a message names by command-line options.

    Remedies, warnings and progress write "the argument `budget`", "the argument `budget=tiny`" and, for a dictionary,
    "the argument `shapes[x]`" or "the argument `shapes[x]=1,3,224,224`".
    """
    return _ADVICE.sub(lambda found: as_option(Argument(*found.groups())) or found[0], text)


class Verbs(Protocol):
    """The object to which verbs, or kinds of a verb, are added: the result of `ArgumentParser.add_subparsers`."""

    def add_parser(self, name: str, *, help: str, description: str = ...) -> argparse.ArgumentParser:
        """Adds a verb or kind, and returns its parser."""
        ...


class Arguments(Protocol):
    """The object to which options are added: a parser, or a group in its help."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        """Adds an option."""
        ...


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, like the rest of the package."""

    def error(self, message: str) -> NoReturn:
        """Prints the message and ends the process with code 2."""
        self.exit(2, f"mohamjax: {message}; see {self.prog} --help\n")


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parses `NAME=d,d,...` of `--shape`."""
    name, _, dims = text.rpartition("=")
    try:
        sizes = tuple(int(d) for d in dims.split(","))
    except ValueError:
        sizes = ()
    if not name or not sizes or sizes[0] < 1 or min(sizes) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=d,d,... with positive sizes (0 only after the first)")
    return name, sizes


def positive(text: str) -> int:
    """Parses an integer of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return value


def natural(text: str) -> int:
    """Parses an integer of at least 0."""
    return 0 if text.strip() == "0" else positive(text)


def real(what: str, holds: Callable[[float], bool]) -> Callable[[str], float]:
    """Returns a parser of numbers.

    Args:
        what: names the numbers in the error message.
        holds: whether a number is one of them; false for NaN.
    """

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not holds(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return parse


above_one = real("a number above 1", lambda value: 1 < value < math.inf)
seconds = real("a number of seconds", lambda value: 0 <= value < math.inf)
bandwidth = real("a bandwidth above 0", lambda value: value > 0)


def seed(text: str) -> int:
    """Parses a seed of `jax.random.key`, 0 to 2^32 - 1."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to 2^32 - 1")
    return value


def rate(text: str) -> tuple[str, float]:
    """Parses `NAME=P` of `--rate`."""
    name, _, value = text.partition("=")
    try:
        rate = float(value)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=P with a number from 0")
    return name, rate


def weights(text: str) -> tuple[float, ...]:
    """Parses `W,W,W` of `--weights`: an exponent for each objective."""
    try:
        values = [float(w) for w in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (2, 3) or not all(0 <= w < 1e3 for w in values) or not any(values):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 for each objective, such as 1,1,0")
    return tuple(values)


def names(text: str) -> tuple[str, ...]:
    """Parses `NAME,NAME,...`."""
    return tuple(name.strip() for name in text.split(","))


def add_workload(parser: Arguments) -> None:
    """Adds the options for how networks are read."""
    parser.add_argument("--batch", type=positive, help="samples of every network that run at once (default 1)")
    parser.add_argument(
        "--shape",
        type=shape,
        action="append",
        default=[],
        metavar="NAME=d,d,...",
        help="shape of a graph input; may be given several times",
    )
    parser.add_argument(
        "--skip-unknown",
        action="store_true",
        help="warn about operators that are not known instead of stopping; they pass dependencies on",
    )
    parser.add_argument(
        "--depthwise",
        choices=("physical", "as-released"),
        help="depthwise layers: each channel over its own input (physical, default), or as MOHaM's release has them, a "
        "convolution with one input channel, whose output channels run in parallel and share that input (as-released)",
    )


TARGET_HELP = (
    "what a system must achieve, in quotes: demands separated by commas, such as 'latency<=33ms,area<=20mm2' or "
    "'fps:NETWORK>=30', on latency, latency:NETWORK, energy, area, power, fps, fps:NETWORK and a searched period"
)


def add_common(parser: Arguments, out: str, *, random: bool = False, inner: bool = False) -> None:
    """Adds the options of every verb; those of an `inner` parser keep values that were given to the outer one."""

    def default(value: object) -> object:
        return argparse.SUPPRESS if inner else value

    told = "seed of all randomness (default 0)" if random else "accepted by every verb; nothing is random here"
    parser.add_argument("--seed", type=seed, default=default(0), help=told)
    parser.add_argument("--out", metavar="PATH", default=default(None), help=out)
    parser.add_argument(
        "--no-compile-cache",
        action="store_true",
        default=default(False),
        help="do not keep compiled programs in the user's cache folder",
    )


def add_hardware(parser: Arguments, *names: str) -> None:
    """Adds `--templates` (with `names` as aliases), `--technology` and `--word-bits`."""
    parser.add_argument(
        *names,
        "--templates",
        dest="templates",
        metavar="NAME|FILE,...",
        help="sub-accelerator templates, by name or YAML file, separated by commas (default: the packaged ones)",
    )
    parser.add_argument(
        "--technology",
        metavar="NAME|FILE",
        help="a packaged technology by name (`mohamjax technology list`), or one of your own: YAML, or a CSV table of "
        "SRAMs (default: 45nm)",
    )
    parser.add_argument(
        "--word-bits",
        choices=("template", "model"),
        default="template",
        help="width of operands: the template's (default), or the widest of the model's element types, for which "
        "templates are then built: operand buffers keep their bits, MACs and accumulators grow",
    )


def add_no_pad(parser: Arguments) -> None:
    """Adds `--no-pad`."""
    parser.add_argument(
        "--no-pad",
        action="store_true",
        help="let mappings cover the layers' own bounds alone, and not larger ones that suit a template better",
    )


def add_static_energy(parser: Arguments) -> None:
    """Adds `--static-energy`."""
    parser.add_argument(
        "--static-energy",
        action="store_true",
        help="add leakage over the makespan to the energy of designs (default: no, as in Timeloop's totals)",
    )


def refuse(reason: str, remedy: str = "leave it out", **given: object) -> None:
    """Raises an error if one of several options was given that do not apply here.

    Args:
        reason: why they do not apply, such as "is for an enumeration".
        remedy: what the user can do.
        given: values of the options by name, with `_` for `-`; None, False and empty values mean not given.

    Raises:
        InputError: an option was given; the error names the first one.
    """
    for name, value in given.items():
        if value:
            raise InputError(reason, item="--" + name.replace("_", "-"), remedy=remedy)
