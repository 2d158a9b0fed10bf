"""Folders whose place depends on the operating system."""

from __future__ import annotations

import pathlib

import platformdirs


def cache_folder(kind: str) -> pathlib.Path:
    """Returns the folder for files of one kind that are kept between runs; it need not exist yet.

    Args:
        kind: `mappings`, `compiled` or `technology`.

    Returns:
        On Linux `$XDG_CACHE_HOME/mohamjax/KIND`, by default in `~/.cache`; elsewhere the system's own place.
    """
    return platformdirs.user_cache_path("mohamjax", appauthor=False) / kind
