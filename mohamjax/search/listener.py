"""Who is told how a search goes."""

from __future__ import annotations

from typing import Protocol

from mohamjax.mapper.config import MapperProgress
from mohamjax.runtime.devices import DevicesLike, is_first
from mohamjax.search.generations import Progress


class Listener(Protocol):
    """Who wants to know how the search goes; every method may do nothing."""

    def announce(self, text: str) -> None:
        """A step begins, for instance a compile."""

    def mapping(self, progress: MapperProgress) -> None:
        """The layer mapper went on."""

    def progress(self, progress: Progress, generations: int) -> None:
        """Some generations are done, out of `generations`."""


class Silent:
    """A listener that ignores everything."""

    def announce(self, text: str) -> None:
        """Ignores it."""

    def mapping(self, progress: MapperProgress) -> None:
        """Ignores it."""

    def progress(self, progress: Progress, generations: int) -> None:
        """Ignores it."""


def heard(listener: Listener | None, devices: DevicesLike) -> Listener:
    """The listener that is told: the one given, in the process that tells (`devices.is_first`)."""
    return Silent() if listener is None or not is_first(devices) else listener
