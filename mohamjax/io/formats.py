"""Names of formats that several readers and writers share."""

from __future__ import annotations

__all__ = ["DESIGNS_FORMAT", "SCHEDULE_FORMAT"]


DESIGNS_FORMAT = "designs/1"


SCHEDULE_FORMAT = "schedule/1"
