"""Several devices and several processes: choosing them, spreading arrays over them, and the tasks of the first process.

It uses JAX's own means: a mesh of one axis, `jax.shard_map` over it, `jax.distributed` for processes on several hosts.
All processes run the same program with the same arguments. The first process does all that depends on files and clocks,
and sends the results to the others.
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mohamjax.errors import Argument, InputError
from mohamjax.runtime.platforms import Options

if TYPE_CHECKING:
    from jax.stages import Wrapped as JitWrapped

_LONGEST_S = 1e6  # longest time to wait for other processes

AXIS = "devices"
"""The mesh's only axis."""

T = TypeVar("T")
Tree = TypeVar("Tree")


class Device(Protocol):
    """The attributes used of a `jax.Device`, which is a variable to type checkers."""

    @property
    def process_index(self) -> int:
        """Number of the process that has the device."""
        ...

    @property
    def device_kind(self) -> str:
        """Kind of the device, for messages."""
        ...


_SPLIT, _COPIED = PartitionSpec(AXIS), PartitionSpec()


@dataclasses.dataclass(frozen=True)
class Devices:
    """Devices that share one computation.

    Attributes:
        ring: the devices, each followed by its neighbour.
    """

    ring: tuple[Device, ...]

    def __len__(self) -> int:
        """Number of devices, including those of other processes."""
        return len(self.ring)

    @functools.cached_property
    def mesh(self) -> Mesh:
        """The devices as a mesh with the axis `AXIS`."""
        return Mesh(np.asarray(self.ring), (AXIS,))

    @property
    def several_processes(self) -> bool:
        """Whether there are several processes, which then all have some of the devices."""
        return jax.process_count() > 1

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, which reads, writes and prints for all."""
        return jax.process_index() == 0

    @functools.cached_property
    def own(self) -> Devices | None:
        """The devices of this process; None if there are none, or only JAX's default device."""
        mine = tuple(device for device in self.ring if device.process_index == jax.process_index())
        return None if mine in ((), (jax.local_devices()[0],)) else Devices(mine)

    def split(self, tree: T) -> T:
        """A pytree of arrays, spread along their leading axis, which the number of devices divides.

        Arrays that are spread already stay where they are. With several processes, each passes equal, whole arrays.
        """
        return self._put(tree, NamedSharding(self.mesh, _SPLIT))

    def copied(self, tree: T) -> T:
        """A pytree of arrays, whole on every device; arrays that are there already stay."""
        return self._put(tree, NamedSharding(self.mesh, _COPIED))

    def _put(self, tree: T, where: NamedSharding) -> T:
        if not self.several_processes:
            return jax.device_put(tree, where)

        def put(leaf: jax.Array | np.ndarray) -> jax.Array:
            if isinstance(leaf, jax.Array) and leaf.sharding == where:
                return leaf
            if is_key(leaf):
                return jax.random.wrap_key_data(put(jax.random.key_data(leaf)))
            own = np.asarray(leaf)
            return jax.make_array_from_callback(own.shape, where, lambda index: own[index])

        return jax.tree.map(put, tree)

    def whole(self, tree: T) -> T:
        """A pytree of spread arrays, whole in this process: NumPy arrays, and typed keys on its first device.

        With several processes, all must call it.
        """
        leaves, structure = jax.tree.flatten(tree)
        keys = [is_key(leaf) for leaf in leaves]
        plain = [jax.random.key_data(leaf) if key else leaf for leaf, key in zip(leaves, keys, strict=True)]
        if self.several_processes:
            plain = [leaf.addressable_data(0) for leaf in _everywhere(plain, mesh=self.mesh)]
        own = jax.device_get(plain)
        found = [jax.random.wrap_key_data(leaf) if key else leaf for leaf, key in zip(own, keys, strict=True)]
        return jax.tree.unflatten(structure, found)

    def from_first(self, make: Callable[[], T]) -> T:
        """The result of `make` in the first process, returned in all processes; only the first calls it.

        Args:
            make: returns anything that can be pickled. Its `InputError` is raised in all processes: as `SharedError` in
                the first, as `ToldError` in the others.
        """
        if not self.several_processes:
            return make()
        sent: bytes = b""
        found, error = None, None
        if self.is_first:
            try:
                found = make()
            except InputError as raised:
                error = raised
            sent = pickle.dumps((found, None if error is None else _parts(error)))
        size = int(multihost_utils.broadcast_one_to_all(np.int32(len(sent))))
        own = np.frombuffer(sent, np.uint8) if self.is_first else np.zeros(size, np.uint8)
        heard = np.asarray(multihost_utils.broadcast_one_to_all(own)).astype(np.uint8)
        if self.is_first:
            if error is not None:
                raise SharedError(**_parts(error))
            return found  # pyright: ignore[reportReturnType]
        found, parts = pickle.loads(heard.tobytes())
        if parts is not None:
            raise ToldError(**parts)
        return found

    def in_all(self, make: Callable[[], T]) -> T:
        """The result of `make` in this process, once it has succeeded in all.

        Args:
            make: may need files that a host lacks. If it raises an `InputError` in some process, all processes raise
                one: `SharedError` in the first that failed, `ToldError` in the others.
        """
        if not self.several_processes:
            return make()
        found, error = None, None
        try:
            found = make()
        except InputError as raised:
            error = raised
        wrong = np.flatnonzero(np.asarray(multihost_utils.process_allgather(np.int32(error is not None))))
        if error is not None:
            raise (SharedError if jax.process_index() == wrong[0] else ToldError)(**_parts(error))
        if wrong.size:
            raise ToldError(f"process {wrong[0]} has failed")
        return found  # pyright: ignore[reportReturnType]

    def over(self, function: Callable[..., T]) -> Callable[..., T]:
        """`over_devices` of a function, for N divisible by the number of devices; arrays may lie anywhere.

        Args:
            function: `(rows, *rest) -> rows`, with rows `[N, ...]`.
        """
        return _over(function, self.mesh)

    def compiled(
        self, function: Callable[..., T], rows: object, rest: Sequence[object], options: Options | None = None
    ) -> Callable[..., T]:
        """`over` of a function, compiled for arguments of given shapes, which `split` and `copied` must have placed.

        Args:
            function: `(rows, *rest) -> rows`.
            rows: arrays or their shapes, placed by `split`.
            rest: arrays or their shapes, placed by `copied`.
            options: options of the compiler.
        """

        def placed(tree: Tree, spec: PartitionSpec) -> Tree:
            where = NamedSharding(self.mesh, spec)
            shapes = jax.tree.map(jax.typeof, tree)
            return jax.tree.map(lambda own: jax.ShapeDtypeStruct(own.shape, own.dtype, sharding=where), shapes)

        spread = _over.__wrapped__(function, self.mesh)
        return spread.lower(placed(rows, _SPLIT), *placed(rest, _COPIED)).compile(compiler_options=options)


