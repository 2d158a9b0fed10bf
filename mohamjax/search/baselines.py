"""Baselines of the co-optimiser, over the same evaluation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mohamjax import emo
from mohamjax.search.moham import MohamConfig, MohamContext, design_problem

__all__ = ["random_search"]


def random_search(
    key: jax.Array, context: MohamContext, config: MohamConfig, evaluations: int
) -> tuple[emo.Archive, jax.Array]:
    """Random designs, as the co-optimiser draws its first ones without seeds, and the archive of the best.

    Compiles anew on every call.

    Args:
        key: typed key, consumed.
        context: the problem.
        config: sizes; batches have `config.population` designs.
        evaluations: designs to evaluate, rounded up to whole batches.

    Returns:
        The archive `[1, A, ...]`, and the hypervolume (`moham.log_hypervolume`) after every batch.
    """
    problem = design_problem(config)
    batches = -(-evaluations // config.population)

    @jax.jit
    def search(key: jax.Array, context: MohamContext) -> tuple[emo.Archive, jax.Array]:
        assert problem.observe is not None
        observe = problem.observe

        def sample(key: jax.Array) -> Any:
            return problem.sample(key, context)

        example = jax.eval_shape(sample, key)
        empty = emo.archive_init(config.archive, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), example), 3)

        def batch(archive: emo.Archive, key: jax.Array) -> tuple[emo.Archive, jax.Array]:
            genes = jax.vmap(sample)(jax.random.split(key, config.population))
            genes = jax.tree.map(lambda leaf: leaf[None], genes)
            archive = jax.vmap(emo.archive_update)(archive, genes, problem.evaluate(genes, context))
            return archive, observe(archive.objectives, context)[0]

        island = jax.tree.map(lambda leaf: leaf[None], empty)
        return jax.lax.scan(batch, island, jax.random.split(key, batches))

    return search(key, context)
