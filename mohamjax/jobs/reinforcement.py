"""Reinforcement learning on the encoding of G#: A2C and PPO, with the settings of Table 5.

An episode schedules the jobs in the order of the table: for each job the policy chooses an accelerator that can run it
and one of 16 priorities. At the end the schedule is evaluated as in every other method, and minus the logarithm of its
objective is the only reward (of lateness, which may be negative, the logarithm of its distance from a lower bound). A
batch of episodes runs in parallel (as many as other methods have schedules in a population), then policy and critic
learn from it.

Policy and critic are networks with three hidden layers of 128 units; the discount is 0.99. A2C takes one step of
RMSProp (0.0007) per batch, PPO four epochs of four minibatches with Adam (0.00025) and a clipping range of 0.2. What
Table 5 leaves open (generalised advantages, weights of entropy and value, clipped gradients) follows the defaults of
A2C and PPO2 in Stable Baselines, except that both learn from whole episodes, with normalised advantages.

Axes: E episodes of a batch, J jobs (padded), A accelerators, F features.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.jobs.config import JobSearchConfig
from mohamjax.jobs.job_problem import JobGenes, JobProblem, evaluate
from mohamjax.runtime.platforms import product
from mohamjax.runtime.struct import select, take

if TYPE_CHECKING:
    import optax

_HIDDEN = (128, 128, 128)
_PRIORITIES = 16


@dataclasses.dataclass(frozen=True)
class Learning:
    """Settings of a learning method; static.

    Attributes:
        optimiser: name of an optimiser of optax.
        rate: learning rate.
        options: further settings of the optimiser.
        trace: lambda of the generalised advantages; 1 uses the return itself.
        value_weight: weight of the critic's loss, the mean square of its errors. Stable Baselines halves PPO2's and
            clips its values, which is not done here.
        epochs: passes over a batch of episodes.
        minibatches: steps per pass.
        clip: clipping range of the ratio of probabilities (PPO); infinite for none.
        discount: gamma.
        entropy_weight: weight of the policy's entropy.
        gradient_norm: norm to which the gradient of a step is clipped.
    """

    optimiser: str
    rate: float
    options: tuple[tuple[str, float], ...]
    trace: float
    value_weight: float
    epochs: int = 1
    minibatches: int = 1
    clip: float = float("inf")
    discount: float = 0.99
    entropy_weight: float = 0.01
    gradient_norm: float = 0.5


LEARNING_METHODS = {
    "A2C": Learning("rmsprop", 7e-4, (("decay", 0.99), ("eps", 1e-5)), trace=1.0, value_weight=0.25),
    "PPO": Learning("adam", 2.5e-4, (("eps", 1e-5),), trace=0.95, value_weight=0.5, epochs=4, minibatches=4, clip=0.2),
}
"""Learning methods of Table 5. With one step per batch and no clipping, PPO's loss has the same gradient as A2C's."""


class Steps(NamedTuple):
    """Steps of episodes, with any leading axes.

    Attributes:
        seen: `[..., F]` float, features that the policy saw.
        accelerator: `[...]` int32, the accelerator chosen.
        priority: `[...]` int32, the priority chosen, below `_PRIORITIES`.
        log_probability: `[...]` float, logarithm of the probability of both choices.
        value: `[...]` float, value estimated by the critic.
        able: `[..., A]` bool, accelerators that could be chosen.
    """

    seen: jax.Array
    accelerator: jax.Array
    priority: jax.Array
    log_probability: jax.Array
    value: jax.Array
    able: jax.Array


Network = list[tuple[jax.Array, jax.Array]]
"""Weights `[m, n]` and biases `[n]` of every layer of a multilayer perceptron."""


Agent = dict[str, Network]
"""The networks that learn: the `policy`, and the `critic` that estimates the value of a state."""


def _network(key: jax.Array, sizes: tuple[int, ...], last_scale: float) -> Network:
    """A multilayer perceptron with orthogonal weights."""
    keys = jax.random.split(key, len(sizes) - 1)
    scales = [2**0.5] * (len(sizes) - 2) + [last_scale]
    return [
        (jax.nn.initializers.orthogonal(scale)(k, (m, n), jnp.float32), jnp.zeros(n))
        for k, m, n, scale in zip(keys, sizes, sizes[1:], scales, strict=False)
    ]


def _forward(network: Network, x: jax.Array) -> jax.Array:
    *hidden, (weights, bias) = network
    for w, b in hidden:
        x = jnp.tanh(product(x, w) + b)
    return product(x, weights) + bias


def _features(problem: JobProblem) -> tuple[jax.Array, jax.Array]:
    """Features of each job `[J, F - A]`, and the unit of work: the sum of the jobs' least durations over A."""
    able = jnp.isfinite(problem.duration)
    least = jnp.min(problem.duration, axis=1, keepdims=True)
    unit = jnp.maximum(jnp.sum(jnp.where(problem.mask[:, None], least, 0.0)) / problem.accelerators, 1e-30)
    slower = jnp.where(able, jnp.log2(jnp.where(able, problem.duration, 1.0) / jnp.maximum(least, 1e-30)), 16.0)
    asked = jnp.log1p(problem.demand / problem.bandwidth)
    place = jnp.arange(problem.mask.shape[0]) / jnp.sum(problem.mask)
    share = jnp.sqrt(least / unit)
    return jnp.concatenate([jnp.clip(slower, 0, 16) / 4, asked, share, place[:, None]], axis=1), unit


