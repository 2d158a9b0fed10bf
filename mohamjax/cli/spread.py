"""Options for devices and processes: which devices a verb runs on, and which process prints."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from mohamjax.cli import options
from mohamjax.cli.interrupts import leave_at_once
from mohamjax.cli.options import refuse
from mohamjax.cli.terminal import hush
from mohamjax.errors import InputError

if TYPE_CHECKING:
    from mohamjax.runtime.devices import Devices

T = TypeVar("T")


def _devices(text: str) -> int | str:
    """Parses `N` or `all`."""
    if text == "all":
        return text
    try:
        return options.positive(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a positive integer nor `all`") from None


_PATIENCE_S = 300.0


def add_devices(parser: options.Arguments, what: str, *, processes: bool = False) -> None:
    """Adds `--devices`; `what` says what is spread over them, `processes` whether the verb has --coordinator."""
    parser.add_argument(
        "--devices",
        type=_devices,
        metavar="N|all",
        help=f"{what} over this many devices (default 1{'; with --coordinator all' if processes else ''})",
    )


def add_processes(parser: options.Arguments) -> None:
    """Adds the options that make this process one of several."""
    parser.add_argument(
        "--coordinator",
        metavar="HOST:PORT|auto",
        help="be one of several processes that search together, on one host or many, all started with the same "
        "arguments: address of the first one, or auto for what SLURM, Open MPI or Kubernetes say",
    )
    parser.add_argument("--processes", type=options.positive, metavar="N", help="with an address: how many there are")
    parser.add_argument(
        "--process", type=options.natural, metavar="I", help="with an address: which one this is, from 0"
    )
    parser.add_argument(
        "--coordinator-timeout",
        type=options.seconds,
        metavar="SECONDS",
        help="how long the processes wait for each other at the start (default 300)",
    )


def devices_of(arguments: argparse.Namespace) -> Devices | None:
    """Returns the devices that `--devices` asks for; None without it.

    Raises:
        InputError: there are fewer devices.
    """
    if arguments.devices is None:
        return None
    from mohamjax.runtime.devices import chosen_devices

    return chosen_devices(arguments.devices)


@contextlib.contextmanager
def joined(arguments: argparse.Namespace) -> Iterator[Devices | None]:
    """Yields the devices that the options ask for, of all processes; all processes but the first are quiet.

    Raises:
        InputError: there are fewer devices, or the processes cannot connect.
    """
    if arguments.coordinator is None:
        given = {name: getattr(arguments, name) is not None for name in ("processes", "process", "coordinator_timeout")}
        refuse("is for several processes", "add --coordinator, or leave it out", **given)
        yield devices_of(arguments)
        return
    import jax
    from jax.experimental import multihost_utils

    from mohamjax.runtime.devices import chosen_devices, join

    hush(bool(arguments.process))
    leave_at_once()
    with _silenced():
        join(
            arguments.coordinator, arguments.processes, arguments.process, arguments.coordinator_timeout or _PATIENCE_S
        )
        multihost_utils.sync_global_devices("joined")
    hush(jax.process_index() > 0)
    try:
        yield chosen_devices("all" if arguments.devices is None else arguments.devices)
    except InputError as error:
        if getattr(error, "is_shared", False):
            jax.distributed.shutdown()  # all processes have this error and wait for each other
        raise
    jax.distributed.shutdown()


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Discards standard output, at the file descriptor: native libraries that connect processes print there."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def held(devices: Devices | None, hold: Callable[[], contextlib.AbstractContextManager[T]]) -> Iterator[T | None]:
    """Yields what the first process holds, such as a locked folder; None in the others, which fail if it fails."""
    with contextlib.ExitStack() as stack:
        kept = None

        def enter() -> None:
            nonlocal kept
            kept = stack.enter_context(hold())

        if devices is None:
            enter()
        else:
            devices.from_first(enter)
        yield kept