class SharedError(InputError):
    """An error that all processes know of and end with."""

    is_shared = True


class ToldError(SharedError):
    """An error that another process has reported already."""

    is_told = True


class _Parts(TypedDict):
    """The parts of an `InputError`."""

    message: str
    file: str | None
    item: str | None
    argument: Argument | None
    remedy: str | None


def _parts(error: InputError) -> _Parts:
    return {
        "message": error.message,
        "file": error.file,
        "item": error.item,
        "argument": error.argument,
        "remedy": error.remedy,
    }


def is_key(leaf: object) -> bool:
    """Whether a leaf is an array of typed keys."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


@functools.partial(jax.jit, static_argnames="mesh")
def _everywhere(leaves: list[jax.Array], *, mesh: Mesh) -> list[jax.Array]:
    return jax.lax.with_sharding_constraint(leaves, NamedSharding(mesh, _COPIED))


@functools.lru_cache(maxsize=32)
def _over(function: Callable[..., T], mesh: Mesh) -> JitWrapped:
    @jax.jit
    def spread(rows: object, *rest: object) -> T:
        specs = (_SPLIT, *[_COPIED] * len(rest))
        # Every row is computed by itself, so the check could not find anything.
        mapped = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=_SPLIT, check_vma=False)
        return mapped(rows, *rest)

    return spread


def gathered(tree: T, devices: Devices | None) -> T:
    """A pytree of arrays, whole in this process (`Devices.whole`); unchanged if `devices` is None."""
    return tree if devices is None else devices.whole(tree)


def agreed(make: Callable[[], T], devices: Devices | None) -> T:
    """The result of `make`, the same in all processes (`Devices.from_first`); called here if `devices` is None."""
    return make() if devices is None else devices.from_first(make)


DevicesLike = int | str | Sequence[Device] | Devices | None
"""A choice of devices: a number of them, `all`, a list, or None for JAX's default device."""


def chosen_devices(devices: DevicesLike) -> Devices | None:
    """The devices that an argument `devices` means; None for JAX's default device alone.

    Args:
        devices: a number of devices, `all` for all that JAX knows, or a list of them. With several processes
            (`jax.distributed`) these are the devices of all processes, and every process must have some of them.

    Raises:
        InputError: there are not so many devices, a process has none of them, or the argument has no meaning.
    """
    if devices is None or isinstance(devices, Devices):
        return devices
    known = jax.devices()
    ring: tuple[Device, ...]
    name = Argument("devices", value=devices if isinstance(devices, int | str) else None)
    if devices == "all":
        ring = tuple(known)
    elif isinstance(devices, int) and not isinstance(devices, bool) and devices >= 1:
        if devices > len(known):
            there = "is 1 device" if len(known) == 1 else f"are {len(known)} devices"
            raise InputError(
                f"there {there} of kind {known[0].device_kind}",
                argument=name,
                remedy=f"ask for {len(known)} at most, or make a processor show more: "
                f"the flag xla_force_host_platform_device_count={devices} in XLA_FLAGS",
            )
        ring = tuple(known[:devices])
    elif isinstance(devices, Sequence) and not isinstance(devices, str) and _are_devices(devices):
        ring = tuple(devices)
        if len(set(ring)) < len(ring):
            raise InputError("names a device twice", argument=name, remedy="name each once")
    else:
        raise InputError("does not name devices", argument=name, remedy="give a number from 1, or `all`")
    if jax.process_count() > 1 and {one.process_index for one in ring} != set(range(jax.process_count())):
        raise InputError(
            f"{len(ring)} devices are not of all {jax.process_count()} processes",
            argument=name,
            remedy="use `all`",
        )
    return None if ring == (known[0],) else Devices(ring)


