"""Hardware variants as data, and the evaluation of every design on every variant, in blocks of one program.

To evaluate a design on other hardware, no mapping has to be tabulated again: the tables hold cycles, bytes and counts
of accesses, and an evaluation computes energies and areas from them and the technology (docs/concepts/what-if.md).

Axes: N designs, K variants, S tiles, V levels, T templates, B rows of a block.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, Technology, Template
from mohamjax.runtime.programs import jit_o1
from mohamjax.runtime.struct import Rows, record, shown_briefly
from mohamjax.schedule.design import Chiplets, Design, EvaluationArrays, Package, chiplets, report
from mohamjax.schedule.evaluated import Evaluated
from mohamjax.schedule.evaluation_arrays import evaluation_arrays
from mohamjax.schedule.setup import Setup

Leaf = jax.Array | np.ndarray
"""Variants have NumPy leaves on the host, and JAX arrays inside programs."""


@record
class Components:
    """The parts of a `Technology` that a variant may change: only small ones, as each variant of a stack has a copy.

    Attributes:
        sram: `[3]` float, added to the base-2 logarithms of the SRAM table: read and write energy, area.
        register: `[3]` float, the field of `Technology` of this name.
        comparator: `[3]` float, the field of this name.
        address_generator: `[3]` float, the field of this name.
        multiplier: `[3]` float, the field of this name.
        adder: `[3]` float, the field of this name.
        wire: `[3]` float, the field of this name.
        dram: `[T]` float, the field of this name.
    """

    sram: Leaf
    register: Leaf
    comparator: Leaf
    address_generator: Leaf
    multiplier: Leaf
    adder: Leaf
    wire: Leaf
    dram: Leaf


@record
class Variant(Rows):
    """One hardware variant, or with a leading axis `[K]` many: what may differ from the arrays of the evaluation.

    Attributes:
        clock: `[]` float, GHz.
        package: as in `EvaluationArrays`, with bandwidths in GB/s (bytes per cycle at 1 GHz).
        technology: what the components cost.
        stated: `[2]` float, factors on the energies and on the areas that templates state themselves.
        memory: `[]` float, factor on the energy of an off-chip memory whose energy is stated, not given by a type.
        size_factor: `[T, V, 3]` float, factors on capacity, fanout along X and along Y of the chiplets.
        size: `[T, V, 3]` float, the sizes themselves [words, children, children]; -1 where the factor applies.
    """

    clock: Leaf
    package: Package
    technology: Components
    stated: Leaf
    memory: Leaf
    size_factor: Leaf
    size: Leaf

    _axes = 0

    def _first(self) -> Leaf:
        return self.clock


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Candidates:
    """Designs to evaluate on variants, and the arrays that they are evaluated with.

    Attributes:
        names: identifier of each design.
        designs: `Design`, leading axis `[N]`.
        capacity: `[N, S, V]` float, words per buffer of the chiplets, -1 where they are just large enough.
        fanout: `[N, S, V, 2]` float, children of their levels along X and Y, -1 where they are just large enough.
        evaluation: everything else; its float dtype is that of all results.
        package: the parameters that the evaluation's package was made from.
        templates: T templates, in the order of the evaluation.
    """

    names: tuple[object, ...]
    designs: Design
    capacity: np.ndarray
    fanout: np.ndarray
    evaluation: EvaluationArrays
    package: PackageParameters
    templates: tuple[Template, ...]

    def __len__(self) -> int:
        """Number of designs."""
        return len(self.names)

    @property
    def technology(self) -> Technology:
        """Energy and area tables of the evaluation."""
        return self.evaluation.technology

    @property
    def dtype(self) -> np.dtype:
        """Float dtype of the evaluation."""
        return np.dtype(self.evaluation.tables.cycles.dtype)


Hardware = Candidates | Setup
"""What decides which parameters there are: the package, templates and technology of evaluated designs, or of others."""


def in_precision(dtype: npt.DTypeLike) -> contextlib.AbstractContextManager[object]:
    """A context in which arrays of this float dtype can be computed with."""
    return jax.enable_x64(True) if np.dtype(dtype) == np.float64 else contextlib.nullcontext()


def candidates_of(evaluated: Evaluated, names: Sequence[object] | None = None) -> Candidates:
    """Candidates made from evaluated designs, with the sizes that their chiplets have.

    Args:
        evaluated: the designs, in any precision.
        names: identifier of each; default their numbers.
    """
    chips = evaluated.reports.chiplets
    levels = np.shape(chips.capacity)[-1]
    given = np.asarray(evaluated.designs.template).reshape(-1), np.asarray(chips.fanout).reshape(-1, levels, 2)
    with in_precision(evaluated.tables.cycles.dtype):
        evaluation = evaluation_arrays(
            evaluated, evaluated.tables, padded_layers=evaluated.designs.order.shape[-1], given=given
        )
    return Candidates(
        names=tuple(range(len(evaluated)) if names is None else names),
        designs=evaluated.designs,
        capacity=np.asarray(chips.capacity),
        fanout=np.asarray(chips.fanout),
        evaluation=evaluation,
        package=evaluated.package,
        templates=evaluated.templates,
    )


# ---------------------------------------------------------------- variants


_SMALL = tuple(f.name for f in dataclasses.fields(Components) if f.name != "sram")


def nominal_variant(evaluation: EvaluationArrays) -> Variant:
    """The hardware that the arrays of an evaluation describe, as a variant; NumPy leaves."""
    dtype = np.dtype(evaluation.tables.cycles.dtype)
    own = {name: np.asarray(getattr(evaluation.technology, name)) for name in _SMALL}
    shape = (*evaluation.templates.component.shape, 3)
    return Variant(
        clock=np.ones((), dtype),
        package=jax.device_get(evaluation.package),
        technology=Components(sram=np.zeros(3, dtype), **own),
        stated=np.ones(2, dtype),
        memory=np.ones((), dtype),
        size_factor=np.ones(shape, dtype),
        size=np.full(shape, -1, dtype),
    )


def placed_interfaces(candidates: Candidates, variant: Variant) -> np.ndarray:
    """`[..., N]` int, memory interfaces that designs have on variants `[...]`; a row of the mesh has two at most."""
    chiplets = np.sum(np.asarray(candidates.designs.template) >= 0, axis=1)
    return np.asarray(variant.package.tables.interfaces)[..., chiplets]


def stack_variants(variants: Sequence[Variant]) -> Variant:
    """Variants as one pytree with a leading axis `[K]`, NumPy leaves.

    They may differ in the number of memory interfaces, and of links that contend: interfaces and links that are added
    as padding serve no chiplet.
    """
    most = max(np.shape(v.package.interface_bandwidth)[0] for v in variants)
    links = max((v.package.tables.trunks.shape[-1] for v in variants if v.package.tables.trunks is not None), default=0)

    def padded(package: Package) -> Package:
        own = package.tables
        if own.trunks is not None:
            more = [(0, 0)] * (own.trunks.ndim - 1) + [(0, links - own.trunks.shape[-1])]
            own = dataclasses.replace(own, trunks=np.pad(np.asarray(own.trunks), more))
        bandwidth = np.resize(package.interface_bandwidth, most)
        return dataclasses.replace(package, tables=own, interface_bandwidth=bandwidth)

    rows = [dataclasses.replace(v, package=padded(v.package)) for v in variants]
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *rows)


def on_variant(evaluation: EvaluationArrays, variant: Variant) -> EvaluationArrays:
    """The arrays of an evaluation with the variant's hardware, except the sizes of chiplets (`variant_sizes`).

    Pure and traceable. Cycles are those of the variant's clock: a bandwidth in bytes per cycle is the one in GB/s
    divided by the GHz. A cycle counts as a nanosecond of leakage, which is therefore divided by the GHz too.
    """
    package = dataclasses.replace(
        variant.package,
        **{
            name: getattr(variant.package, name) / variant.clock
            for name in ("link_bandwidth", "interface_bandwidth", "dram_bandwidth")
        },
    )
    small = {name: getattr(variant.technology, name) for name in _SMALL}
    table = evaluation.technology.sram + variant.technology.sram
    share = evaluation.technology.static_share
    share = None if share is None else share / variant.clock
    technology = dataclasses.replace(evaluation.technology, sram=table, static_share=share, **small)
    energy, area = variant.stated[0], variant.stated[1]
    base = evaluation.templates
    machine = dataclasses.replace(
        base.machine,
        hop_energy=base.machine.hop_energy * energy,
        mac_energy=base.machine.mac_energy * energy,
        mac_area=base.machine.mac_area * area,
    )
    # Beyond the outermost level there is only padding.
    offchip = jnp.arange(base.fixed.shape[1]) == jnp.sum(base.machine.level_mask, axis=1, keepdims=True) - 1
    access = jnp.where(offchip, variant.memory, energy)
    factors = jnp.stack([access, access, jnp.full_like(access, area)], axis=-1)
    templates = dataclasses.replace(base, machine=machine, fixed=base.fixed * factors)
    return dataclasses.replace(evaluation, package=package, technology=technology, templates=templates)


def variant_sizes(
    design: Design, sizes: tuple[jax.Array, jax.Array], variant: Variant, evaluation: EvaluationArrays
) -> tuple[jax.Array, jax.Array]:
    """Capacities `[S, V]` and fanouts `[S, V, 2]` of a design's chiplets on a variant.

    A capacity that is changed by a factor is rounded up to the template's granularity, such a fanout to the nearest
    whole number. Sizes that a variant states are taken as they are. Templates of fixed sizes keep theirs.
    """
    nominal = chiplets(design, evaluation, sizes)
    template = jnp.maximum(design.template, 0)
    factor, stated = variant.size_factor[template], variant.size[template]
    arrays = evaluation.templates
    granule = jnp.maximum(arrays.granularity, 1) * jnp.where(arrays.granularity > 0, arrays.machine.block_words, 1)
    granule = granule[template]

    def changed(now: jax.Array, factor: Leaf, stated: Leaf, rounded: Callable[[jax.Array], jax.Array]) -> jax.Array:
        scaled = jnp.where(factor == 1, now, rounded(now * factor))
        return jnp.where(stated >= 0, stated, scaled)

    # The product has a rounding error: 1.1 * 160 words must not become 12 rows of 16.
    def up(words: jax.Array) -> jax.Array:
        rows = words / granule
        near = jnp.round(rows)
        whole = jnp.abs(rows - near) <= jnp.minimum(4 * jnp.finfo(words.dtype).eps * rows, 0.25)
        return jnp.where(whole, near, jnp.ceil(rows)) * granule

    capacity = changed(nominal.capacity, factor[..., 0], stated[..., 0], up)
    fanout = changed(nominal.fanout, factor[..., 1:], stated[..., 1:], lambda x: jnp.maximum(jnp.round(x), 1))
    fixed = arrays.sized[template, None]
    return jnp.where(fixed, nominal.capacity, capacity), jnp.where(fixed[..., None], nominal.fanout, fanout)


# ---------------------------------------------------------------- evaluation


def _holds(chips: Chiplets, least: Chiplets) -> jax.Array:
    """`[]` bool, no chiplet is smaller than its layers need."""
    return jnp.all(chips.capacity >= least.capacity) & jnp.all(chips.fanout >= least.fanout)


@functools.partial(jit_o1, static_argnames="resized")
def _block(
    designs: Design,
    sizes: tuple[jax.Array, jax.Array],
    variants: Variant,
    evaluation: EvaluationArrays,
    *,
    resized: bool,
) -> jax.Array:
    """Objectives of every row's design on its variant, `[B, 3]`."""

    def one(design: Design, sizes: tuple[jax.Array, jax.Array], variant: Variant) -> jax.Array:
        new = variant_sizes(design, sizes, variant, evaluation) if resized else sizes
        found = report(design, on_variant(evaluation, variant), new)
        objectives = found.objectives / jnp.stack([variant.clock, *jnp.ones_like(found.objectives[1:])])
        runs = jnp.all(jnp.isfinite(objectives))
        if resized:
            runs &= _holds(found.chiplets, chiplets(design, evaluation))
        return jnp.where(runs, objectives, jnp.inf)

    return jax.vmap(one)(designs, sizes, variants)


