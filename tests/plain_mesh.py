"""Mesh contention in its most readable form: every link of the mesh is a resource, simulated event by event.

NumPy in double precision. It shares only the rule with the package and does not leave out links that cannot bind.
"""

import math

import numpy as np


def links(chip: int, chiplets: int, interface: tuple[int, int]) -> list[frozenset]:
    """Links that data cross between an interface beside the mesh and a chiplet, along the row first."""
    columns = math.ceil(math.sqrt(chiplets))
    goal = chip % columns, chip // columns
    here = (0 if interface[0] < 0 else columns - 1, interface[1])  # the interface's own router
    passed = []
    for axis in (0, 1):
        while here[axis] != goal[axis]:
            there = list(here)
            there[axis] += 1 if goal[axis] > here[axis] else -1
            passed.append(frozenset((here, tuple(there))))
            here = tuple(there)
    return passed


def ends(duration, traffic, predecessors, chip_of, order, uses, bandwidth) -> np.ndarray:
    """End of every job, `[J]`.

    Args:
        duration: `[J]`.
        traffic: `[J]` bytes.
        predecessors: list of job numbers for each job.
        chip_of: `[J]`.
        order: all jobs, highest priority first.
        uses: `[A, R]` bool, whether traffic of a chiplet crosses a resource.
        bandwidth: `[R]`.
    """
    duration, traffic = np.asarray(duration, np.float64), np.asarray(traffic, np.float64)
    left, end, now = duration.copy(), np.full(len(duration), np.nan), 0.0
    passes = np.asarray(uses, np.float64)[chip_of]
    while np.isnan(end).any():
        busy, running = set(), np.zeros(len(duration))
        for job in order:
            if np.isnan(end[job]) and chip_of[job] not in busy:
                busy.add(chip_of[job])
                running[job] = not np.isnan(end[predecessors[job]]).any()
        wish = running * traffic / duration
        with np.errstate(divide="ignore"):
            grant = np.minimum(1, bandwidth / (wish @ passes))
        rate = np.where(passes > 0, grant, 1).min(axis=1)
        finish = np.where(running > 0, left / rate, np.inf)
        step = finish.min()
        now += step
        left -= running * rate * step
        end[finish <= step * (1 + 1e-13)] = now
    return end
