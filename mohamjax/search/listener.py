"""The listener that a search tells about its progress."""

from __future__ import annotations

from typing import Protocol

from mohamjax.mapper.config import MapperProgress
from mohamjax.runtime.devices import DevicesLike, is_first
from mohamjax.search.generations import Progress


class Listener(Protocol):
    """Follows a search; every method may do nothing."""

    def announce(self, text: str) -> None:
        """Called when a step begins, for instance a compile."""

    def mapping(self, progress: MapperProgress) -> None:
        """Called when the layer mapper has made progress."""

    def progress(self, progress: Progress, generations: int) -> None:
        """Called when some generations, of `generations` in all, are done."""


class Silent:
    """A listener that ignores everything."""

    def announce(self, text: str) -> None:
        """Ignores it."""

    def mapping(self, progress: MapperProgress) -> None:
        """Ignores it."""

    def progress(self, progress: Progress, generations: int) -> None:
        """Ignores it."""


def heard(listener: Listener | None, devices: DevicesLike) -> Listener:
    """The given listener in the first process (`devices.is_first`), else a silent one."""
    return Silent() if listener is None or not is_first(devices) else listener
