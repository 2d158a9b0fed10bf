"""Folders that the operating system names."""

from __future__ import annotations

import pathlib

import platformdirs


def cache_folder(kind: str) -> pathlib.Path:
    """Where one kind of things is kept between runs; it need not be there yet.

    Args:
        kind: `mappings`, `compiled` or `technology`.

    Returns:
        On Linux `$XDG_CACHE_HOME/mohamjax/KIND`, by default in `~/.cache`; elsewhere what the system has for it.
    """
    return platformdirs.user_cache_path("mohamjax", appauthor=False) / kind
