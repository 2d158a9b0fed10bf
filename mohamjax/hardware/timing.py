"""Whether memories keep up with the clock."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mohamjax.hardware.technology import Technology, sram_times
from mohamjax.hardware.template import Template

CLOCK_NS = 1.0
"""Nanoseconds of a cycle: every template runs at 1 GHz (MOHaM, Table 4)."""

SlowBuffer = tuple[str, str, int, int, float, float]
"""Template, level, rows, width [bits], access and cycle time [ns]."""


def slow_buffers(templates: Sequence[Template], technology: Technology, clock_ns: float = CLOCK_NS) -> list[SlowBuffer]:
    """The SRAMs that are slower than the clock at their largest sizes.

    The cost model assumes one access per cycle and does not slow down for these.

    Args:
        templates: templates whose levels are checked.
        technology: gives access and cycle times.
        clock_ns: length of a clock cycle [ns].

    Returns:
        SRAMs whose access or cycle time is longer than a clock cycle; empty if the technology has no times.
    """
    found = []
    for template in templates:
        for level in template.levels:
            if level.component.cls != "sram" or level.capacity_words is None:
                continue
            rows, width = math.ceil(level.capacity_words / level.block_words), level.block_words * level.word_bits
            access, cycle = (float(x) for x in sram_times(technology, rows, width, level.component.ports))
            if np.nanmax([access, cycle, 0.0]) > clock_ns:
                found.append((template.name, level.name, rows, width, access, cycle))
    return found
