"""Places in Timeloop's files, with checks and error messages that several readers share."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from mohamjax.dims import DATA_SPACES
from mohamjax.errors import InputError

LARGEST_WHOLE = 2**53  # a float holds whole numbers exactly up to this


DIGITS = 9  # most digits of factors and indices, which become int32


class At:
    """A place in a file, for error messages."""

    def __init__(self, file: object, item: str) -> None:
        self.file, self.item = file, item

    def __truediv__(self, part: object) -> At:
        told = f"entry {part} from 0" if isinstance(part, int) else str(part)
        return At(self.file, f"{self.item}, {told}" if self.item else told)

    def entry(self, number: int, row: object) -> At:
        """The place of a directive in a list, also named by the directive's type and target."""
        at = self / number
        own = f"{row.get('type')} at {row.get('target')}" if isinstance(row, dict) and "target" in row else ""
        return At(at.file, f"{at.item} ({own})") if own else at

    def error(self, message: str, remedy: str) -> InputError:
        """An error at this place."""
        return InputError(message, file=self.file, item=self.item, remedy=remedy)

    def table(self, data: object) -> dict[str, object]:
        """The data, which must be a mapping."""
        if not isinstance(data, dict):
            raise self.error("is no mapping of keys to values", "see the Timeloop documentation")
        return data

    def only(self, data: dict[str, object], known: Collection[str]) -> None:
        """Raises an error for the first key that is not among the known ones."""
        for key in data:
            if key not in known:
                raise (self / key).error("is not read", f"known are {', '.join(sorted(known))}")

    def list(self, data: object) -> list[object]:
        """The data, which must be a list."""
        if not isinstance(data, list):
            raise self.error("is no list", "see the Timeloop documentation")
        return data

    def number(self, value: object, *, whole: bool = False) -> float:
        """The value, which must be a number of 0 or more."""
        if isinstance(value, str):
            raise self.error(f"{value!r} is an expression or text", "expressions are not read; write the number")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise self.error(f"{value!r} is no number of 0 or more", "give one")
        if whole and (value != int(value) or value > LARGEST_WHOLE):
            raise self.error(f"{value!r} is no whole number up to 2^53", "give one")
        return float(value)

    def truth(self, value: object) -> bool:
        """The value, which must be true or false."""
        if not isinstance(value, bool):
            raise self.error(f"{value!r} is no truth value", "write true or false")
        return value


def kept(at: At, row: dict[str, object], names: Sequence[str]) -> list[str]:
    """Data spaces, by our names, that a directive does not bypass."""
    lists = {}
    for key in ("keep", "bypass"):
        lists[key] = [str(name) for name in (at / key).list(row.get(key, []))]
        for name in lists[key]:
            if name not in names:
                raise (at / key).error(f"{name!r} is no data space", f"use {', '.join(names)}")
    both = set(lists["keep"]) & set(lists["bypass"])
    if both:
        raise at.error(f"{min(both)} is both kept and bypassed", "choose one")
    return [ours for ours, name in zip(DATA_SPACES, names, strict=True) if name not in lists["bypass"]]


def left_open(at: At, row: dict[str, object], names: Sequence[str]) -> list[str]:
    """Data spaces, by our names, that a directive neither keeps nor bypasses by name, so that the mapper decides."""
    named = {str(name) for key in ("keep", "bypass") for name in (at / key).list(row.get(key, []))}
    return [ours for ours, name in zip(DATA_SPACES, names, strict=True) if name not in named]
