"""Generations on several devices: islands are divided among the devices; a single island is evaluated by all of them.

Islands are computed independently: only migrants, which go round the ring, pass between devices. Of a single island,
every device has a copy and breeds and selects by itself; each evaluates a part of the candidates, and all share the
objectives. So the result is that of one device, up to rounding where programs are compiled for other shapes.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec

from mohamjax.emo.loop import Course, Metrics, SearchState, Spread, generations
from mohamjax.errors import InputError
from mohamjax.runtime.devices import AXIS, Devices
from mohamjax.runtime.programs import jit_o1_plain_loops


def check_islands(devices: Devices | None, islands: int) -> None:
    """Checks that islands can be divided equally among devices.

    Args:
        devices: the devices, or None.
        islands: number of islands; a single one is always accepted.

    Raises:
        InputError: the number of devices does not divide that of the islands.
    """
    if devices is not None and islands > 1 and islands % len(devices):
        good = -(-islands // len(devices)) * len(devices)
        raise InputError(
            f"{islands} islands cannot be divided equally among {len(devices)} devices",
            argument="devices",
            remedy=f"take {good} islands, or a number of devices that divides them",
        )


class SpreadGenerations:
    """`loop.generations` on several devices, with the same call.

    States may lie anywhere; those that it returns lie on the devices (`Devices.whole` fetches them).
    """

    def __init__(self, devices: Devices, islands: int, *, light: bool) -> None:
        """Chooses the program.

        Args:
            devices: where it runs.
            islands: of the search.
            light: compile it as `loop.light_generations`.
        """
        self._devices, self._split = devices, islands > 1
        self._program = spread_program(devices.mesh, self._split, light)
        self._space: tuple[Any, Any] = None, None

    def __call__(
        self, state: SearchState, space: Any, rates: Any, count: Any, counted: Any = True, *, course: Course
    ) -> tuple[SearchState, Metrics]:
        """As `loop.generations`."""
        state = self._devices.split(state) if self._split else self._devices.copied(state)
        if space is not self._space[0]:
            self._space = space, self._devices.copied(space)
        rest = self._devices.copied((rates, count, counted))
        return self._program(state, self._space[1], *rest, course=course)


@functools.cache
def spread_program(mesh: Mesh, islands: bool, light: bool) -> Any:
    """`loop.generations` under `jax.shard_map`, jitted.

    Args:
        mesh: with the axis `devices.AXIS`.
        islands: whether the state is split along its leading axis; else every device has a copy.
        light: compile it as `loop.light_generations`.
    """
    spread = Spread(axis=AXIS, devices=mesh.size, islands=islands)
    state, whole = PartitionSpec(AXIS) if islands else PartitionSpec(), PartitionSpec()
    record = PartitionSpec(None, AXIS) if islands else whole

    def over(
        state_: SearchState, space: Any, rates: Any, count: Any, counted: Any, *, course: Course
    ) -> tuple[SearchState, Metrics]:
        mapped = jax.shard_map(
            functools.partial(inspect.unwrap(generations), course=dataclasses.replace(course, spread=spread)),
            mesh=mesh,
            in_specs=(state, whole, whole, whole, whole),
            out_specs=(state, record),
            # Copies stay equal as all devices compute them alike, which the check cannot see.
            check_vma=False,
        )
        return mapped(state_, space, rates, count, counted)

    jit = jit_o1_plain_loops if light else jax.jit
    return jit(over, static_argnames=("course",))
