"""MOHaM's chromosome as printed, where identifiers of sub-accelerator instances differ from tiles, and its operators.

The operators of `search.operators` work on a `Design`, which identifies a chiplet by the number of its tile. In MOHaM
(Section V-B1 and Figure 4) a gene of the hardware genome is an identifier and a template, and its place in the genome
is the tile. Here the same operators take the tiles of a design as identifiers, and another array states on which tile
each identifier stands. So SA crossover matches identifiers, position mutation moves instances without renaming them,
and an instance that is added comes last on the package. The preset `moham` uses this chromosome.

Axes: L layers (padded), S tiles, as many as there are identifiers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mohamjax.problem.resolved import FREE
from mohamjax.problem.space import Genetics
from mohamjax.runtime.struct import Rows, record
from mohamjax.schedule import Design
from mohamjax.search import operators


@record
class Instances(Rows):
    """An individual with MOHaM's chromosome; with a leading axis, many.

    Attributes:
        design: the design with identifiers instead of tiles: `assignment` is the identifier that runs each layer,
            `template` the template of each identifier, -1 where no instance has it.
        tile: `[S]` int32, a permutation: the tile of each identifier. Fixed chiplets have the number of their tile, and
            instances stand on the first of the free tiles.
    """

    design: Design
    tile: jax.Array

    def _first(self) -> jax.Array:
        return self.tile

    @property
    def order(self) -> jax.Array:
        """`[L]` int32, layers by priority."""
        return self.design.order


def instances_of(design: Design, genetics: Genetics) -> Instances:
    """The individual of a design, whose tiles become the identifiers."""
    tiles = jnp.arange(design.template.shape[0], dtype=jnp.int32)
    return settled(Instances(design=design, tile=tiles), design, genetics)


def placed(individual: Instances) -> Design:
    """The design on its tiles; for any leading axes."""
    inverse = jnp.argsort(jnp.asarray(individual.tile), axis=-1)
    design = individual.design
    return dataclasses.replace(
        design,
        assignment=jnp.take_along_axis(jnp.asarray(individual.tile), jnp.asarray(design.assignment), axis=-1),
        template=jnp.take_along_axis(jnp.asarray(design.template), inverse, axis=-1),
    )


def settled(before: Instances, design: Design, genetics: Genetics) -> Instances:
    """The individual after an operator changed its design: chiplets that remain keep their order, new ones come last.

    Args:
        before: the individual before the operator.
        design: its design after the operator.
        genetics: the problem; chiplets on fixed tiles stay where they are.
    """
    size = before.tile.shape[0]
    names = jnp.arange(size, dtype=jnp.int32)
    free, stood, stands = genetics.on_tile == FREE, before.design.template >= 0, design.template >= 0
    key = jnp.where(stands, jnp.where(stood, before.tile, size + names), 2 * size + names)
    ranked = jnp.argsort(jnp.where(free, key, 3 * size), stable=True)
    seats = jnp.argsort(~free, stable=True).astype(jnp.int32)
    return Instances(design=design, tile=jnp.zeros_like(before.tile).at[ranked].set(seats))


def _on_design(operator: Callable[..., Design]) -> Callable[..., Instances]:
    """A mutation of individuals from a mutation of designs."""

    def mutation(key: jax.Array, individual: Instances, genetics: Genetics, *more: Any) -> Instances:
        return settled(individual, operator(key, individual.design, genetics, *more), genetics)

    return mutation


scheduling_mutation = _on_design(operators.scheduling_mutation)
mapping_mutation = _on_design(operators.mapping_mutation)
assignment_mutation = _on_design(operators.assignment_mutation)
opening_mutation = _on_design(operators.opening_mutation)
splitting_mutation = _on_design(operators.splitting_mutation)
merging_mutation = _on_design(operators.merging_mutation)
template_mutation = _on_design(operators.template_mutation)
resizing_mutation = _on_design(operators.resizing_mutation)


def sample(key: jax.Array, genetics: Genetics, tiles: int) -> Instances:
    """A random individual (`operators.sample`); the key is consumed."""
    return instances_of(operators.sample(key, genetics, tiles), genetics)


def conform(individual: Instances, genetics: Genetics) -> Instances:
    """The individual changed to keep the demands that single operators may break (`operators.conform`)."""
    return settled(individual, operators.conform(individual.design, genetics), genetics)


def position_mutation(key: jax.Array, individual: Instances, genetics: Genetics) -> Instances:
    """Two random instances that are not fixed exchange their tiles; identifiers and layers stay (Figure 5h)."""
    first_key, second_key = jax.random.split(key)
    movable = operators.movable_chiplets(individual.design, genetics)
    names = jnp.arange(movable.shape[0])
    one, _ = operators.pick(first_key, movable)
    two, pair = operators.pick(second_key, movable & (names != one))
    own = individual.tile
    swapped = own.at[one].set(own[two]).at[two].set(own[one])
    return dataclasses.replace(individual, tile=jnp.where(pair, swapped, own))


def _crossed(
    crossed: tuple[Design, Design], a: Instances, b: Instances, genetics: Genetics
) -> tuple[Instances, Instances]:
    return settled(a, crossed[0], genetics), settled(b, crossed[1], genetics)


def scheduling_crossover(key: jax.Array, a: Instances, b: Instances, genetics: Genetics) -> tuple[Instances, Instances]:
    """Takes the genes before a point of a parent's software genome, then all missing genes from the other (Figure 5a).

    A gene is a layer, its mapping and its instance. So a layer of the second part goes to the instance with the
    identifier that it has in the other parent, with the other's mapping. Where the child has no such instance, or the
    instance cannot run the layer, the layer stays where it is; where templates differ the mapping is transformed.
    """
    cut = jax.random.randint(key, (), 1, jnp.maximum(genetics.layers, 2))

    def child(own: Design, other: Design) -> Design:
        late = operators.positions(own.order) >= cut
        runs = operators.runs_on(genetics, own.template)
        there = jnp.take_along_axis(runs, other.assignment[:, None], axis=1)[:, 0]
        assignment = jnp.where(late & there, other.assignment, own.assignment)
        foreign = operators.transformed(other, genetics, own.template[assignment])
        return operators.drop_empty(
            dataclasses.replace(
                own,
                order=operators.spliced(own.order, other.order, cut),
                assignment=assignment,
                mapping=jnp.where(late, foreign, own.mapping),
            ),
            genetics,
        )

    return _crossed(operators.mutually(child, a.design, b.design), a, b, genetics)


def mapping_crossover(key: jax.Array, a: Instances, b: Instances, genetics: Genetics) -> tuple[Instances, Instances]:
    """Takes the mappings before a point of the order from one parent, the others from the other (Figure 5d)."""
    return _crossed(operators.mapping_crossover(key, a.design, b.design, genetics), a, b, genetics)


def sa_crossover(key: jax.Array, a: Instances, b: Instances, genetics: Genetics) -> tuple[Instances, Instances]:
    """The parents exchange the instance with a random identifier, and its layers (Figure 5e; `operators.sa_crossover`).

    An instance takes the tile of the one that it replaces. Where only one parent has the identifier, the other one gets
    the instance on the last place.
    """
    return _crossed(operators.sa_crossover(key, a.design, b.design, genetics), a, b, genetics)
