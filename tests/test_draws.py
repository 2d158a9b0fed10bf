"""Random numbers that are drawn together have the distributions that their names say, and none is used twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mohamjax.runtime.draws import Draws

NUMBER = 20_000


@pytest.mark.parametrize(
    ("name", "mean", "deviation"),
    [
        ("uniform", 0.5, 12**-0.5),
        ("exponential", 1.0, 1.0),
        ("gumbel", np.euler_gamma, np.pi / 6**0.5),
        ("normal", 0.0, 1.0),
    ],
)
def test_distributions(name, mean, deviation):
    drawn = np.asarray(getattr(Draws(jax.random.key(0), NUMBER), name)(NUMBER // 4, 4))
    assert drawn.shape == (NUMBER // 4, 4) and np.isfinite(drawn).all()
    np.testing.assert_allclose(drawn.mean(), mean, atol=5 * deviation / NUMBER**0.5)
    np.testing.assert_allclose(drawn.std(), deviation, rtol=0.05)


def test_whole_numbers_and_chances():
    draws = Draws(jax.random.key(1), 2 * NUMBER)
    share = np.bincount(np.asarray(draws.below(5, NUMBER)), minlength=6) / NUMBER
    np.testing.assert_allclose(share, [0.2] * 5 + [0], atol=0.02)
    np.testing.assert_allclose(
        np.mean(draws.happens(jnp.asarray([0.0, 1.0, 0.3]), NUMBER // 3, 3), axis=0), [0, 1, 0.3], atol=0.03
    )


def test_no_number_twice_and_no_more_than_were_drawn():
    draws = Draws(jax.random.key(2), 10)
    first, second = draws.uniform(2, 3), draws.uniform(4)
    assert len(np.unique(np.concatenate([np.ravel(first), second]))) == 10
    with pytest.raises(ValueError, match="11 numbers asked for, 10 drawn"):
        draws.uniform()
