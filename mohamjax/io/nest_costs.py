"""Evaluates the loop nests of `mappings/1` files, one row for each.

Costs in a file are ignored. Every set names its template and the shape of its layer, so that no networks are needed. A
nest that breaks a rule of its template or cannot be read becomes a row with the reason. So does a file that cannot be
read, if others can.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypedDict

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import (
    PackageParameters,
    Technology,
    Template,
    load_technology,
    load_template,
    named_templates,
    with_memory,
)
from mohamjax.io.design_rows import DesignRules
from mohamjax.io.entries import without_entries
from mohamjax.io.files import check_format, read_json, uncollected
from mohamjax.io.forms import MappingSetForm, MappingsForm
from mohamjax.io.mappings import MAPPINGS_FORMAT, worded
from mohamjax.mapping.space import stacked_layers
from mohamjax.mapping.tables import tabulate
from mohamjax.reader import suggestion
from mohamjax.runtime.struct import cast
from mohamjax.schedule.batch import in_precision
from mohamjax.schedule.bounds import isolated_cycles
from mohamjax.schedule.setup import Setup
from mohamjax.workload import ApplicationModel, Layer, Network, UniqueLayer, WorkloadShape


class NestRow(TypedDict):
    """A loop nest and its costs, which are None if it is not valid.

    Attributes:
        file: the file of the nest.
        id: its `id` or `name`, else its place in the file.
        layer: name of the layer in its set.
        template: template of its set.
        latency_cycles: cycles without an off-chip limit.
        latency_interface_cycles: cycles of the layer alone behind a memory interface of the package.
        energy_pJ: energy on the nest's own minimal hardware.
        area_um2: area of that hardware.
        offchip_bytes: bytes read from and written to the off-chip memory.
        macs_per_cycle: multiply-accumulates of the layer's own bounds per cycle of `latency_cycles`.
        utilisation: `macs_per_cycle` divided by the MACs of the template at its largest size.
        valid: 1 or 0.
        reason: why the nest is not valid.
    """

    file: str
    id: str
    layer: str
    template: str
    latency_cycles: float | None
    latency_interface_cycles: float | None
    energy_pJ: float | None
    area_um2: float | None
    offchip_bytes: float | None
    macs_per_cycle: float | None
    utilisation: float | None
    valid: int
    reason: str


NEST_COLUMNS = tuple(NestRow.__annotations__)


class _Written(NamedTuple):
    """A loop nest of a file, or a broken entry.

    Attributes:
        row: its row, filled in as far as known.
        item: its place, for error messages.
        nest: plain JSON data with its template's name in `_Kinds`; None if the entry, its set or its file is broken.
        unique: its layer.
    """

    row: NestRow
    item: str
    nest: dict[str, Any] | None = None
    unique: UniqueLayer | None = None


class _Kinds:
    """The templates that sets name, with operands of the width that the sets state.

    Args:
        templates: templates that may be named besides the packaged ones.

    Attributes:
        known: the templates that may be named; None for packaged ones that have not been loaded.
        used: the templates that sets use, by a name that differs for every width.
    """

    def __init__(self, templates: Sequence[Template]) -> None:
        self.known: dict[str, Template | None] = dict.fromkeys(named_templates())
        self.known |= {template.name: template for template in templates}
        self.used: dict[str, Template] = {}

    def name(self, form: MappingSetForm, file: object, item: str) -> str:
        """The name in `used` of the template of a set; raises InputError if there is no such template."""
        if form.template not in self.known:
            named = suggestion(form.template, list(self.known))
            other = " Or" if named.endswith("?") else "; or"
            remedy = f"{named}{other} give the file of yours as the argument `templates`"
            told = f"there is no template {form.template!r}"
            raise InputError(told, file=file, item=f"{item}.template", remedy=remedy)
        own = self.known[form.template] = self.known[form.template] or load_template(form.template)
        kind = worded(form, own, file, item)
        if kind is not own:
            kind = dataclasses.replace(kind, name=f"{own.name} of {form.word_bits} bits")
        return self.used.setdefault(kind.name, kind).name


def _row(file: object, name: str, layer: str = "", template: str = "", reason: str = "") -> NestRow:
    row: Any = dict.fromkeys(NEST_COLUMNS)
    row |= {"file": str(file), "id": name, "layer": layer, "template": template, "valid": 0, "reason": reason}
    return row


def evaluate_nests(
    paths: Sequence[str | pathlib.Path],
    *,
    templates: Sequence[Template] = (),
    technology: Technology | None = None,
    package: PackageParameters | None = None,
    float32: bool = False,
    complain: Callable[[str], None] | None = None,
) -> list[NestRow]:
    """Evaluates the loop nests of files of format `mappings/1`, each on its own minimal hardware.

    Args:
        paths: one file or several.
        templates: templates that the files may name besides the packaged ones; they replace packaged ones of the same
            name.
        technology: energy and area tables; default the packaged ones.
        package: off-chip memory, and the interface for `latency_interface_cycles`; default the memory that templates
            name, and an interface of 4 bytes per cycle.
        float32: compute in single precision instead of double.
        complain: called with one line for every file and nest that has no costs, files first.

    Returns:
        A row for each nest, in the order of the files; a broken file, or a broken set without nests, has a row of its
        own.

    Raises:
        InputError: none of the files can be read, or they hold no nests.
    """
    kinds = _Kinds(templates)
    written: list[_Written] = []
    broken: list[InputError] = []
    for path in paths:
        try:
            written += _of_file(pathlib.Path(path), kinds)
        except InputError as error:
            broken.append(error)
            written.append(_Written(_row(path, "", reason=error.reason), ""))
    if len(broken) == len(paths):
        raise broken[0]
    if not written:
        raise InputError("holds no loop nests", file=paths[0], remedy="list them under `sets`")
    used = list(dict.fromkeys(one.nest["template"] for one in written if one.nest is not None))
    if used:
        own = tuple(kinds.used[name] for name in used)
        own = own if package is None else with_memory(own, package.memory)
        _evaluate(
            [one for one in written if one.nest is not None],
            own,
            load_technology() if technology is None else technology,
            PackageParameters() if package is None else package,
            np.dtype(np.float32 if float32 else np.float64),
        )
    if complain is not None:
        for one in sorted(written, key=lambda one: bool(one.row["id"])):
            if one.row["reason"]:
                complain(f"{one.row['file']}: {one.row['reason']}")
    return [one.row for one in written]


def _of_file(path: pathlib.Path, kinds: _Kinds) -> list[_Written]:
    """The nests of a file; raises InputError if it cannot be read as a whole."""
    with uncollected():
        document = read_json(path)
    check_format(document, (MAPPINGS_FORMAT,), path)
    read_form(without_entries(document, "sets"), MappingsForm, file=path)
    return [one for n, entry in enumerate(document["sets"]) for one in _of_set(path, f"sets[{n}]", entry, kinds)]


def _of_set(path: pathlib.Path, item: str, entry: object, kinds: _Kinds) -> Iterator[_Written]:
    """The nests of a set; if the set is broken, each has the reason in its row."""
    own: dict[str, Any] = entry if isinstance(entry, dict) else {}
    layer, template = (str(own.get(key, "")) for key in ("layer", "template"))
    nests = own["mappings"] if isinstance(own.get("mappings"), list) else []
    unique, kind, fault = None, template, ""
    try:
        form = read_form(without_entries(own, "mappings") if own else entry, MappingSetForm, file=path, where=item)
        kind = kinds.name(form, path, item)
        bounds = {name: getattr(form.bounds, name) for name in form.bounds.__struct_fields__}
        unique = UniqueLayer(form.type, WorkloadShape(**bounds, stride=form.stride, dilation=form.dilation))
    except InputError as error:
        fault = error.reason
        if not nests:
            yield _Written(_row(path, item, layer, template, fault), item)
    for m, nest in enumerate(nests):
        place = f"{item}.mappings[{m}]"
        stated = [nest.get(key) for key in ("id", "name")] if isinstance(nest, dict) else []
        name = next((str(one) for one in stated if isinstance(one, str | int) and one is not True and one != ""), place)
        row = _row(path, name, layer, template, fault)
        if unique is not None and not isinstance(nest, dict):
            row["reason"] = f"{place}: is no loop nest; write `levels`, a list of its levels"
        sound = unique is not None and isinstance(nest, dict)
        yield _Written(row, place, {**nest, "template": kind} if sound else None, unique)


def _evaluate(
    written: Sequence[_Written],
    templates: tuple[Template, ...],
    technology: Technology,
    package: PackageParameters,
    dtype: np.dtype,
) -> None:
    """Evaluates nests and fills in their rows."""
    layers = list(dict.fromkeys(one.unique for one in written if one.unique is not None))
    number = {unique: u for u, unique in enumerate(layers)}
    listed = tuple(Layer(str(u), unique.type, unique.type, unique.shape) for u, unique in enumerate(layers))
    setup = Setup(ApplicationModel("mappings", (Network("mappings", listed),)), templates, technology, package)
    store = DesignRules(setup).store
    found = store.parse_all([one.nest for one in written])
    unique_of = [number[one.unique] for one in written if one.unique is not None]
    store.settle((nest, u) for nest, u in zip(found, unique_of, strict=True) if nest >= 0)
    places: dict[int, tuple[int, int, int]] = {}
    for i, (one, nest, u) in enumerate(zip(written, found, unique_of, strict=True)):
        try:
            nest = store.parse(one.nest, one.item) if nest < 0 else nest
            places[i] = u, store.owner[nest], store.place(nest, u, one.item)
        except InputError as error:
            one.row["reason"] = error.reason
    if not places:
        return
    mappings, count = store.arrays()
    with in_precision(dtype):
        machines = jax.device_get(setup.machines(store.levels, dtype))
        shapes = stacked_layers(unique.shape for unique in layers)
        tables = tabulate(shapes, machines, cast(technology, dtype), mappings, count, as_given=True)
    at = tuple(np.asarray(list(places.values())).T)
    costs = np.asarray(tables.objectives, float)[at]
    macs = np.asarray([layers[u].shape.macs for u in at[0]], float)
    rate = macs / costs[:, 0]
    columns = {
        "latency_cycles": costs[:, 0],
        "latency_interface_cycles": isolated_cycles(tables, package)[at],
        "energy_pJ": costs[:, 1],
        "area_um2": costs[:, 2],
        "offchip_bytes": np.asarray(tables.offchip_bytes, float)[at],
        "macs_per_cycle": rate,
        "utilisation": rate / machines.machine.mac_instances[at[1]],
    }
    rows = np.stack(list(columns.values()), axis=1)
    for i, values in zip(places, rows.tolist(), strict=True):
        sound = all(map(math.isfinite, values))
        own: Any = {**dict(zip(columns, values, strict=True)), "valid": 1} if sound else {"reason": _TOO_LARGE}
        written[i].row.update(own)


_TOO_LARGE = "its costs are no finite numbers; write smaller sizes"
