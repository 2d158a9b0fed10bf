"""Lower bounds on the makespan of independent jobs behind one shared bandwidth.

With the work time v of `jobs.shared_link`, the makespan is the integral of max(1, D(v) / B) = 1 + (D(v) / B - 1)+. The
first term integrates to V, the work of the longest core. The second is at least the sum over the jobs of their
*stalls* (bytes / B - duration)+, the time by which a job exceeds its duration even alone: for x, y >= 0,
(x + y - 1)+ >= (x - 1)+ + (y - 1)+, so jobs that run together never stall less than one by one. Therefore no schedule
is shorter than

- its longest job, run alone with all the bandwidth on the accelerator where it ends soonest;
- V plus all stalls, with V at least the work of every core and at least every job's duration;
- all bytes over the bandwidth.

The assignment of jobs to cores is relaxed: jobs may be cut into parts. That leaves a linear program over x[j, a] >= 0,
sum_a x[j, a] = 1: minimise T under T >= V + sum x stall, T >= sum x bytes / B, V >= sum_j x duration for every core and
V >= sum_a x duration for every job. Without stalls and the last constraint it is the usual relaxation (machine time and
bytes). Where numbers that lie too far apart keep the solver from an optimum, the relaxation gives way to what needs no
solver: all bytes, each job's at their least, over the bandwidth, beside the longest job.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mohamjax.jobs.table import JobTable, check_some_jobs


class JobBound(NamedTuple):
    """Lower bounds on the makespan [time units of the table].

    Attributes:
        longest: time of the longest job, run alone.
        assignment: bound from the relaxed assignment with machine time and bytes only; with bytes alone, each job's at
            their least, where the solver fails.
        stalls: the same with stalls, and with V at least every job's duration; never below `assignment`.
    """

    longest: float
    assignment: float
    stalls: float

    @property
    def best(self) -> float:
        """The largest of the bounds."""
        return max(self)


def _kinds(table: JobTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Duration and bytes with one column per kind of equal accelerators, and the number of accelerators of each kind.

    By symmetry, some optimal solution of the relaxation loads equal accelerators equally.
    """
    both = np.concatenate([np.asarray(table.duration, float), np.asarray(table.bytes, float)])
    _, first, inverse = np.unique(both, axis=1, return_index=True, return_inverse=True)
    count = np.bincount(np.ravel(inverse), minlength=len(first))
    return table.duration[:, first], table.bytes[:, first], count.astype(float)


def _relaxed(work: np.ndarray, carried: np.ndarray, count: np.ndarray, with_stalls: bool) -> float:
    """The linear program's bound, from its dual prices, so that the solver's tolerance cannot make it too high.

    Where the solver fails (as it may on numbers that lie too far apart), the sum of each job's least `carried`.

    Args:
        work: `[N, A]` durations, +inf where a job cannot run.
        carried: `[N, A]` bytes / B.
        count: `[A]` number of accelerators of each kind.
        with_stalls: whether stalls and the constraint of V by every job's duration are included.
    """
    from scipy import optimize, sparse

    jobs, kinds = work.shape
    job, kind = np.nonzero(np.isfinite(work))
    length, bytes_time = work[job, kind], carried[job, kind]
    stall = np.maximum(bytes_time - length, 0.0) * with_stalls
    parts = np.arange(len(job))
    # Columns: the parts, V, T. Rows: the kinds' work, the jobs' durations, V + stalls, bytes.
    rows = [sparse.csr_array((length / count[kind], (kind, parts)), shape=(kinds, len(job)))]
    if with_stalls:
        rows.append(sparse.csr_array((length, (job, parts)), shape=(jobs, len(job))))
    rows += [sparse.csr_array(stall[None, :]), sparse.csr_array(bytes_time[None, :])]
    under = sparse.vstack(rows).tocsr()
    lines = kinds + jobs * with_stalls + 2
    above = np.zeros((lines, 2))
    above[:-2, 0] = -1.0
    above[-2] = 1.0, -1.0
    above[-1] = 0.0, -1.0
    whole = sparse.csr_array((np.ones(len(job)), (job, parts)), shape=(jobs, len(job) + 2))
    cost = np.zeros(len(job) + 2)
    cost[-1] = 1.0
    found = optimize.linprog(
        cost,
        A_ub=sparse.hstack([under, sparse.csr_array(above)]).tocsr(),
        b_ub=np.zeros(lines),
        A_eq=whole,
        b_eq=np.ones(jobs),
        method="highs",
    )
    if found.status != 0:
        return float(np.where(np.isfinite(work), carried, np.inf).min(axis=1).sum())
    # Dual prices >= 0 of the rows: the last two add up to 1, the others to the price of row V + stalls. Any such prices
    # give a bound: every part costs at least as much as its job's cheapest part.
    price = np.maximum(-found.ineqlin.marginals, 0.0)
    price[-2:] /= price[-2:].sum()
    total = price[:-2].sum()
    price[:-2] = price[:-2] * (price[-2] / total) if total > 0 else price[-2] / len(price[:-2])
    each = np.full(work.shape, np.inf)
    each[job, kind] = under.T @ price
    return float(each.min(axis=1).sum())


def job_bound(table: JobTable) -> JobBound:
    """Bounds for a table whose accelerators all share its only resource (which `job_problem.job_problem` checks).

    Args:
        table: N >= 1 jobs, each of which can run on some accelerator.

    Raises:
        InputError: there are no jobs.
    """
    check_some_jobs(table)
    duration, traffic, count = _kinds(table)
    carried = np.where(np.isfinite(duration), traffic, 0.0) / table.bandwidth[0]
    longest = float(np.maximum(duration, carried).min(axis=1).max())
    if longest == 0:
        return JobBound(0.0, 0.0, 0.0)
    # Scaled by the longest job to suit the solver's absolute tolerances.
    assignment, stalls = (
        _relaxed(duration / longest, carried / longest, count, with_stalls) * longest for with_stalls in (False, True)
    )
    return JobBound(longest, assignment, max(assignment, stalls))
