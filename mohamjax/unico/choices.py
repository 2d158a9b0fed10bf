"""Spaces and settings of a hardware search, chosen by name."""

from __future__ import annotations

import os
from typing import Any

from mohamjax.errors import InputError
from mohamjax.hardware import Template, as_template
from mohamjax.unico.config import BUDGETS, CodesignConfig, preset_changes, unico_cap
from mohamjax.unico.space import HardwareSpace, named_space, template_space

DEFAULT_SPACE = "unico-edge"


def chosen_space(
    space: str | HardwareSpace | None, template: str | os.PathLike[str] | Template | None
) -> HardwareSpace:
    """The hardware space given or named, or that of the sizes of a template.

    Raises:
        InputError: both are given, or there is no space of this name.
    """
    if template is not None:
        if space is not None:
            raise InputError("has a space of its own", argument="template", remedy="leave out the argument `space`")
        return template_space(as_template(template))
    if isinstance(space, HardwareSpace):
        return space
    return named_space(DEFAULT_SPACE if space is None else space)


def settings(space: HardwareSpace, method: str, budget: str, *, preset: str = "ours", **changes: Any) -> CodesignConfig:
    """Settings of a named budget and preset; the limit on power is that of the space unless `changes` sets it.

    Raises:
        InputError: unknown budget, preset or setting.
    """
    if budget not in BUDGETS:
        raise InputError(f"unknown budget {budget!r}", argument="budget", remedy=f"use one of {', '.join(BUDGETS)}")
    known = CodesignConfig.__dataclass_fields__
    for name in changes:
        if name not in known:
            raise InputError("is not known", item=f"setting {name!r}", remedy=f"known are {', '.join(sorted(known))}")
    changes = {
        "power_cap_W": unico_cap(space.name), **BUDGETS[budget], **preset_changes(preset, method), **changes
    }  # fmt: skip
    return CodesignConfig(method=method, budget=budget, **{"preset": preset, **changes})