def _choices(agent: Agent, seen: jax.Array, able: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Logarithms of the probabilities of accelerators `[..., A]` (very low where not able) and of priorities."""
    logits = _forward(agent["policy"], seen)
    cores = able.shape[-1]
    return jax.nn.log_softmax(jnp.where(able, logits[..., :cores], -1e9)), jax.nn.log_softmax(logits[..., cores:])


def _of(table: jax.Array, index: jax.Array) -> jax.Array:
    return jnp.take_along_axis(table, index[..., None], axis=-1)[..., 0]


def _episodes(key: jax.Array, agent: Agent, problem: JobProblem, episodes: int) -> Steps:
    """Steps `[J, E, ...]` of a batch of episodes; the key is consumed."""
    jobs, cores = problem.duration.shape
    features, unit = _features(problem)
    able = jnp.isfinite(problem.duration)

    def step(load: jax.Array, now: tuple[jax.Array, ...]) -> tuple[jax.Array, Steps]:
        key, features, able, duration = now
        core_key, priority_key = jax.random.split(key)
        seen = jnp.concatenate([jnp.broadcast_to(features, (episodes, len(features))), load / unit], axis=1)
        able = jnp.broadcast_to(able, load.shape)
        by_core, by_priority = _choices(agent, seen, able)
        core = jax.random.categorical(core_key, by_core).astype(jnp.int32)
        priority = jax.random.categorical(priority_key, by_priority).astype(jnp.int32)
        probability = _of(by_core, core) + _of(by_priority, priority)
        load = load + jnp.where(core[:, None] == jnp.arange(cores), duration, 0.0)
        return load, Steps(seen, core, priority, probability, _forward(agent["critic"], seen)[:, 0], able)

    keys = jax.random.split(key, jobs)
    rows = (keys, features, able, problem.duration)
    return jax.lax.scan(step, jnp.zeros((episodes, cores)), rows)[1]


def advantages(reward: jax.Array, value: jax.Array, mask: jax.Array, settings: Learning) -> tuple[jax.Array, jax.Array]:
    """Generalised advantages of episodes whose only reward comes with the last real step, and the critic's targets.

    Args:
        reward: `[E]` float.
        value: `[J, E]` float, values estimated by the critic.
        mask: `[J]` bool, real steps, which come first.
        settings: discount and trace.

    Returns:
        Advantages and targets, `[J, E]` each; 0 for padded steps.
    """
    last = mask & ~jnp.append(mask[1:], False)
    value = jnp.where(mask[:, None], value, 0.0)
    following = jnp.concatenate([value[1:], jnp.zeros_like(value[:1])])
    error = jnp.where(last[:, None], reward, 0.0) + settings.discount * following - value

    def back(advantage: jax.Array, error: jax.Array) -> tuple[jax.Array, jax.Array]:
        advantage = error + settings.discount * settings.trace * advantage
        return advantage, advantage

    _, found = jax.lax.scan(back, jnp.zeros_like(reward), error, reverse=True)
    return found, found + value


def loss_of(
    agent: Agent, steps: Steps, advantage: jax.Array, target: jax.Array, weight: jax.Array, settings: Learning
) -> jax.Array:
    """Mean loss, `[]`, over those of N steps whose bool `weight` is true."""

    def mean(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(weight, x, 0.0)) / jnp.maximum(jnp.sum(weight), 1)

    centred = advantage - mean(advantage)
    advantage = centred / (jnp.sqrt(mean(centred**2)) + 1e-8)
    tables = _choices(agent, steps.seen, steps.able)
    probability = _of(tables[0], steps.accelerator) + _of(tables[1], steps.priority)
    ratio = jnp.exp(probability - steps.log_probability)
    kept = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    gain = jnp.minimum(ratio * advantage, kept * advantage)
    entropy = -sum(jnp.sum(jnp.exp(table) * table, axis=-1) for table in tables)
    miss = (_forward(agent["critic"], steps.seen)[:, 0] - target) ** 2
    return mean(settings.value_weight * miss - gain - settings.entropy_weight * entropy)


def _cost(value: jax.Array, problem: JobProblem, objective: str) -> jax.Array:
    """What is to be made small, not negative, `[E]`: the objective, or the distance of lateness from its lower bound.

    Every job ends after time 0, so lateness is never below minus the earliest deadline.
    """
    return value + jnp.min(problem.deadline) if objective == "lateness" else value


class _Learnt(NamedTuple):
    """The state after a batch of episodes.

    Attributes:
        agent: policy and critic.
        memory: state of the optimiser.
        scale: `[]` float, mean `_cost` of the first batch; rewards are relative to it.
        best: `[J]`, the best schedule so far.
        least: `[]` float, objective of the best schedule.
    """

    agent: Agent
    memory: optax.OptState
    scale: jax.Array
    best: JobGenes
    least: jax.Array


@functools.partial(jax.jit, static_argnames=("settings", "config"))
def _learn(
    key: jax.Array, problem: JobProblem, *, settings: Learning, config: JobSearchConfig
) -> tuple[JobGenes, jax.Array]:
    """The best schedule `[J]`, and the best value after every batch `[G + 1]`."""
    import optax

    jobs, cores = problem.duration.shape
    episodes, count = config.population, jobs * config.population
    optimiser = optax.chain(
        optax.clip_by_global_norm(settings.gradient_norm),
        getattr(optax, settings.optimiser)(settings.rate, **dict(settings.options)),
    )
    start_key, policy_key, critic_key = jax.random.split(key, 3)
    width = 3 * cores + 2
    agent: Agent = {
        "policy": _network(policy_key, (width, *_HIDDEN, cores + _PRIORITIES), 0.01),
        "critic": _network(critic_key, (width, *_HIDDEN, 1), 1.0),
    }
    weight = jnp.broadcast_to(problem.mask[:, None], (jobs, episodes)).reshape(count)

    def update(
        state: tuple[Agent, optax.OptState], batch: tuple[Steps, jax.Array, jax.Array, jax.Array]
    ) -> tuple[tuple[Agent, optax.OptState], None]:
        agent, memory = state
        gradient = jax.grad(loss_of)(agent, *batch, settings)
        change, memory = optimiser.update(gradient, memory, agent)
        return (cast(Agent, optax.apply_updates(agent, change)), memory), None

    def generation(state: _Learnt, key: jax.Array) -> tuple[_Learnt, jax.Array]:
        agent, memory, scale, best, least = state
        run_key, shuffle_key = jax.random.split(key)
        steps = _episodes(run_key, agent, problem, episodes)
        genes = JobGenes(accelerator=steps.accelerator.T, priority=(steps.priority.T + 0.5) / _PRIORITIES)
        value = evaluate(genes, problem, config.objectives)[:, 0]
        first = jnp.argmin(value)
        better = value[first] < least
        best = select(better, take(genes, first), best)
        least = jnp.minimum(least, value[first])
        cost = _cost(value, problem, config.objectives[0])
        scale = jnp.where(scale > 0, scale, jnp.maximum(jnp.mean(cost), 1e-30))
        reward = -jnp.log(cost / scale + 1e-3)
        advantage, target = advantages(reward, steps.value, problem.mask, settings)
        flat = jax.tree.map(lambda x: x.reshape(count, *x.shape[2:]), (steps, advantage, target))

        def epoch(state: tuple[Agent, optax.OptState], key: jax.Array) -> tuple[tuple[Agent, optax.OptState], None]:
            place = jax.random.permutation(key, count).reshape(settings.minibatches, -1)
            return jax.lax.scan(update, state, jax.tree.map(lambda x: x[place], (*flat, weight)))

        passes = jax.random.split(shuffle_key, settings.epochs)
        (agent, memory), _ = jax.lax.scan(epoch, (agent, memory), passes)
        return _Learnt(agent, memory, scale, best, least), least

    blank = JobGenes(accelerator=problem.choices[:, 0], priority=jnp.zeros(jobs))
    state = _Learnt(agent, optimiser.init(agent), jnp.float32(0), blank, jnp.float32(jnp.inf))
    state, history = jax.lax.scan(generation, state, jax.random.split(start_key, config.generations + 1))
    return state.best, history


def learning_search(
    method: str, problem: JobProblem, config: JobSearchConfig
) -> tuple[JobGenes, list[tuple[int, float]]]:
    """Searches one problem for one objective.

    Compiles once per method, sizes and objective.

    Args:
        method: a key of `LEARNING_METHODS`.
        problem: the problem.
        config: sizes, one objective and the seed; the population is the number of episodes of a batch.

    Returns:
        Genes `[1, J]` of the best schedule, and (evaluations, best value) after every batch.
    """
    key = jax.random.key(config.seed)
    sizes = dataclasses.replace(config, seed=0)  # so that another seed does not compile another program
    best, history = _learn(key, problem, settings=LEARNING_METHODS[method], config=sizes)
    steps = [(config.population * (g + 1), float(v)) for g, v in enumerate(np.asarray(history))]
    return jax.tree.map(lambda leaf: leaf[None], best), steps