_FEW, _MANY = 64, 1024

MAX_VARIANTS = 10**6


def check_count(number: int, argument: str) -> None:
    """Raises InputError where there are more than `MAX_VARIANTS` variants, which are all in memory at once."""
    if number > MAX_VARIANTS:
        raise InputError(
            f"asks for {number:,} variants" if number < 10**15 else "asks for very many variants",
            argument=argument,
            remedy=f"ask for {MAX_VARIANTS:,} at most at once",
        )


Told = Callable[[int, int], None]
"""Called with the number of evaluations that are done, and their total."""


def evaluate_variants(
    candidates: Candidates, variants: Variant, *, resized: bool = False, progress: Told | None = None
) -> np.ndarray:
    """Evaluates every design on every variant.

    Runs in blocks of 1,024 pairs (64 where there are no more than 1,024): one program serves any numbers of designs and
    variants, and memory holds one block and the result.

    Args:
        candidates: N designs.
        variants: leading axis `[K]`, from `stack_variants`.
        resized: static, whether some variant has other sizes of chiplets.
        progress: called after every block.

    Returns:
        `[K, N, 3]` float, latency [s], energy [J], area [mm^2]; all infinite where a design does not run on a variant,
        because a chiplet is too small for its layers, or the wires of an array were not counted.
    """
    number, kinds = len(candidates), len(variants)
    pairs = number * kinds
    width = _FEW if pairs <= _MANY else _MANY
    rows = jax.device_get((candidates.designs, (candidates.capacity, candidates.fanout)))
    rows = jax.tree.map(np.asarray, rows)
    variants = jax.tree.map(np.asarray, jax.device_get(variants))
    parts = []
    with in_precision(candidates.dtype):
        for first in range(0, pairs, width):
            pair = np.minimum(np.arange(first, first + width), pairs - 1)
            designs, sizes = jax.tree.map(lambda leaf, at=pair % number: leaf[at], rows)
            own = jax.tree.map(lambda leaf, at=pair // number: leaf[at], variants)
            parts.append(_block(designs, sizes, own, candidates.evaluation, resized=resized))
            if progress is not None:
                whole = max(len(parts) - 1, 1)  # the last block runs while the one before is awaited
                jax.block_until_ready(parts[whole - 1])
                progress(min(whole * width, pairs), pairs)
        found = np.concatenate(jax.device_get(parts))[:pairs]
    if progress is not None:
        progress(pairs, pairs)
    return found.reshape(kinds, number, 3)