def _are_devices(given: Sequence[object]) -> bool:
    """Whether there is at least one entry, and all are devices of JAX."""
    return bool(given) and all(isinstance(one, jax.Device) for one in given)


def over_devices(function: Callable[..., T], devices: DevicesLike = "all") -> Callable[..., T]:
    """A function of a batch, jitted and spread over devices; each computes its part of the rows, without communication.

    Args:
        function: `(rows, *rest) -> rows`, pure: from a pytree with leading axis `[N]`, and all else that it reads, to
            another with that axis, row by row. For instance `jax.vmap(mj.evaluate, (0, None))`.
        devices: a number of devices, `all` or a list.

    Returns:
        A function of the same arguments. If N does not divide by the number of devices, copies of the last row fill up.
        It compiles once per shapes, as `jax.jit`. Its result lies on the devices; `jax.device_get` fetches it if one
        process has all of them.

    Raises:
        InputError: there are not so many devices.

    Examples:
        >>> evaluate = mj.over_devices(jax.vmap(mj.evaluate, (0, None)), devices="all")
        >>> evaluate(designs, space).shape
        (64, 3)
    """
    chosen = chosen_devices(devices)
    if chosen is None:
        return jax.jit(function)
    spread, count = chosen.over(function), len(chosen)

    def filled(rows: object, *rest: object) -> T:
        total = jax.tree.leaves(rows)[0].shape[0]
        more = -total % count
        if not more:
            return spread(rows, *rest)
        index = np.minimum(np.arange(total + more), total - 1)
        found = spread(jax.tree.map(lambda leaf: leaf[index], rows), *rest)
        return jax.tree.map(lambda leaf: leaf[:total], found)

    return filled


def join(coordinator: str, processes: int | None = None, process: int | None = None, wait_s: float = 300.0) -> None:
    """Makes this process one of several (`jax.distributed.initialize`); call it before anything else that uses JAX.

    Args:
        coordinator: `host:port` of the first process, or `auto` if JAX can find it by itself (SLURM, Open MPI,
            Kubernetes, TPU pods).
        processes: number of processes; not with `auto`.
        process: number of this process, from 0; not with `auto`.
        wait_s: seconds to wait for the others.

    Raises:
        InputError: the arguments do not fit each other, no cluster is found, or the others do not answer in time; the
            process should then end.
    """
    initialize = jax.distributed.initialize
    if coordinator != "auto":
        initialize = functools.partial(initialize, **_address(coordinator, processes, process))
    elif (processes, process) != (None, None):
        raise InputError(
            "is set by the cluster",
            argument="processes" if processes is not None else "process",
            remedy="leave it out, or give the address of the first process",
        )
    wait_s = min(wait_s, _LONGEST_S)
    outcome: list[Exception | None] = []

    def initialise() -> None:
        try:
            # At its own timeout JAX ends the process with a stack trace, so our timeout must come first.
            initialize(initialization_timeout=round(wait_s) + 3600)
            outcome.append(None)
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=initialise, daemon=True)
    thread.start()
    thread.join(wait_s)
    if not outcome:
        whom = "the other processes" if process == 0 else f"the first process, {coordinator},"
        raise InputError(
            f"{whom if coordinator != 'auto' else 'the other processes'} did not answer within {wait_s:g} s",
            argument="coordinator",
            remedy="start all processes at about the same time, with one address that all can reach",
        )
    if outcome[0] is not None:
        told = str(outcome[0]).strip().splitlines() or [type(outcome[0]).__name__]
        raise InputError(
            f"JAX cannot bring the processes together: {told[0].rstrip('.')}",
            argument="coordinator",
            remedy="give address and port of the first process, and the arguments `processes` and `process`",
        ) from None


class _Address(TypedDict):
    """Arguments of `jax.distributed.initialize`."""

    coordinator_address: str
    num_processes: int
    process_id: int


def _address(coordinator: str, processes: int | None, process: int | None) -> _Address:
    """Arguments that tell a process where to find the others; InputError if they are not valid."""
    host, _, port = coordinator.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise InputError(f"{coordinator!r} is no address", argument="coordinator", remedy="give HOST:PORT, or `auto`")
    if processes is None or process is None:
        name = "processes" if processes is None else "process"
        raise InputError(
            "is missing",
            argument=name,
            remedy="with an address, give both the argument `processes` and the argument `process`",
        )
    if not 0 <= process < processes:
        raise InputError(
            f"is {process} of {processes} processes",
            argument="process",
            remedy=f"count from 0 to {processes - 1}",
        )
    return {"coordinator_address": coordinator, "num_processes": processes, "process_id": process}


def is_first(devices: DevicesLike) -> bool:
    """Whether this process is the only one, or the first of several, which prints and writes."""
    spread = chosen_devices(devices)
    return spread is None or spread.is_first
