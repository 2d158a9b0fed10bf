"""Random numbers of one individual, drawn at once."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp


class Draws:
    """Random numbers from one key, drawn at once and handed out piece by piece.

    Every draw of its own unrolls the generator's rounds anew: they would be most of a compiled program of many small
    draws, and most of its time.

    Args:
        key: typed key, consumed.
        room: static, how many numbers are drawn.
    """

    def __init__(self, key: jax.typing.ArrayLike, room: int) -> None:
        """Draws them all."""
        self._values = jax.random.uniform(key, (room,))
        self._used = 0

    def uniform(self, *shape: int) -> jax.Array:
        """Numbers in [0, 1) that nobody else has; ValueError where so many were not drawn."""
        first, self._used = self._used, self._used + math.prod(shape)
        if self._used > self._values.shape[0]:
            raise ValueError(f"{self._used} numbers asked for, {self._values.shape[0]} drawn")
        return self._values[first : self._used].reshape(shape)

    def below(self, limit: jax.typing.ArrayLike, *shape: int) -> jax.Array:
        """Whole numbers in 0..limit-1, int32."""
        drawn = (self.uniform(*shape) * limit).astype(jnp.int32)
        return jnp.minimum(drawn, jnp.asarray(limit, jnp.int32) - 1)

    def happens(self, rate: jax.typing.ArrayLike, *shape: int) -> jax.Array:
        """True with a probability."""
        return self.uniform(*shape) < rate

    def exponential(self, *shape: int) -> jax.Array:
        """Numbers with the exponential distribution of mean 1."""
        return -jnp.log1p(-self.uniform(*shape))

    def gumbel(self, *shape: int) -> jax.Array:
        """Numbers with the standard Gumbel distribution: the largest of several, each with its log weight added, is
        drawn by the weights."""
        drawn = self.uniform(*shape)
        return -jnp.log(-jnp.log(jnp.maximum(drawn, jnp.finfo(drawn.dtype).tiny)))

    def normal(self, *shape: int) -> jax.Array:
        """Numbers with the standard normal distribution."""
        drawn = self.uniform(*shape)
        return jax.scipy.special.ndtri(jnp.maximum(drawn, jnp.finfo(drawn.dtype).tiny))
