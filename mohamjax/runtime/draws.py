"""Random numbers of one individual, all drawn at once."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp


class Draws:
    """Random numbers from one key, drawn at once and handed out piece by piece.

    Separate draws would each unroll the generator's rounds anew, which would make up most of a compiled program of many
    small draws, and most of its run time.

    Args:
        key: typed key, consumed.
        room: static, number of numbers drawn.
    """

    def __init__(self, key: jax.typing.ArrayLike, room: int) -> None:
        """Draws all numbers."""
        self._values = jax.random.uniform(key, (room,))
        self._used = 0

    def uniform(self, *shape: int) -> jax.Array:
        """The next numbers in [0, 1), handed out only once; ValueError if too few are left."""
        first, self._used = self._used, self._used + math.prod(shape)
        if self._used > self._values.shape[0]:
            raise ValueError(f"{self._used} numbers asked for, {self._values.shape[0]} drawn")
        return self._values[first : self._used].reshape(shape)

    def below(self, limit: jax.typing.ArrayLike, *shape: int) -> jax.Array:
        """Integers in 0..limit-1, int32."""
        drawn = (self.uniform(*shape) * limit).astype(jnp.int32)
        return jnp.minimum(drawn, jnp.asarray(limit, jnp.int32) - 1)

    def happens(self, rate: jax.typing.ArrayLike, *shape: int) -> jax.Array:
        """Bools that are true with probability `rate`."""
        return self.uniform(*shape) < rate

    def exponential(self, *shape: int) -> jax.Array:
        """Numbers with the exponential distribution of mean 1."""
        return -jnp.log1p(-self.uniform(*shape))

    def gumbel(self, *shape: int) -> jax.Array:
        """Numbers with the standard Gumbel distribution.

        With a log weight added to each, the place of the largest is drawn with probability proportional to its weight.
        """
        drawn = self.uniform(*shape)
        return -jnp.log(-jnp.log(jnp.maximum(drawn, jnp.finfo(drawn.dtype).tiny)))

    def normal(self, *shape: int) -> jax.Array:
        """Numbers with the standard normal distribution."""
        drawn = self.uniform(*shape)
        return jax.scipy.special.ndtri(jnp.maximum(drawn, jnp.finfo(drawn.dtype).tiny))
