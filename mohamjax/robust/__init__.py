"""Packages for several application models at once, and what their robustness costs."""

from mohamjax.robust.reschedule import Packages, Served, reschedule
from mohamjax.robust.robust_search import (
    NominalFront,
    Rescheduler,
    RobustFront,
    RobustResult,
    RobustSearch,
    check_robust,
)

__all__ = [
    "NominalFront",
    "Packages",
    "Rescheduler",
    "RobustFront",
    "RobustResult",
    "RobustSearch",
    "Served",
    "check_robust",
    "reschedule",
]
