"""Options that verbs share: their types, their groups, and the refusal of those that would be ignored."""

from __future__ import annotations

import argparse
import math
import re
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
    "front": "--front",
    "limit": "--limit",
    "logic": "--logic",
    "mappings": "--inject",
    "max_chiplets": "--max-chiplets",
    "method": "--method",
    "objective": "--objective",
    "objectives": "--objectives",
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
"""Options by the arguments of the library that they become."""

_FORM = {"columns": "NAME", "vary": "V,V,..."}
"""What stands after the key of an option that is a dictionary, where it is not the sizes of a shape."""

_ADVICE = re.compile(r"(?:the )?argument `(\w+)(?:\[([^`]*)\])?(?:=([^`]*))?`")


def as_option(argument: Argument) -> str | None:
    """The option of the command line that an argument of the library stands for; None where there is none."""
    name, key, value = argument.name, argument.key, argument.value
    if name not in _OPTIONS:
        return None
    if key is not None:
        value = f"{key}={value or _FORM.get(name, 'd,d,...')}"
    return _OPTIONS[name] if value is None else f"{_OPTIONS[name]} {value}"


def with_option(error: InputError) -> InputError:
    """A complaint of the library about an argument as one about an option of the command line."""
    option = None if error.argument is None else as_option(error.argument)
    if option is None:
        return error
    return InputError(error.message, file=error.file, item=option, remedy=error.remedy)


def as_options(text: str) -> str:
    """Prose of the library, with options of the command line in the place of the arguments that it recommends.

    Remedies, warnings and progress write "the argument `budget`", "the argument `budget=tiny`" and, of a dictionary,
    "the argument `shapes[x]`" or "the argument `shapes[x]=1,3,224,224`".
    """
    return _ADVICE.sub(lambda found: as_option(Argument(*found.groups())) or found[0], text)


class Verbs(Protocol):
    """Where verbs, or kinds of a verb, are added: what `ArgumentParser.add_subparsers` gives."""

    def add_parser(self, name: str, *, help: str, description: str = ...) -> argparse.ArgumentParser:
        """Adds one."""
        ...


class Arguments(Protocol):
    """What takes options: a parser, or a group of its help."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        """Adds one."""
        ...


class Parser(argparse.ArgumentParser):
    """Complains in one line, like everything else."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with code 2."""
        self.exit(2, f"mohamjax: {message}; see {self.prog} --help\n")


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`NAME=d,d,...` of `--shape`."""
    name, _, dims = text.rpartition("=")
    try:
        sizes = tuple(int(d) for d in dims.split(","))
    except ValueError:
        sizes = ()
    if not name or not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=d,d,... with positive sizes")
    return name, sizes


def positive(text: str) -> int:
    """A whole number from 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return value


def natural(text: str) -> int:
    """A whole number from 0."""
    return 0 if text.strip() == "0" else positive(text)


def above_one(text: str) -> float:
    """A number above 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 1")
    return value


def seconds(text: str) -> float:
    """A length of time."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def seed(text: str) -> int:
    """A seed of `jax.random.key`."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to 2^32 - 1")
    return value


def rate(text: str) -> tuple[str, float]:
    """`NAME=P` of `--rate`."""
    name, _, value = text.partition("=")
    try:
        rate = float(value)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=P with a number from 0")
    return name, rate


def weights(text: str) -> tuple[float, ...]:
    """`W,W,W` of `--weights`: an exponent for each objective."""
    try:
        values = [float(w) for w in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (2, 3) or not all(0 <= w < 1e3 for w in values) or not any(values):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 for each objective, such as 1,1,0")
    return tuple(values)


def names(text: str) -> tuple[str, ...]:
    """`NAME,NAME,...`."""
    return tuple(name.strip() for name in text.split(","))


def add_workload(parser: Arguments) -> None:
    """Adds how networks are read."""
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
    "what a system must do, in quotes: demands with commas between them, such as 'latency<=33ms,area<=20mm2' or "
    "'fps:NETWORK>=30', of latency, latency:NETWORK, energy, area, power, fps, fps:NETWORK and a searched period"
)


def add_common(parser: Arguments, out: str, *, random: bool = False, inner: bool = False) -> None:
    """Options of every verb; those of an `inner` verb leave alone what the outer one was given."""

    def default(value: object) -> object:
        return argparse.SUPPRESS if inner else value

    told = "seed of all randomness (default 0)" if random else "taken by every verb; nothing is random here"
    parser.add_argument("--seed", type=seed, default=default(0), help=told)
    parser.add_argument("--out", metavar="PATH", default=default(None), help=out)
    parser.add_argument(
        "--no-compile-cache",
        action="store_true",
        default=default(False),
        help="do not keep compiled programs in the user's cache folder",
    )


def add_hardware(parser: Arguments, *names: str) -> None:
    """Adds templates (also under other names) and technology."""
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
    """Adds whether leakage counts."""
    parser.add_argument(
        "--static-energy",
        action="store_true",
        help="count leakage over the makespan to the energy of designs (default: not, as in Timeloop's totals)",
    )


def refuse(reason: str, remedy: str = "leave it out", **given: object) -> None:
    """Complains about the first of several options that was given.

    Args:
        reason: why it has nothing to say here, such as "is for an enumeration".
        remedy: what to do about it.
        given: names of options with `_` for `-`, and their values; None, False and empty ones were not given.

    Raises:
        InputError: one was given.
    """
    for name, value in given.items():
        if value:
            raise InputError(reason, item="--" + name.replace("_", "-"), remedy=remedy)
