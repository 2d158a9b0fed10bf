"""The road over a hardware search: `mohamjax.codesign`."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, Technology, Template, load_template
from mohamjax.unico.config import BUDGETS, CodesignConfig, unico_cap
from mohamjax.unico.search import CodesignProgress, CodesignResult, HardwareSearch, search_hardware
from mohamjax.unico.space import HardwareSpace, named_space, template_space
from mohamjax.workload import ApplicationModel

__all__ = ["chosen_space", "codesign", "settings"]

DEFAULT_SPACE = "unico-edge"


def chosen_space(
    space: str | HardwareSpace | None, template: str | os.PathLike[str] | Template | None
) -> HardwareSpace:
    """The hardware space by name, or over the sizes of a template.

    Raises:
        InputError: both are given, or there is none of this name.
    """
    if template is not None:
        if space is not None:
            raise InputError("has a space of its own", item="--template", remedy="leave out --space")
        return template_space(template if isinstance(template, Template) else load_template(os.fspath(template)))
    if isinstance(space, HardwareSpace):
        return space
    return named_space(DEFAULT_SPACE if space is None else space)


def settings(space: HardwareSpace, method: str, budget: str, **changes: Any) -> CodesignConfig:
    """Settings of a named budget; the limit on power is that of the space unless it is among the changes.

    Raises:
        InputError: unknown budget, or a setting that is none.
    """
    if budget not in BUDGETS:
        raise InputError(f"unknown budget {budget!r}", item="--budget", remedy=f"use one of {', '.join(BUDGETS)}")
    known = CodesignConfig.__dataclass_fields__
    for name in changes:
        if name not in known:
            raise InputError("is not known", item=f"setting {name!r}", remedy=f"known are {', '.join(sorted(known))}")
    changes = {"power_cap_W": unico_cap(space.name), **BUDGETS[budget], **changes}
    return CodesignConfig(method=method, budget=budget, **changes)


def codesign(
    application: ApplicationModel,
    space: str | HardwareSpace | None = None,
    *,
    template: str | os.PathLike[str] | Template | None = None,
    method: str = "unico",
    budget: str = "small",
    seed: int = 0,
    technology: Technology | None = None,
    package: PackageParameters | None = None,
    checkpoint: str | pathlib.Path | None = None,
    resume: bool = False,
    listener: Callable[[CodesignProgress], None] | None = None,
    **changes: Any,
) -> CodesignResult:
    """Searches one accelerator for a set of networks: the front of latency, power and area (UNICO).

    Args:
        application: networks from `load_scenario` or `load_onnx`; latency and energy are summed over them.
        space: `unico-edge` (default), `unico-cloud`, `unico-ci`, or a `HardwareSpace`.
        template: search the sizes of this template instead: a packaged name, a file or a `Template`.
        method: `unico`, or a baseline on the same measurements: `hasco`, `hasco-r`, `nsga2`, `mobohb`, `random`.
        budget: `ci`, `small` or `full`; every method has as many mapping evaluations.
        seed: of all randomness.
        technology: energy and area tables; default the packaged ones.
        package: the package in which the accelerator stands alone; default `Package()`.
        checkpoint: npz file that is written after every batch.
        resume: go on from it.
        listener: told after every batch.
        changes: further fields of `CodesignConfig`, such as `power_cap_W`.

    Returns:
        The result: `.history` of all points, `.front` its rows, `.mappings` their loop nests.

    Raises:
        InputError: unknown names, a template that does not run some layer, a limit that nothing meets.

    Example:
        >>> app = mj.load_onnx("one.onnx")
        >>> found = mj.codesign(app, "unico-ci", budget="ci", method="random")  # a baseline; "unico" is the default
        >>> front = found.history.objectives[found.front]  # latency [s], power [W], area [mm^2]
        >>> front.shape[1], bool((front > 0).all())
        (3, True)
    """
    where = chosen_space(space, template)
    config = settings(where, method, budget, seed=seed, **changes)
    search = HardwareSearch(application, where, config, technology=technology, package=package)
    return search_hardware(search, checkpoint=checkpoint, resume=resume, listener=listener)
