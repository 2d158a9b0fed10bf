"""Options of the command line that would be ignored in a combination are refused instead."""

from __future__ import annotations

from typing import Any

from mohamjax.errors import InputError

__all__ = ["refuse"]


def refuse(reason: str, remedy: str = "leave it out", **given: Any) -> None:
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
