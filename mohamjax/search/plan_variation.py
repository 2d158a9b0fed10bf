"""Individuals of a search of plans: drafts, and how individuals grow from them.

A draft holds what is drawn for each individual separately. The costly rest, decoding plans and changing single layers
of parents, is done for all individuals of a generation at once, in one place of its program.
"""

from __future__ import annotations

import functools

import jax
import jax.custom_batching
import jax.numpy as jnp

from mohamjax.problem.space import DesignSpace
from mohamjax.runtime.blocks import DESIGNS, in_blocks, in_fitting_blocks
from mohamjax.runtime.platforms import by_platform
from mohamjax.runtime.struct import record, take
from mohamjax.schedule import Design
from mohamjax.search.plan_operators import (
    PlanRates,
    adjusting_share,
    adjustment,
    completed,
    crossover,
    drawn_plan,
    mutated,
)
from mohamjax.search.plans import Plan, Planned, decode, sized

_ADJUSTED = 32  # designs that a CPU adjusts at a time: by default, 7 of 256 are adjusted


@record
class Draft:
    """An individual that is yet to be grown.

    Attributes:
        plan: a plan, not completed.
        parent: individual whose single layers change, where `adjusts`.
        key: typed key of these changes.
        adjusts: `[]` bool, whether the individual becomes the changed parent, instead of the decoded plan.
    """

    plan: Plan
    parent: Planned
    key: jax.Array
    adjusts: jax.Array


def draft_plan(key: jax.Array, space: DesignSpace) -> Draft:
    """The draft of a random individual; the key is consumed."""
    plan = drawn_plan(key, space.genetics, space.plans)
    zeros = jnp.zeros_like(space.genetics.unique)
    design = Design(order=zeros, assignment=zeros, mapping=zeros, template=plan.template)
    return Draft(plan=plan, parent=Planned(plan=plan, design=design), key=key, adjusts=jnp.bool_(False))


def vary_plans(key: jax.Array, a: Planned, b: Planned, space: DesignSpace, rates: PlanRates) -> tuple[Draft, Draft]:
    """Drafts of the two children of a pair: new plans by crossover and mutation, or parents that are to be adjusted.

    Args:
        key: typed key, consumed.
        a: a parent.
        b: the other parent.
        space: the problem.
        rates: how often plans change.
    """
    genetics, tables = space.genetics, space.plans
    cross_key, child_key = jax.random.split(key)
    # Both children in one batch, so that the rest is compiled once.
    parents = jax.tree.map(lambda *x: jnp.stack(x), a, b)
    plans = jax.tree.map(lambda *x: jnp.stack(x), *crossover(cross_key, a.plan, b.plan, rates.crossover))

    def child(key: jax.Array, parent: Planned, plan: Plan) -> Draft:
        coin_key, mutate_key, adjust_key = jax.random.split(key, 3)
        return Draft(
            plan=mutated(mutate_key, plan, tables, rates),
            parent=parent,
            key=adjust_key,
            adjusts=jax.random.bernoulli(coin_key, adjusting_share(rates, genetics)),
        )

    both = jax.vmap(child)(jax.random.split(child_key), parents, plans)
    return take(both, 0), take(both, 1)


def grow_plans(drafts: Draft, space: DesignSpace, rates: PlanRates | None = None) -> Planned:
    """Individuals `[N, ...]` from drafts: decoded plans, or parents with single layers changed.

    Args:
        drafts: `[N, ...]`.
        space: the problem.
        rates: how often layers change; None for random individuals, none of which `adjusts`.
    """
    if rates is None:
        return in_fitting_blocks(lambda plans: _decoded(plans, space), drafts.plan, DESIGNS)
    return by_platform(drafts, space, rates, cpu=_grown_in_blocks, wide=_grown_at_once)


def _decoded(plans: Plan, space: DesignSpace) -> Planned:
    genetics = space.genetics
    whole = jax.vmap(lambda plan: sized(completed(plan, genetics), space.plans))(plans)
    return decode(whole, genetics, space.plans)


def _adjusted(drafts: Draft, space: DesignSpace, rates: PlanRates) -> Planned:
    def one(draft: Draft) -> Planned:
        return adjustment(draft.key, draft.parent, space.genetics, space.plans, rates)

    return jax.vmap(one)(drafts)


def _chosen(drafts: Draft, adjusted: Planned, decoded: Planned) -> Planned:
    def where(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(drafts.adjusts.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    return jax.tree.map(where, adjusted, decoded)


def _grown_at_once(drafts: Draft, space: DesignSpace, rates: PlanRates) -> Planned:
    return _chosen(drafts, _adjusted(drafts, space, rates), _decoded(drafts.plan, space))


@jax.custom_batching.sequential_vmap
def _grown_in_blocks(drafts: Draft, space: DesignSpace, rates: PlanRates) -> Planned:
    """As `_grown_at_once`, in blocks: drafts that adjust come first, and a block of these alone decodes no plans.

    Islands are grown one after the other: side by side, every block would have to do both.
    """

    def decoded(drafts: Draft) -> Planned:
        def skip(drafts: Draft) -> Planned:
            return drafts.parent

        return jax.lax.cond(jnp.all(drafts.adjusts), skip, lambda drafts: _decoded(drafts.plan, space), drafts)

    order = jnp.argsort(~drafts.adjusts, stable=True)
    drafts = take(drafts, order)
    number = drafts.adjusts.shape[0]
    width = min(_ADJUSTED, number)

    def adjust(carry: tuple[jax.Array, Planned]) -> tuple[jax.Array, Planned]:
        done, kept = carry
        first = jnp.minimum(done, number - width)
        made = _adjusted(take(drafts, first + jnp.arange(width)), space, rates)
        put = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=first, axis=0)
        return done + width, jax.tree.map(put, kept, made)

    some = jnp.sum(drafts.adjusts, dtype=jnp.int32)
    _, adjusted = jax.lax.while_loop(lambda carry: carry[0] < some, adjust, (jnp.int32(0), drafts.parent))
    whole = _chosen(drafts, adjusted, in_blocks(decoded, drafts, DESIGNS))
    return take(whole, jnp.argsort(order))
