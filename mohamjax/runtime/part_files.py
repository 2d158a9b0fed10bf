"""Files that are still being written: their names, and the removal of those that killed writers have left behind."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import re
import secrets
import time

_ABANDONED = 3600
"""Seconds after which a part may be that of a killed process; a shorter time could end a writer on another host."""

_NAME = re.compile(r"\.(?P<target>.+)\.(?P<writer>\d+)(-[0-9a-f]+)?\.tmp", re.DOTALL)


def part_of(target: pathlib.Path) -> pathlib.Path:
    """Returns a path beside a file for its content until all is written; no other call returns the same one."""
    # The process alone would not do: its threads may write the same file at once.
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def target_of(part: pathlib.Path) -> str | None:
    """Returns the name of the file that a part is of; None for a path that is no part."""
    found = _NAME.fullmatch(part.name)
    return None if found is None else found["target"]


def is_abandoned(modified: float) -> bool:
    """Returns whether a part that was last written at this time [s since 1970] may be that of a killed process."""
    return time.time() - modified > _ABANDONED


def remove_leftovers(target: pathlib.Path) -> None:
    """Removes old parts of a file, except those whose writers still run on this host; what cannot be removed stays."""
    for path in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        found = _NAME.fullmatch(path.name)
        if found is None or found["target"] != target.name:
            continue
        with contextlib.suppress(OSError):
            if is_abandoned(path.stat().st_mtime) and not _runs(int(found["writer"])):
                path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Returns whether a process of this number may run on this host."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's process, or no process number at all
        return True
    return True
