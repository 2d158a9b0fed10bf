"""Writes a template as Timeloop's input: the machine at full size, and its dataflows as constraints for the mapper.

Timeloop unrolls a dimension along one axis of a level. If a dataflow allows both X and Y, Timeloop's mapper chooses the
axis; mappings that need both at once are outside its map space.

Which axis a dimension takes follows from a permutation of all dimensions and the place where it is split. No split fits
both choices for a dimension with two axes. It is then left to the mapper, which may split anywhere: dimensions that the
template allows along one axis may take the other one, too. Comments in the file say which (`wider_than`).
"""

from __future__ import annotations

import pathlib
from collections import abc

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.dims import DATA_SPACES, DIMS
from mohamjax.hardware import LevelRule, Technology, Template, template_arrays
from mohamjax.hardware.template import Limits
from mohamjax.io.files import remove_file
from mohamjax.io.timeloop_writer import template_architecture, write_documents, write_timeloop
from mohamjax.reader import read_text
from mohamjax.runtime.struct import cast


def write_timeloop_template(
    folder: str | pathlib.Path, template: Template, technology: Technology
) -> list[pathlib.Path]:
    """Writes a template at its largest sizes: `arch.yaml`, `ERT.yaml`, `ART.yaml` and its constraints.

    Constraints that an earlier export left in the folder are removed.

    Args:
        folder: The folder; created if absent.
        template: The template.
        technology: Where energies and areas come from.

    Returns:
        The files written; constraints are in `constraints.yaml` if all layer types share one dataflow, else in a file
        per dataflow, such as `constraints-conv-gconv.yaml`.

    Raises:
        InputError: a file cannot be written.
    """
    with jax.enable_x64(True):
        exact = cast(technology, jnp.float64)
        machine = jax.tree.map(lambda leaf: np.asarray(leaf)[0], template_arrays([template], exact, dtype=jnp.float64))
    architecture = template_architecture(template, machine.machine)
    written = write_timeloop(folder, architecture)
    rules: dict[str, str] = {}  # a layer type by the name of the file for its constraints
    for flow in template.dataflows:
        # Rules of recurrent layers differ where others may spread P over the children.
        apart = [t for t in flow.layer_types if template.rule(t) != flow.rules]
        alike = [t for t in flow.layer_types if t not in apart]
        name = "constraints" if len(template.dataflows) == 1 else f"constraints-{'-'.join(alike)}"
        rules |= {name: alike[0]} if alike else {}
        rules |= {f"constraints-{t}": t for t in apart}
    documents = {name: template_constraints(template, layer_type) for name, layer_type in rules.items()}
    remarks = {name: [_MARK, *wider_than(template, layer_type)] for name, layer_type in rules.items()}
    written += write_documents(pathlib.Path(folder), documents, remarks)
    for path in pathlib.Path(folder).glob("constraints*.yaml"):
        if path not in written and read_text(path, "YAML file").startswith(f"# {_MARK}"):
            remove_file(path, "an earlier export")  # `timeloop-mapper FOLDER/*.yaml` would obey it, too
    return written


_MARK = "Exported by mohamjax; another export into this folder replaces or removes this file."


def template_constraints(template: Template, layer_type: str) -> dict[str, object]:
    """The dataflow of a layer type as a document of Timeloop's constraints, over all eight dimensions.

    Args:
        template: The template.
        layer_type: A layer type that the template runs.
    """
    targets: list[abc.Mapping[str, object]] = []
    for level, rule in reversed([*zip(template.levels, template.rule(layer_type), strict=True)]):
        stored = [space for space, keep in zip(DATA_SPACES, level.keep, strict=True) if keep]
        bypassed = [space for space in DATA_SPACES if space not in stored]
        free = [space for space, may in zip(DATA_SPACES, level.may_bypass, strict=True) if may]
        kept = [space for space in stored if space not in free]  # the mapper decides on data spaces in neither list
        targets.append({"target": level.name, "type": "bypass", "keep": kept, "bypass": bypassed})
        temporal = {"target": level.name, "type": "temporal", "factors": _factors(rule.temporal)}
        if rule.order:
            temporal["permutation"] = "".join(rule.order)
        targets.append(temporal)
        if level.fanout != (1, 1):
            targets.append({"target": level.name, "type": "spatial", **_spatial(rule, level.fanout)})
    stated = [{key: value for key, value in row.items() if value or key != "factors"} for row in targets]
    # A row with nothing but its target and type says nothing.
    return {"mapspace_constraints": {"targets": [row for row in stated if len(row) > 2]}}


def _factors(limits: Limits) -> str:
    """Largest factors by dimension as text; unlimited dimensions are left out, forbidden ones are 1."""
    text = [f"{d}=1" if d not in limits else f"{d}<={limits[d]}" for d in DIMS if limits.get(d, 1) is not None]
    return " ".join(text)


def _spatial(rule: LevelRule, fanout: tuple[int, int]) -> dict[str, object]:
    """Limits of the loops over a level's children, and which dimensions run along X, as far as this can be said."""
    x, y = _axes(rule, fanout)
    limits: Limits = {}
    for d in DIMS:
        own = [axis[d] for axis in (x, y) if d in axis]
        if own:
            limits[d] = None if None in own else max(n for n in own if n is not None)
    result: dict[str, object] = {"factors": _factors(limits)}
    if x.keys() & y.keys():
        # These are along X wherever the split lies behind them; the rest, in any order, may lie on either side of it.
        first = "".join(d for d in DIMS if d in x and d not in y)
        return result | ({"permutation": first} if first else {})
    along_x = [d for d in DIMS if d not in y]
    return result | {"permutation": "".join([*along_x, *y]), "split": len(along_x)}


def _axes(rule: LevelRule, fanout: tuple[int, int]) -> tuple[Limits, Limits]:
    """The limits along X and Y; nothing runs along an axis with one child."""
    return rule.spatial_x if fanout[0] > 1 else {}, rule.spatial_y if fanout[1] > 1 else {}


def wider_than(template: Template, layer_type: str) -> list[str]:
    """What the constraints of a layer type leave open although the template does not, a sentence for each level."""
    told = []
    for level, rule in zip(template.levels, template.rule(layer_type), strict=True):
        x, y = _axes(rule, level.fanout)
        both = [d for d in DIMS if d in x and d in y]
        if not both:
            continue
        more = [
            f"{d} along {other}"
            for own, others, other in ((x, y, "Y"), (y, x, "X"))
            for d in DIMS
            if d in own and d not in others
        ]
        more += [f"{d} up to the larger of its limits along either axis" for d in both if x[d] != y[d]]
        if more:
            why = f"since {' and '.join(both)} may run along both axes"
            told.append(f"{level.name}: wider than the template, {why}: Timeloop may also run {', '.join(more)}.")
    return told
