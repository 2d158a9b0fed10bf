"""Registers, comparators, arithmetic and DRAM of any node, from the component library of hwcomponents.

It needs the extra `technology` and Python 3.12 or newer. hwcomponents-library (Andrulis, MIT) has Aladdin's tables at
40 nm (Shao et al., 2014) and scales them; hwcomponents-cacti has energies of DRAM interfaces per bit. This module only
chooses which of their components stands for which part of a technology, and asks for each of them once.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import types
from typing import Protocol, SupportsFloat

from mohamjax.errors import InputError
from mohamjax.folders import cache_folder
from mohamjax.hardware.cacti import LARGEST_NODE_NM, keep
from mohamjax.runtime.code_hash import code_hash

_PACKAGES = ("hwcomponents", "hwcomponents-cacti", "hwcomponents-library")


class _Cost(Protocol):
    """The cost of one action of a component, as hwcomponents gives it."""

    energy: SupportsFloat  # J


class _Component(Protocol):
    """A component of hwcomponents."""

    area: SupportsFloat  # m^2
    leak_power: SupportsFloat  # W


def _library() -> tuple[types.ModuleType, types.ModuleType, str]:
    """Aladdin's components, those of CACTI's package, and the versions of the packages."""
    try:
        import hwcomponents_cacti  # pyright: ignore[reportMissingImports]
        from hwcomponents_library.library import aladdin  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InputError(
            f"needs hwcomponents-library and hwcomponents-cacti ({error})",
            item="technology make",
            remedy="pip install 'mohamjax[technology]' with Python 3.12 or newer, or scale the packaged parts",
        ) from None
    return aladdin, hwcomponents_cacti, "-".join(importlib.metadata.version(name) for name in _PACKAGES)


def library_parts(node_nm: float) -> dict[str, dict[str, float]]:
    """Parts of a `technology/1` file at a node; kept in the user's cache folder.

    A register, an adder and a multiplier are asked for at 1 bit and a comparator at 32: their tables are linear in the
    width (the multiplier's in its square). The address generator is that of their smart buffer: two registers and an
    adder per address bit.

    Args:
        node_nm: technology node [nm], at most 90.

    Returns:
        Parts as `load_technology` reads them: `register`, `comparator`, `address_generator`, `multiplier`, `adder`.

    Raises:
        InputError: hwcomponents-library is not installed, or has nothing for this node.
    """
    aladdin, _, version = _library()
    if not 0 < node_nm <= LARGEST_NODE_NM:
        told = f"is no node up to {LARGEST_NODE_NM} nm"
        raise InputError(told, item=f"{node_nm:g} nm", remedy="ask for a smaller one")
    file = cache_folder("technology") / version / code_hash()[:16] / f"parts-{node_nm:g}nm.json"
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if _whole(kept):
            return kept
    except (OSError, ValueError):
        pass  # not there, or cut short: asked for again
    try:
        found = _asked(aladdin, node_nm / 1e9)
    except Exception as error:  # a model of the library may raise anything
        told = f"the library gives nothing for it ({' '.join(str(error).split())[:300] or type(error).__name__})"
        raise InputError(
            told, item=f"{node_nm:g} nm", remedy="scale the packaged parts: argument `logic=scaled`"
        ) from None
    keep(file, json.dumps(found))
    return found


def _whole(kept: object) -> bool:
    """Whether the content of a file has the parts that `_asked` gives, and nothing but valid costs."""
    names = {"register", "comparator", "address_generator", "multiplier", "adder"}
    if not isinstance(kept, dict) or set(kept) != names or not all(isinstance(part, dict) for part in kept.values()):
        return False
    costs = [cost for part in kept.values() for cost in part.values()]
    return all(isinstance(cost, int | float) and 0 <= cost < math.inf for cost in costs) and all(kept.values())


def _asked(aladdin: types.ModuleType, node_m: float) -> dict[str, dict[str, float]]:
    register, adder = aladdin.AladdinRegister(node_m, 1), aladdin.AladdinAdder(node_m, 1)
    comparator, multiplier = aladdin.AladdinComparator(node_m, 32), aladdin.AladdinMultiplier(node_m, 1)

    def pj(cost: _Cost) -> float:
        return float(cost.energy) * 1e12

    def rest(component: _Component) -> dict[str, float]:
        return {"area_um2": float(component.area) * 1e12, "leakage_mW": float(component.leak_power) * 1e3}

    access = {"read_energy_pJ": pj(register.read()), "write_energy_pJ": pj(register.write())}
    compare = dict.fromkeys(access, pj(comparator.compare()))
    add = pj(adder.add())
    address = {
        "read_energy_pJ": 2 * access["read_energy_pJ"] + add,
        "write_energy_pJ": access["read_energy_pJ"] + access["write_energy_pJ"] + add,
        "area_um2": 2 * rest(register)["area_um2"] + rest(adder)["area_um2"],
    }
    return {
        "register": access | rest(register),
        "comparator": compare | rest(comparator),
        "address_generator": address,
        "multiplier": {"energy_pJ": pj(multiplier.multiply()), **rest(multiplier)},
        "adder": {"energy_pJ": add, **rest(adder)},
    }


def library_dram(types: tuple[str, ...]) -> dict[str, float]:
    """Energies [pJ per bit] of the given DRAM types that hwcomponents-cacti knows; reads and writes cost the same.

    Raises:
        InputError: hwcomponents is not installed.
    """
    _, cacti, _ = _library()
    known = {name: getattr(cacti, name)() for name in types if hasattr(cacti, name)}
    return {name: float(model.read().energy) * 1e12 / model.width for name, model in known.items()}
