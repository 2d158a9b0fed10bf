"""Checks of settings that several rooms share."""

from __future__ import annotations

import numpy as np

from mohamjax.errors import InputError


def check_whole(config: object, item: str, least: dict[str, int]) -> None:
    """Refuses fields of settings that are not whole numbers, or less than the least that is allowed."""
    for name, low in least.items():
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
            raise InputError(f"{name} is {value!r}", item=item, remedy=f"use {low} or more, a whole number")
