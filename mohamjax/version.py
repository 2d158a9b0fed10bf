"""The version of the package, and when this process began to import it."""

from __future__ import annotations

import time

__version__ = "0.1.0"

STARTED = time.time()
"""When this process began to import the package, in seconds since the epoch; it does not run later changes."""
