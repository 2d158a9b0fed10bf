"""NSGA-II by `init`, `ask`, `tell` on toy problems that know nothing of accelerators."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mohamjax import emo


def unit(size):
    """Random points of the unit cube; simulated binary crossover and polynomial mutation (Deb)."""

    def sample(key):
        return jax.random.uniform(key, (size,))

    def vary(key, a, b):
        spread_key, swap_key, where_key, step_key = jax.random.split(key, 4)
        u = jax.random.uniform(spread_key, (size,), maxval=0.999)
        spread = jnp.where(u < 0.5, 2 * u, 1 / (2 - 2 * u)) ** (1 / 16)
        half, middle = spread * (a - b) / 2, (a + b) / 2
        half = jnp.where(jax.random.bernoulli(swap_key, 0.5, (size,)), half, -half)
        children = jnp.stack([middle + half, middle - half])
        v = jax.random.uniform(step_key, children.shape)
        step = jnp.where(v < 0.5, (2 * v) ** (1 / 21) - 1, 1 - (2 - 2 * v) ** (1 / 21))
        children += jnp.where(jax.random.bernoulli(where_key, 1 / size, children.shape), step, 0)
        first, second = jnp.clip(children, 0, 1)
        return first, second

    return sample, vary


def zdt1(x):
    g = 1 + 9 * jnp.mean(x[..., 1:], axis=-1)
    return jnp.stack([x[..., 0], g * (1 - jnp.sqrt(x[..., 0] / g))], axis=-1)


def dtlz2(x):
    g = jnp.sum((x[..., 2:] - 0.5) ** 2, axis=-1)
    a, b = x[..., 0] * jnp.pi / 2, x[..., 1] * jnp.pi / 2
    shape = [jnp.cos(a) * jnp.cos(b), jnp.cos(a) * jnp.sin(b), jnp.sin(a)]
    return (1 + g)[..., None] * jnp.stack(shape, axis=-1)


def evolve(search, evaluate, key, generations):
    state = search.init(key)
    state = search.tell(state, state.genes, evaluate(state.genes))

    def step(state, _):
        candidates = search.ask(state)
        return search.tell(state, candidates, evaluate(candidates)), None

    return jax.lax.scan(step, state, None, length=generations)[0]


@pytest.mark.parametrize(
    ("function", "size", "objectives", "reference", "best", "share"),
    # Of the box, the true fronts leave 1/3 (under the curve f2 = 1 - sqrt(f1)) and the eighth of a ball.
    [(zdt1, 12, 2, 1.1, 1.21 - 1 / 3, 0.98), (dtlz2, 7, 3, 1.1, 1.331 - np.pi / 6, 0.65)],
)
def test_fronts_of_toy_problems(function, size, objectives, reference, best, share):
    sample, vary = unit(size)
    search = emo.NSGA2(sample, vary, population=48, objectives=objectives)
    states = jax.jit(jax.vmap(lambda key: evolve(search, function, key, 120)))(jax.random.split(jax.random.key(0), 3))
    volumes = jax.vmap(emo.hypervolume, (0, None))(states.objectives, jnp.full(objectives, reference))
    assert (volumes > share * best).all() and (volumes < best * (1 + 1e-5)).all(), volumes / best


def test_one_max():
    def vary(key, a, b):
        cross_key, flip_key = jax.random.split(key)
        mask = jax.random.bernoulli(cross_key, 0.5, a.shape)
        children = jnp.stack([jnp.where(mask, a, b), jnp.where(mask, b, a)])
        children ^= jax.random.bernoulli(flip_key, 1 / a.shape[0], children.shape)
        return children[0], children[1]

    search = emo.NSGA2(lambda key: jax.random.bernoulli(key, 0.5, (40,)), vary, population=20, objectives=1)
    state = evolve(search, lambda bits: jnp.sum(~bits, axis=-1)[:, None], jax.random.key(1), 100)
    assert state.objectives[0, 0] == 0 and state.genes[0].all()


def test_seeds_and_strangers_are_told():
    sample, vary = unit(5)
    search = emo.NSGA2(sample, vary, population=8, immigrants=3)
    ask, tell = jax.jit(search.ask), jax.jit(search.tell)
    state = search.init(jax.random.key(2))
    assert jnp.isinf(state.objectives).all()
    seed = jnp.zeros((1, 5)).at[0, 0].set(0.5)
    state = tell(state, seed, zdt1(seed))
    assert (state.genes[0] == seed[0]).all() and jnp.sum(jnp.isfinite(state.objectives).all(axis=1)) == 1
    assert ask(state).shape == (11, 5)
    state = tell(state, ask(state), jnp.full((11, 2), jnp.nan))
    assert (state.genes[0] == seed[0]).all() and int(state.generation) == 2


def test_keys_and_states_decide_everything():
    sample, vary = unit(5)
    search = emo.NSGA2(sample, vary, population=8)
    state = search.init(jax.random.key(3))
    ask = jax.jit(search.ask)
    np.testing.assert_allclose(search.ask(state), ask(state), rtol=1e-6)
    key = jax.random.key(4)
    np.testing.assert_array_equal(ask(state, key), ask(state, key))
    assert (ask(state, key) != ask(state)).any()


def test_context_is_an_argument():
    def sample(key, low):
        return low + jax.random.uniform(key, (3,))

    search = emo.NSGA2(sample, lambda key, a, b, low: (jnp.maximum(a, low), b), population=4)
    traces = []

    @jax.jit
    def first(low):
        traces.append(1)
        state = search.init(jax.random.key(0), low=low)
        return search.ask(state, low=low)

    assert (first(jnp.float32(5.0)) >= 5).all() and (first(jnp.float32(7.0)) >= 7).all()
    assert len(traces) == 1


def test_wrong_shapes_are_refused():
    sample, vary = unit(5)
    search = emo.NSGA2(sample, vary, population=8)
    state = search.init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"expected shape \(8, 2\), got \(8, 3\)"):
        search.tell(state, state.genes, jnp.zeros((8, 3)))
    with pytest.raises(ValueError, match="population"):
        emo.NSGA2(sample, vary, population=1)
