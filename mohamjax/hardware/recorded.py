"""The technology that a file of designs was made with: a hash if it is packaged, otherwise all its figures."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from mohamjax.errors import InputError
from mohamjax.forms import Form, Index
from mohamjax.hardware.technology import (
    Technology,
    counting_leakage,
    load_technology,
    packaged_technologies,
    technology_hash,
)


class FiguresForm(Form):
    """An array of a technology."""

    shape: list[Index]
    values: list[float | Literal["inf"] | None]


class RecordForm(Form):
    """Which technology tables the designs were made with, and the tables themselves where they are not packaged."""

    hash: str | None = None
    static_energy: bool = False
    tables: dict[str, FiguresForm] | None = None


_EARLIER = {"8b9b82d0dcb655cc448f9dd06bf165045c2f8d7148774bac9408bf90ae1902ce": "45nm-coarse"}
"""Hashes of former versions of packaged figures, with their present name."""


def technology_record(technology: Technology) -> dict[str, object]:
    """What a file of designs states about its technology: the hash, and all figures unless it is a packaged one."""
    stated = technology_hash(technology)
    record: dict[str, object] = {"hash": stated, "static_energy": technology.static_share is not None}
    if technology_called(stated):
        return record

    def figures(value: ArrayLike) -> dict[str, object]:
        array = np.asarray(value, float)
        values = [None if x != x else "inf" if x == math.inf else x for x in array.ravel().tolist()]
        return {"shape": list(array.shape), "values": values}

    return record | {"tables": {name: figures(getattr(technology, name)) for name in _names()}}


def recorded_technology(
    record: RecordForm, given: Technology | None, static_energy: bool = False, file: object = None
) -> Technology | None:
    """The technology that a file of designs was made with.

    Args:
        record: what the file states about it.
        given: the user's technology; None for the packaged one with the stated hash (the default one if no hash is
            stated), or else for the one whose figures the file holds.
        static_energy: leakage counts even if neither `given` nor the file says so.
        file: for errors.

    Returns:
        The technology; None if the file was made with another one than `given`, or with one that is neither packaged
        nor in the file.

    Raises:
        InputError: the figures in the file do not have the stated hash, or lack leakage although it is to count.
    """
    static_energy, stated = static_energy or record.static_energy, record.hash
    earlier = _EARLIER.get(stated or "")
    if given is None:
        known = (name for name in packaged_technologies() if stated in (None, _hash_of(name)))
        name = earlier or next(known, None)
        if name:
            return load_technology(name, static_energy=static_energy)
        given = None if record.tables is None else _held(record, file)
        if given is None:
            return None
    if (_hash_of(earlier) if earlier else stated) not in (None, technology_hash(given)):
        return None
    return counting_leakage(given) if static_energy else given


def technology_called(stated: str) -> str | None:
    """The name of the packaged technology with this hash; None if there is none."""
    known = (name for name in packaged_technologies() if _hash_of(name) == stated)
    return _EARLIER.get(stated) or next(known, None)


@functools.cache
def _hash_of(name: str) -> str:
    return technology_hash(load_technology(name))


def _names() -> list[str]:
    """Names of the arrays of a technology that its hash covers."""
    return [field.name for field in dataclasses.fields(Technology) if field.name != "static_share"]


def _held(record: RecordForm, file: object) -> Technology:
    """The technology whose figures a file holds.

    Raises:
        InputError: they are incomplete, or do not have the stated hash.
    """
    arrays: dict[str, np.ndarray] = {}
    usual = load_technology()
    for name, form in (record.tables or {}).items():
        values = [math.nan if value is None else float(value) for value in form.values]
        if name in _names() and math.prod(form.shape) == len(values):
            arrays[name] = np.asarray(values, float).reshape(form.shape)
    whole = [name for name in _names() if name in arrays and arrays[name].ndim == np.ndim(getattr(usual, name))]
    if len(whole) == len(_names()):
        found = Technology(**arrays)
        counts = np.shape(found.sram)[:3], np.shape(found.sram_standby)[:3], np.shape(found.sram_rows)
        apart = [name for name in _names() if not name.startswith("sram")]
        fits = len(set(counts)) == 1 and counts[0][1:2] == np.shape(found.sram_widths)
        fits &= all(np.shape(getattr(found, name)) == np.shape(getattr(usual, name)) for name in apart)
        if fits and technology_hash(found) == record.hash:
            return found
    raise InputError(
        "the figures do not match the hash beside them",
        file=file,
        item="technology.tables",
        remedy="take the file as it was written, or give the technology with the argument `technology`",
    )
