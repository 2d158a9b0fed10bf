"""The problems of a call of the mapper, and given mappings from which their searches start."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping as Dict
from collections.abc import Sequence

import jax
import numpy as np

from mohamjax.mapping.membership import lie_in
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.space import MappingGenes, MapSpace, encode, genes_of, stack_spaces
from mohamjax.runtime.struct import take

GivenMappings = Dict[tuple[int, int], Sequence[Mapping]]
"""Mappings by (index of the layer, index of the template)."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """One problem on the host: a layer on a template.

    Attributes:
        layer: index of the unique layer.
        template: index of the template.
        name: name of the template.
        digest: hash of inputs and settings, not of the code; its random numbers derive from it.
    """

    layer: int
    template: int
    name: str
    digest: str

    @property
    def place(self) -> tuple[int, int]:
        """(layer, template)."""
        return self.layer, self.template


@dataclasses.dataclass(frozen=True)
class Start:
    """Mappings that searches start from.

    Attributes:
        mappings: by (layer, template).
        most: K, number of places for them in every problem.
        lenient: leave out mappings that no genes describe, instead of refusing them.
    """

    mappings: GivenMappings
    most: int
    lenient: bool

    def genes(
        self, pairs: Sequence[Pair], spaces: Sequence[MapSpace]
    ) -> tuple[MappingGenes, np.ndarray] | tuple[None, None]:
        """The mappings of a block as genes `[B, K, ...]`, and which of them exist `[B, K]`; None where K is 0.

        Args:
            pairs: the problems of the block.
            spaces: their map spaces.

        Raises:
            InputError: no genes of its space describe a mapping, unless `lenient`.
        """
        if self.most == 0:
            return None, None
        stacked = stack_spaces(spaces)
        exists, rows = np.zeros((len(pairs), self.most), bool), _blank(stacked, self.most)
        sets = [self.mappings.get(pair.place, ()) for pair in pairs]
        listed = [(i, k, mapping) for i, mappings in enumerate(sets) for k, mapping in enumerate(mappings)]
        if not listed:
            return rows, exists
        which, place = np.asarray([(i, k) for i, k, _ in listed]).T
        nests = jax.tree.map(lambda *leaves: np.stack(leaves), *[mapping for *_, mapping in listed])
        good = lie_in(nests, spaces, which)
        if not self.lenient:
            for i, _, mapping in (listed[n] for n in np.flatnonzero(~good)):
                item = f"layer {pairs[i].layer} on template {pairs[i].name}"
                encode(mapping, spaces[i], item=item)  # raises what is wrong with it
            good[:] = True
        which, place = which[good], place[good]
        genes = genes_of(take(nests, good), take(stacked, which))
        for leaf, own in zip(jax.tree.leaves(rows), jax.tree.leaves(genes), strict=True):
            leaf[which, place] = own
        exists[which, place] = True
        return rows, exists


def _blank(space: MapSpace, count: int) -> MappingGenes:
    """Genes of a block `[B, count, ...]` with all factors outermost; NumPy arrays."""
    size, primes = np.shape(space.dim)
    levels, dims = np.shape(space.constraints.order)[1:]
    order = np.broadcast_to(np.arange(dims, dtype=np.int32), (size, count, 3, levels, dims))
    slot = np.broadcast_to(np.asarray(space.outermost, np.int32).reshape(-1, 1, 1), (size, count, primes))
    keep = None
    if space.constraints.may_bypass is not None:
        keep = np.asarray(space.constraints.keep)[:, None].repeat(count, axis=1)
    return MappingGenes(
        keep=keep,
        cover=np.zeros((size, count, dims), np.int32),
        slot=slot.copy(),
        order=order[:, :, 0].copy(),
        spatial_order=order[:, :, 1:].copy(),
    )
