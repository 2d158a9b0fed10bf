"""Designs in bulk: `design-arrays/1`, an npz file with one problem and the genes of up to millions of designs.

The file is uncompressed, as `numpy.savez` writes it, so that its arrays can be mapped into memory. Axes: N designs, L
layers, S tiles, U unique layers (in the order of their first layer), T templates, M (at most) mappings of a set, V
levels (innermost first, padded), D loop dimensions `G N K C P Q R S`. Arrays:

- `format`: the text `design-arrays/1`;
- `problem`: `[bytes]` uint8, a `designs/1` document in UTF-8 without `designs` and with empty `mappings`: networks,
  layers, templates, package, technology hash;
- `order`, `assignment`, `mapping`: `[N, L]` integers, `template`: `[N, S]` integers: layers by priority, the tile of
  each layer, the index of its loop nest in the set of (unique layer, template of the tile), and the template on each
  tile, -1 for an empty tile;
- `count`: `[U, T]` integers, number of loop nests of each set; `nest_temporal` and `nest_order` `[U, T, M, V, D]`,
  `nest_spatial` and `nest_spatial_order` `[U, T, M, 2, V, D]`, `nest_keep` `[U, T, M, V, 3]`: the loop nests, as in
  `mapping.Mapping`;
- optional: `nest_padded` `[U, T, M, D]`, bounds that a loop nest covers if they are larger than the layer's, else 1;
  without it no loop nest is padded;
- optional: `capacity` `[N, S, V]` and `fanout` `[N, S, V, 2]`, sizes that chiplets state, -1 for just large enough;
  `names` `[N]`, identifiers, by default numbers from 0.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Iterable, Sequence

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import Technology, Template, package_to_dict, technology_record, template_to_dict
from mohamjax.io.design_rows import DesignRules
from mohamjax.io.designs_reader import layer_row, read_header
from mohamjax.io.files import open_arrays, parse_json
from mohamjax.io.formats import DESIGN_ARRAYS_FORMAT, DESIGNS_FORMAT
from mohamjax.io.mapped_arrays import MAX_MAPPED, mapped_arrays, write_arrays
from mohamjax.mapping import Mapping, MappingTables, mappings_to_dicts
from mohamjax.mapping.nest import padded
from mohamjax.runtime.struct import take
from mohamjax.schedule import Design, DesignFile, Evaluated, SizedDesign
from mohamjax.schedule.design import sized
from mohamjax.schedule.setup import Setup
from mohamjax.schedule.validity import gene_faults
from mohamjax.version import __version__
from mohamjax.workload import DIMS, ApplicationModel

_GENES = ("order", "assignment", "mapping", "template")
_LEAVES = ("temporal", "order", "spatial", "spatial_order", "keep")


def problem_document(setup: Setup, scenario: str = "") -> dict[str, object]:
    """The part of a `designs/1` document that all designs share, without loop nests; also the head of JSON lines."""
    application, technology = setup.application, setup.technology
    return {
        "format": DESIGNS_FORMAT,
        "mohamjax": __version__,
        "scenario": scenario or application.name,
        "clock_GHz": 1.0,
        "technology": technology_record(technology),
        "templates": [template_to_dict(t) for t in setup.templates],
        "package": package_to_dict(setup.package),
        "networks": [{"name": n.name, "source": n.source, **n.asked} for n in application.networks],
        "layers": [
            layer_row(layer, n) for layer, n in zip(application.layers, application.network_of_layer, strict=True)
        ],
        "mappings": [],
    }


def nest_rows(
    application: ApplicationModel,
    mappings: Mapping,
    templates: Sequence[Template],
    places: Iterable[tuple[int, int, int]],
) -> list[dict[str, object]]:
    """Rows of `mappings` of a `designs/1` document.

    Args:
        application: the networks of the unique layers.
        mappings: loop nests of sets, `[U, T, M]`.
        templates: T templates.
        places: indices of the loop nests to write: unique layer, template, place in the set.
    """
    at = np.asarray(list(places), int).reshape(-1, 3)
    nests = jax.tree.map(lambda leaf: np.asarray(leaf)[tuple(at.T)], mappings)
    own = [templates[t] for t in at[:, 1]]
    bounds = _bounds(application)[at[:, 0]]
    rows = mappings_to_dicts(nests, [template.level_names for template in own], bounds)
    return [{"template": template.name, **row} for template, row in zip(own, rows, strict=True)]


def _bounds(application: ApplicationModel) -> np.ndarray:
    """`[U, D]` int, loop bounds of the unique layers."""
    return np.array([unique.shape.bounds for unique in application.unique_layers], int)


def _small(values: object) -> np.ndarray:
    """Integers in the narrowest type that holds them."""
    values = np.asarray(values)
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kind = next(
        k for k in (np.int8, np.int16, np.int32, np.int64) if np.iinfo(k).min <= low and high <= np.iinfo(k).max
    )
    return values.astype(kind)


def write_design_arrays(
    path: str | pathlib.Path,
    setup: Setup,
    tables: MappingTables,
    designs: Design | SizedDesign,
    *,
    names: Sequence[str] | None = None,
    scenario: str = "",
) -> None:
    """Writes designs in the format `design-arrays/1`, whole or not at all.

    Args:
        path: the npz file.
        setup: networks and hardware; the file records the hash of the technology, and all its figures unless it is a
            packaged one.
        tables: the loop nests, `[U, T, M]`; their costs are not written.
        designs: leading axis `[N]`; padded layers are left out. A `SizedDesign` also writes the sizes of its chiplets.
        names: N distinct identifiers; default numbers.
        scenario: informational name of the scenario.

    Raises:
        InputError: the file cannot be written, or a name is no short line of text or occurs twice.
    """
    layers = len(setup.application.layers)
    problem = json.dumps(problem_document(setup, scenario), ensure_ascii=False)
    genes = designs.design if isinstance(designs, SizedDesign) else designs
    order = np.asarray(genes.order)
    most = max(1, int(np.max(tables.count)))
    arrays: dict[str, np.ndarray] = {
        "format": np.asarray(DESIGN_ARRAYS_FORMAT),
        "problem": np.frombuffer(problem.encode(), np.uint8),
        "order": _small(order[:, :layers]),  # padded layers come last
        "assignment": _small(np.asarray(genes.assignment)[:, :layers]),
        "mapping": _small(np.asarray(genes.mapping)[:, :layers]),
        "template": _small(genes.template),
        "count": np.asarray(tables.count, np.int32),
    }
    exists = np.arange(most) < np.asarray(tables.count)[..., None]
    nests = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :, :most], tables.mapping)
    larger = padded(nests, _bounds(setup.application)[:, None, None])
    for name in _LEAVES:
        arrays[f"nest_{name}"] = getattr(nests, name)
    arrays["nest_padded"] = np.where(exists[..., None], larger, 1).astype(np.int32)
    if isinstance(designs, SizedDesign):
        arrays |= {"capacity": np.asarray(designs.capacity), "fanout": np.asarray(designs.fanout)}
    if names is not None:
        arrays["names"] = np.asarray(names, str)
        _check_names(arrays["names"], lambda told, item: InputError(told, file=path, item=item))
    write_arrays(path, arrays)


def write_front_arrays(path: str | pathlib.Path, evaluated: Evaluated, scenario: str = "") -> None:
    """Writes evaluated designs, whose chiplets are just large enough, as `write_design_arrays` does."""
    write_design_arrays(path, evaluated, evaluated.tables, evaluated.designs, scenario=scenario)


@dataclasses.dataclass(frozen=True)
class DesignArrays:
    """A `design-arrays/1` file whose designs are still on the disk.

    Attributes:
        setup: the networks and hardware of the problem.
        mappings: loop nests `[U, T, M]`, NumPy leaves, padded to the levels of the deepest template.
        count: `[U, T]` int32, loop nests of each set.
        refused: `[U, T, M]` bool, loop nests that break a constraint of their template.
        arrays: the memory-mapped arrays of the designs.
    """

    setup: Setup
    mappings: Mapping
    count: np.ndarray
    refused: np.ndarray
    arrays: dict[str, np.ndarray]

    def __len__(self) -> int:
        """Number of designs."""
        return len(self.arrays["order"])

    def block(self, rows: slice) -> SizedDesign:
        """Some of the designs, copied from the file, NumPy leaves."""
        genes = {name: _int32(self.arrays[name][rows]) for name in _GENES}
        design = Design(**genes)  # pyright: ignore[reportArgumentType]
        if "capacity" not in self.arrays:
            return sized(design, self.levels)
        capacity, fanout = (np.asarray(self.arrays[name][rows], float) for name in ("capacity", "fanout"))
        return SizedDesign(design=design, capacity=capacity, fanout=fanout)  # pyright: ignore[reportArgumentType]

    def names(self, rows: slice) -> list[int | str]:
        """Identifiers of some of the designs."""
        start, stop, _ = rows.indices(len(self))
        return self.arrays["names"][rows].tolist() if "names" in self.arrays else list(range(start, stop))

    @functools.cached_property
    def levels(self) -> int:
        """V, the number of levels of the loop nests."""
        return self.mappings.temporal.shape[-2]

    def faults(self, designs: SizedDesign) -> list[str]:
        """Per design why its genes, loop nests or sizes are invalid, before evaluation; empty if they are valid."""
        application, genes = self.setup.application, designs.design
        told = gene_faults(genes, application, self.count)
        strange = np.zeros(len(told), bool)
        if "capacity" in self.arrays:
            strange |= self._strange_sizes(designs).any(axis=(1, 2))
        unique = np.asarray(application.unique_of_layer)
        suspect = np.flatnonzero(strange | self.refused.any()).tolist()
        for k in (k for k in suspect if not told[k]):
            kind = genes.template[k][genes.assignment[k]]
            bad = np.flatnonzero(self.refused[unique, kind, genes.mapping[k]])
            if bad.size:
                layer = application.layers[bad[0]]
                kept = self.setup.templates[kind[bad[0]]].name
                told[k] = f"layer {bad[0]} ({layer.name}): its mapping breaks what template {kept} prescribes"
            elif strange[k]:
                told[k] = self._size_fault(designs, k)
        return told

    @functools.cached_property
    def _allowed(self) -> tuple[np.ndarray, np.ndarray]:
        """Fewest and most words `[2, T, V]` and children `[2, T, V, 2]` that templates allow; inf for any."""
        templates = self.setup.templates
        shape = 2, len(templates), self.levels
        words, children = np.zeros(shape), np.ones((*shape, 2))
        words[1], children[1] = np.inf, np.inf
        for t, template in enumerate(templates):
            for v, level in enumerate(template.levels):
                children[1, t, v] = level.fanout
                if level.capacity_words is not None:
                    # A size in single precision may be rounded up.
                    words[1, t, v] = max(level.capacity_words, np.float32(level.capacity_words))
                if template.sizes == "fixed":
                    children[0, t, v] = level.fanout
                    words[0, t, v] = (level.capacity_words or 0) * (1 - 1e-6)
        return words, children

    def _strange_sizes(self, designs: SizedDesign) -> np.ndarray:
        """`[N, S, V]` bool, levels whose stated size is none, or one that the template does not allow."""
        template = np.clip(np.asarray(designs.design.template), 0, len(self.setup.templates) - 1)
        depth = np.asarray([len(one.levels) for one in self.setup.templates])
        there = (np.asarray(designs.design.template) >= 0)[..., None] & (np.arange(self.levels) < depth[template, None])
        words, children = (bounds[:, template] for bounds in self._allowed)
        capacity, fanout = np.asarray(designs.capacity), np.asarray(designs.fanout)
        fine = (capacity == -1) | ((capacity >= words[0]) & (capacity <= words[1]))
        whole = (fanout >= children[0]) & (fanout <= children[1]) & (fanout == np.floor(fanout))
        fine &= ((fanout == -1) | whole).all(axis=-1)
        return there & ~fine

    def _size_fault(self, designs: SizedDesign, k: int) -> str:
        """The first size of design k that its template does not allow."""
        one = take(designs, slice(k, k + 1))
        _, tile, v = np.argwhere(self._strange_sizes(one))[0].tolist()
        t = one.design.template[0, tile]
        template, (least, most) = self.setup.templates[t], self._allowed[0][:, t, v]
        level, allows = template.levels[v], "always has" if template.sizes == "fixed" else "allows"
        words, spread = float(np.asarray(one.capacity)[0, tile, v]), np.asarray(one.fanout)[0, tile, v].tolist()
        name = f"tile {tile}: level {level.name}"
        if words != -1 and not least <= words <= most:
            return f"{name} has {words:g} words, the template {allows} {level.capacity_words or 'any number'}"
        return f"{name} has fanout {spread}, the template {allows} {list(level.fanout)}"

    def design_file(self, path: str | pathlib.Path) -> DesignFile:
        """The whole file in memory, in the same form as a `designs/1` file; `path` is recorded as its source."""
        designs = self.block(slice(None))
        tiles = self.setup.package.max_tiles
        reasons = self.faults(designs)
        good = np.asarray([not reason for reason in reasons], bool)
        number = int(good.sum())
        return DesignFile(
            **self.setup.parts,
            mappings=self.mappings,
            count=self.count,
            names=tuple(self.names(slice(None))),
            reasons=tuple(reasons),
            designs=take(designs, good),
            tile=np.broadcast_to(np.arange(tiles, dtype=np.int32), (number, tiles)),
            source=str(path),
        )


def _int32(values: np.ndarray) -> np.ndarray:
    """Whole numbers as int32. What is out of range becomes the least or largest number, which nothing accepts."""
    own, ours = np.iinfo(values.dtype), np.iinfo(np.int32)
    return np.clip(values, max(own.min, ours.min), min(own.max, ours.max)).astype(np.int32)


_MOST_LETTERS = 200  # characters of an identifier


def _check_names(names: np.ndarray, fail: Callable[..., InputError]) -> None:
    """Refuses identifiers that are no short line of text, as in JSON files, or that occur twice."""
    if not names.size:
        return
    width = names.dtype.itemsize // 4
    whole = np.ascontiguousarray(names.astype(names.dtype.newbyteorder("=")))
    letters = whole.view(np.uint32).reshape(len(names), width) if width else np.zeros((len(names), 1), np.uint32)
    control = ((letters > 0) & (letters < 32)) | ((letters >= 0x7F) & (letters < 0xA0)) | (letters >> 1 == 0x2028 >> 1)
    strange = (control | (letters >> 11 == 0xD800 >> 11) | (letters > 0x10FFFF)).any(axis=1)
    strange |= ((letters[:, :-1] == 0) & (letters[:, 1:] != 0)).any(axis=1)
    bad = np.flatnonzero(strange | (letters[:, 0] == 0) | letters[:, _MOST_LETTERS:].any(axis=1))
    if bad.size:
        raise fail("is no short line of text", item=f"names[{bad[0]}]")
    found, times = np.unique(whole, return_counts=True)
    if len(found) < len(names):
        raise fail(f"{found[times.argmax()]!s:.100} comes {times.max()} times", item="names")


def is_design_arrays(path: str | pathlib.Path) -> bool:
    """Whether an npz file has the arrays of this format; True if it cannot be read, so that its reader reports that."""
    try:
        with open_arrays(path, MAX_MAPPED, "") as (_, members):
            return {"problem", "assignment"} <= set(members)
    except InputError:
        return True


def read_design_arrays(
    path: str | pathlib.Path, *, technology: Technology | None = None, static_energy: bool = False
) -> DesignArrays:
    """Opens a `design-arrays/1` file: reads and checks the problem and the loop nests, not the designs.

    Raises:
        InputError: the file is damaged or breaks the format, or was made with another technology.
    """
    arrays = mapped_arrays(path)
    fail = functools.partial(InputError, file=path, remedy="compare with docs/formats.md")
    stated = str(arrays.get("format", ""))
    if stated != DESIGN_ARRAYS_FORMAT:
        remedy = f"give an npz file of format {DESIGN_ARRAYS_FORMAT}"
        raise InputError(f"unknown format {stated!r}" if stated else "says no format", file=path, remedy=remedy)
    leaves = [f"nest_{name}" for name in _LEAVES]
    missing = [name for name in ("problem", "count", *_GENES, *leaves) if name not in arrays]
    if missing:
        raise fail("the array is missing", item=missing[0])
    try:
        text = bytes(np.asarray(arrays["problem"], np.uint8)).decode("utf-8")
    except (UnicodeError, TypeError, ValueError):
        raise fail("is no text in UTF-8", item="problem") from None
    document = parse_json(text, path, "problem")
    if not isinstance(document, dict) or document.get("format") != DESIGNS_FORMAT:
        raise fail(f"is no document of format {DESIGNS_FORMAT}", item="problem")
    setup = read_header(document, pathlib.Path(path), technology=technology, static_energy=static_energy)
    application, templates, tiles = setup.application, setup.templates, setup.package.max_tiles
    number, layers = len(arrays["order"]) if arrays["order"].ndim else 0, len(application.layers)
    levels = max(len(t.levels) for t in templates)
    sets = len(application.unique_layers), len(templates)
    nests = (*sets, arrays["nest_temporal"].shape[2] if arrays["nest_temporal"].ndim == 5 else 0)
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(_GENES[:3], (number, layers)),
        "template": (number, tiles),
        "count": sets,
        "nest_temporal": (*nests, levels, len(DIMS)),
        "nest_order": (*nests, levels, len(DIMS)),
        "nest_spatial": (*nests, 2, levels, len(DIMS)),
        "nest_spatial_order": (*nests, 2, levels, len(DIMS)),
        "nest_keep": (*nests, levels, 3),
        "nest_padded": (*nests, len(DIMS)),
        "capacity": (number, tiles, levels),
        "fanout": (number, tiles, levels, 2),
        "names": (number,),
    }
    for name, shape in shapes.items():
        if name not in arrays:
            continue
        if arrays[name].shape != shape:
            raise fail(f"has shape {arrays[name].shape}, not {shape}", item=name)
        kinds = {"names": "U", "nest_keep": "b", "capacity": "iuf", "fanout": "iuf"}.get(name, "iu")
        if arrays[name].dtype.kind not in kinds:
            raise fail(f"holds {arrays[name].dtype}", item=name)
    if "names" in arrays:
        _check_names(arrays["names"], fail)
    if ("capacity" in arrays) != ("fanout" in arrays):
        raise fail("the one is there without the other", item="capacity, fanout")
    count = _int32(arrays["count"])
    if (count < 0).any() or (count > nests[2]).any():
        raise fail(f"names more loop nests than there are, {nests[2]}, or fewer than none", item="count")
    if not nests[2] or not count.any():
        raise fail("there are no loop nests", item="count")
    nest = {name: arrays[f"nest_{name}"] for name in _LEAVES}
    own: object = {name: np.array(leaf, bool) if name == "keep" else _int32(leaf) for name, leaf in nest.items()}
    mappings = Mapping(**own)
    rules = DesignRules(setup)
    refused = np.zeros(nests, bool)
    inside = np.nonzero(np.arange(nests[2]) < count[..., None])
    which = np.repeat(np.arange(np.count_nonzero(count)), count[count > 0])
    pairs = [(u, t) for u, t in np.argwhere(count).tolist()]
    larger = _int32(arrays["nest_padded"]) if "nest_padded" in arrays else np.ones((*nests, len(DIMS)), int)
    refused[inside] = ~rules.store.fitting(take(mappings, inside), pairs, which, larger[inside])
    return DesignArrays(setup, mappings, count, refused, {n: arrays[n] for n in shapes if n in arrays})
