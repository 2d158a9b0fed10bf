"""What the users of the networks get: latency per network, lateness against deadlines, weighted latency.

A network's latency is the end of its last layer; its lateness is its latency minus its deadline. A network without a
deadline is never late. Axes: L layers (padded), N networks.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.runtime.struct import record
from mohamjax.workload import ApplicationModel


@record
class Tenants:
    """What the users of the networks ask for.

    Attributes:
        deadline: `[N]` float, s; +inf for none.
        weight: `[N]` float, importance; the weights add up to 1.
    """

    deadline: jax.Array
    weight: jax.Array


@record
class TenantReport:
    """What the users get from one design; times are infinite where its schedule cannot run.

    Attributes:
        latency: `[N]` float, s until the last layer of each network has ended.
        raised_lateness: `[]` float, s, the worst lateness plus the longest deadline, which is above zero; -inf where no
            network has a deadline. It is as exact as a latency where all deadlines are alike. A network with a much
            shorter deadline than the longest loses the digits that the difference of the two takes.
        worst_lateness: `[]` float, s, the largest lateness, negative where all networks are early; -inf where no
            network has a deadline.
        missed: `[]` int32, number of networks that end after their deadline.
        weighted_latency: `[]` float, s, weighted mean of the latencies.
    """

    latency: jax.Array
    raised_lateness: jax.Array
    worst_lateness: jax.Array
    missed: jax.Array
    weighted_latency: jax.Array


def tenants_of(application: ApplicationModel, dtype: jax.typing.DTypeLike = jnp.float32) -> Tenants | None:
    """The demands of an application model's users; None where no network has a deadline, a rate or a weight."""
    networks = application.networks
    if not any(network.asked for network in networks):
        return None
    weight = np.asarray([n.weight for n in networks], np.float64)
    demands = np.asarray([n.deadline_s for n in networks], dtype), np.asarray(weight / weight.sum(), dtype)
    deadline, weight = jax.device_put(demands)
    return Tenants(deadline=deadline, weight=weight)


def tenant_report(end: jax.Array, network: jax.Array, tenants: Tenants) -> TenantReport:
    """What the users get from a schedule; pure and traceable.

    Args:
        end: `[L]` float, s, end of every layer.
        network: `[L]` int32, network of each layer, -1 where padded.
        tenants: what they ask for.
    """
    count = tenants.deadline.shape[0]
    own = network[None, :] == jnp.arange(count, dtype=network.dtype)[:, None]
    latency = jnp.max(jnp.where(own, end[None, :], 0.0), axis=1)
    late = latency - tenants.deadline
    asked = jnp.isfinite(tenants.deadline)
    shorter = jnp.max(jnp.where(asked, tenants.deadline, 0)) - jnp.where(asked, tenants.deadline, 0)
    return TenantReport(
        latency=latency,
        raised_lateness=jnp.max(jnp.where(asked, latency + shorter, -jnp.inf)),
        worst_lateness=jnp.max(jnp.where(asked, late, -jnp.inf)),
        missed=jnp.sum(late > 0).astype(jnp.int32),
        weighted_latency=jnp.sum(tenants.weight * latency),
    )


def tenant_excess(report: TenantReport, tenants: Tenants, limits: jax.Array, tolerance: float) -> jax.Array:
    """By how much limits on tenants are exceeded, `[3]` float >= 0: logarithms of factors, smooth in the latencies.

    Args:
        report: what the users get.
        tenants: what they ask for.
        limits: `[3]` float, most lateness [s], missed deadlines and weighted latency [s] allowed; inf where unlimited.
        tolerance: logarithm of the factor that does not yet count as an excess.

    Returns:
        The factor by which the latest network exceeds its deadline plus the allowed lateness; the factors by which
        networks exceed their deadlines, summed without the largest, which may be missed; that of the weighted latency.
    """

    def beyond(value: jax.Array, limit: jax.Array) -> jax.Array:
        """Logarithm of a value in units of its limit; -inf without a limit, also where the value is infinite."""
        limited = jnp.isfinite(limit)
        return jnp.where(limited, jnp.log(value / jnp.where(limited, limit, 1.0)), -jnp.inf)

    latest = jnp.max(beyond(report.latency, tenants.deadline + limits[0]))
    over = jnp.sort(jnp.maximum(beyond(report.latency, tenants.deadline) - tolerance, 0.0))[::-1]
    missed = jnp.sum(jnp.where(jnp.arange(over.shape[0]) >= limits[1], over, 0.0))
    weighted = beyond(report.weighted_latency, limits[2])
    return jnp.stack([jnp.maximum(latest - tolerance, 0.0), missed, jnp.maximum(weighted - tolerance, 0.0)])
