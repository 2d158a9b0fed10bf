"""Names of formats that several readers and writers share."""

from __future__ import annotations

__all__ = ["DESIGNS_FORMAT", "DESIGN_ARRAYS_FORMAT", "SCHEDULE_FORMAT"]


DESIGNS_FORMAT = "designs/1"


SCHEDULE_FORMAT = "schedule/1"


DESIGN_ARRAYS_FORMAT = "design-arrays/1"
