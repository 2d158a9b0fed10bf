"""Grids of hardware variants: every design on every combination of values (docs/concepts/what-if.md)."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import abc
from collections.abc import Iterable, Sequence

import numpy as np

from mohamjax.errors import Argument, InputError, wrong_type
from mohamjax.reader import real
from mohamjax.runtime.struct import shown_briefly
from mohamjax.schedule.design import OBJECTIVES
from mohamjax.whatif.parameters import Parameter, checked_factor, checked_value, known_parameters, parameter
from mohamjax.whatif.variant import (
    Candidates,
    Hardware,
    Told,
    Variant,
    check_count,
    evaluate_variants,
    nominal_variant,
    stack_variants,
)

Values = str | float | Iterable[str | float]


@dataclasses.dataclass(frozen=True)
class Axis:
    """The values of one parameter of a grid.

    Attributes:
        parameter: the parameter.
        values: its values, or factors.
        factor: whether they are factors on its present value.
    """

    parameter: Parameter
    values: tuple[float, ...]
    factor: bool

    @property
    def column(self) -> str:
        """Name of its column in tables."""
        return self.parameter.column(self.factor)

    def on(self, variant: Variant, value: float) -> Variant:
        """The variant with this value."""
        change = self.parameter.scale if self.factor else self.parameter.assign
        assert change is not None
        return change(variant, value)


@shown_briefly
@dataclasses.dataclass(frozen=True)
class WhatIf:
    """Designs on a grid of variants.

    Attributes:
        axes: A parameters with their values.
        settings: `[K, A]` float, the values of each variant; the last axis runs fastest.
        names: identifier of each design.
        objectives: `[K, N, 3]` float, latency [s], energy [J], area [mm^2]; infinite where a design does not run.
        nominal: `[N, 3]` float, objectives on the hardware as it is.
    """

    axes: tuple[Axis, ...]
    settings: np.ndarray
    names: tuple[object, ...]
    objectives: np.ndarray
    nominal: np.ndarray

    @property
    def grid(self) -> np.ndarray:
        """The objectives with an axis for every parameter, `[V1, ..., VA, N, 3]`."""
        return self.objectives.reshape(*(len(axis.values) for axis in self.axes), len(self.names), 3)

    def table(self) -> dict[str, np.ndarray]:
        """The result as tidy columns: one row per variant and design, with designs varying fastest.

        Returns:
            `design_id`, a column for each parameter (its name and unit, or its name and `_factor`), `latency_s`,
            `energy_J`, `area_mm2` (NaN where not valid) and `valid`, each `[K * N]`.
        """
        kinds, number = self.objectives.shape[:2]
        names = np.empty(number, object)
        names[:] = self.names
        columns: dict[str, np.ndarray] = {"design_id": np.tile(names, kinds)}
        for i, axis in enumerate(self.axes):
            columns[axis.column] = np.repeat(self.settings[:, i], number)
        flat = self.objectives.reshape(-1, 3)
        valid = np.asarray(np.isfinite(flat).all(axis=1))
        columns |= {name: np.where(valid, flat[:, i], np.nan) for i, name in enumerate(OBJECTIVES)}
        return columns | {"valid": valid}


_VALUES = "write values such as 2,4,8 or factors such as x0.5,x1,x2"


def _number(text: str, argument: Argument) -> float:
    if text == "unlimited":
        return math.inf
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{text!r} is no number", argument=argument, remedy=_VALUES) from None


def _is_single(values: object) -> bool:
    """Whether this is an array without axes, which cannot be iterated over."""
    return getattr(values, "ndim", 1) == 0


def _written(values: object, argument: Argument) -> list[str]:
    """Values as users write them, one text each: a text of several, a number, or several of both."""
    if isinstance(values, str):
        values = values.split(",")
    elif real(values) is not None:
        values = [values]
    if not isinstance(values, abc.Iterable) or isinstance(values, abc.Mapping | bytes) or _is_single(values):
        raise InputError(f"is of the type {type(values).__name__}", argument=argument, remedy=_VALUES)
    texts: list[str] = []
    for value in values:
        number = real(value)
        if number is None and not isinstance(value, str):
            raise InputError(f"{value!r:.40} is no number", argument=argument, remedy=_VALUES)
        texts.append(value.strip() if isinstance(value, str) else repr(number))
    return texts


def _axis(known: abc.Mapping[str, Parameter], name: str, values: Values) -> Axis:
    """Reads one axis as users write it."""
    argument = Argument("vary", key=name)
    one = parameter(known, name, argument)
    texts = _written(values, argument)
    factors = [text.startswith("x") for text in texts]
    if not texts:
        raise InputError("has no values", argument=argument, remedy="write for example 2,4,8")
    if len(set(factors)) > 1:
        raise InputError(
            "mixes values and factors", argument=argument, remedy="write either, such as 2,4,8 or x0.5,x1,x2"
        )
    numbers = [_number(text.removeprefix("x"), argument) for text in texts]
    check = checked_factor if factors[0] else functools.partial(checked_value, one)
    numbers = tuple(check(number, argument) for number in numbers)
    if len(set(numbers)) < len(numbers):
        raise InputError("has a value twice", argument=argument, remedy="write every value once")
    return Axis(one, numbers, factors[0])


def read_axes(hardware: Hardware, vary: abc.Mapping[str, Values]) -> tuple[Axis, ...]:
    """The axes of a grid as users write them.

    Args:
        hardware: the designs, or what they run on; it decides which parameters there are.
        vary: by parameter, a text such as `2,4,8` or `x0.5,x1,x2`, a number, or a list of numbers and such texts.

    Raises:
        InputError: `vary` is no mapping, an unknown parameter, a value that it cannot have, values mixed with factors,
            or two parameters that change the same number.
    """
    if not isinstance(vary, abc.Mapping):
        raise wrong_type(vary, "vary", 'give a dictionary such as {"clock": [1, 2]}')
    if not vary:
        raise InputError("names no parameter", argument="vary", remedy="give at least one")
    known = known_parameters(hardware)
    axes = tuple(_axis(known, name, values) for name, values in vary.items())
    for a, b in itertools.combinations(axes, 2):
        if a.parameter.touches & b.parameter.touches:
            raise InputError(
                f"{a.parameter.name} and {b.parameter.name} change the same numbers",
                argument=Argument("vary", key=b.parameter.name),
                remedy="leave one out",
            )
    return axes


def variants_of(candidates: Candidates, axes: Sequence[Axis], settings: np.ndarray) -> Variant:
    """The hardware as it is and the variants of a table of settings, leading axis `[1 + K]`.

    Args:
        candidates: the designs.
        axes: A parameters.
        settings: `[K, A]` float.
    """
    now = nominal_variant(candidates.evaluation)
    rows = [functools.reduce(lambda v, a: a[0].on(v, a[1]), zip(axes, row, strict=True), now) for row in settings]
    return stack_variants([now, *rows])


def what_if(candidates: Candidates, vary: abc.Mapping[str, Values], progress: Told | None = None) -> WhatIf:
    """Evaluates designs on every combination of values.

    Args:
        candidates: N designs.
        vary: see `read_axes`.
        progress: callback for the progress of the evaluations.

    Returns:
        The objectives of all designs on all variants, and on the hardware as it is.

    Raises:
        InputError: an argument that `read_axes` refuses.
    """
    axes = read_axes(candidates, vary)
    check_count(math.prod(len(axis.values) for axis in axes), "vary")
    settings = np.asarray(list(itertools.product(*(axis.values for axis in axes))), float)
    resized = any(axis.parameter.kind == "size" for axis in axes)
    variants = variants_of(candidates, axes, settings)
    found = evaluate_variants(candidates, variants, resized=resized, progress=progress)
    return WhatIf(
        axes=axes,
        settings=settings,
        names=candidates.names,
        objectives=found[1:],
        nominal=found[0],
    )
