"""One mapping per layer by constrained optimisation, in the manner of CoSA: a mixed-integer program over prime factors.

CoSA (Huang et al., ISCA 2021) deals the prime factors of a layer's bounds to levels, in time or in space, so that a
weighted sum of logarithms is least: 10 x compute + traffic - 0.1 x utilisation, with the weights of its code. Here it
takes any template and is solved by HiGHS (`scipy.optimize.milp`).

- *Variables*: how many copies of a prime of a dimension go to a slot. Copies are alike, so integers replace CoSA's
  binaries. At each level with a free order above the inner buffers, one of the data spaces may be stationary: the loops
  that do not move it are the innermost ones there.
- *Constraints*: every copy has a slot; a template's limits; fanouts; capacities, which the data spaces that a level
  stores share equally (CoSA's code gives inputs a quarter of its global buffer and outputs the rest). A tile of inputs
  is counted as stride x dilation x P x R (and Q, S), which is never too little.
- *Compute* is the logarithm of all temporal loops. *Utilisation* is that of all tiles in on-chip levels. *Traffic* of a
  data space is .99 of that of its tile below the outermost on-chip level, .99 of that of this level's spatial loops,
  and that of the temporal loops of this level and of the off-chip memory, except inner loops that leave it stationary.
  Nothing is stationary there while a loop moves it that is outside the level which holds it on the chip. (CoSA's code
  counts all off-chip loops.)

The mapping is legal. Our model evaluates it, because the program's own objective gives no cycles or joules.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from mohamjax.dims import DATA_SPACES, RELEVANCE, P, Q, R, S
from mohamjax.errors import InputError
from mohamjax.mapping.space import MappingGenes, MapSpace


@dataclasses.dataclass(frozen=True)
class CosaConfig:
    """Weights and limits of the program.

    Attributes:
        compute: weight of the compute term.
        traffic: weight of the traffic term.
        utilisation: weight of the utilisation of buffers, which is maximised.
        seconds: longest time of HiGHS for a layer [s]; the best solution so far is then taken.
        gap: relative gap to the bound at which HiGHS stops.
    """

    compute: float = 10.0
    traffic: float = 1.0
    utilisation: float = 0.1
    seconds: float = 20.0
    gap: float = 1e-3


_OUT_OF_TIME, _INFEASIBLE = 1, 2  # values of `status` of `scipy.optimize.milp`


@dataclasses.dataclass
class _Program:
    """A mixed-integer program in the making: minimise c x under rows low <= A x <= high."""

    cost: list[float] = dataclasses.field(default_factory=list)
    most: list[float] = dataclasses.field(default_factory=list)
    whole: list[int] = dataclasses.field(default_factory=list)
    rows: list[tuple[dict[int, float], float, float]] = dataclasses.field(default_factory=list)

    def variable(self, most: float, *, whole: bool) -> int:
        """Adds a variable from 0 to `most`; returns its number."""
        self.cost.append(0.0)
        self.most.append(most)
        self.whole.append(int(whole))
        return len(self.cost) - 1

    def row(self, terms: dict[int, float], low: float, high: float) -> None:
        """Adds low <= sum of terms <= high."""
        self.rows.append((terms, low, high))

    def add(self, terms: dict[int, float], weight: float) -> None:
        """Adds a weighted sum to what is minimised."""
        for number, value in terms.items():
            self.cost[number] += weight * value

    def solve(self, config: CosaConfig, item: str) -> np.ndarray:
        """The values of the variables.

        Raises:
            InputError: there is no solution, HiGHS found none in its time, or it gave up; names the item.
        """
        from scipy.optimize import LinearConstraint, milp
        from scipy.sparse import coo_array

        entries = [(i, number, value) for i, (terms, _, _) in enumerate(self.rows) for number, value in terms.items()]
        i, j, values = zip(*entries, strict=True)
        matrix = coo_array((values, (i, j)), shape=(len(self.rows), len(self.cost))).tocsr()
        found = milp(
            np.asarray(self.cost),
            integrality=np.asarray(self.whole),
            bounds=(np.zeros(len(self.most)), np.asarray(self.most)),
            constraints=LinearConstraint(matrix, *np.asarray([row[1:] for row in self.rows]).T),
            options={"time_limit": config.seconds, "mip_rel_gap": config.gap},
        )
        if found.x is not None:
            return np.asarray(found.x)
        if found.status == _INFEASIBLE:
            told = "no mapping keeps the template's limits with an equal share of each buffer per data space"
            raise InputError(told, item=item, remedy="use another mapper, or a template that leaves more free")
        if found.status == _OUT_OF_TIME:
            told = f"HiGHS found no mapping in {config.seconds:g} s"
            raise InputError(told, item=item, remedy="give it more time, `CosaConfig.seconds`")
        raise InputError(f"HiGHS found no mapping: {found.message}", item=item, remedy="use another mapper")


def cosa_mapping(space: MapSpace, config: CosaConfig, *, item: str) -> MappingGenes:
    """Solves the program of one problem and reads the mapping from it; on the host.

    Args:
        space: the problem, of one choice of bounds, NumPy arrays.
        config: weights and limits.
        item: name of the problem, for messages.

    Raises:
        InputError: there is no such mapping, or HiGHS found none in its time.
    """
    program, copies, still = _program(space, config)
    values = program.solve(config, item)
    prime, dim = np.asarray(space.prime), np.asarray(space.dim)
    slot = np.full(len(prime), int(space.outermost), np.int32)
    left = {group: list(np.flatnonzero((dim == group[0]) & (prime == group[1]))) for group in copies}
    for group, own in copies.items():
        for s, number in own.items():
            for _ in range(round(values[number])):
                slot[left[group].pop()] = s
    levels, dims = np.shape(space.constraints.order)
    order = np.tile(np.arange(dims, dtype=np.int32), (levels, 1))
    for (level, v), number in still.items():
        if values[number] > 0.5:
            order[level] = np.argsort(RELEVANCE[v], kind="stable")
    for level, named in enumerate(np.asarray(space.constraints.order)):
        first = [d for d in named if d >= 0]
        order[level] = [*first, *(d for d in order[level] if d not in first)]
    unit = np.arange(dims, dtype=np.int32)
    keep = None if space.constraints.may_bypass is None else np.asarray(space.constraints.keep)
    return MappingGenes(
        cover=np.zeros(dims, np.int32),
        slot=slot,
        order=order.astype(np.int32),
        spatial_order=np.broadcast_to(unit, (2, levels, dims)).copy(),
        keep=keep,
    )


def _program(
    space: MapSpace, config: CosaConfig
) -> tuple[_Program, dict[tuple[int, int], dict[int, int]], dict[tuple[int, int], int]]:
    """The program; its variables by (dimension, prime) and slot; those of stationarity by (level, data space)."""
    levels, dims = np.shape(space.constraints.order)
    limit, fanout = np.asarray(space.limit), np.asarray(space.fanout, float)
    keep, outermost = np.asarray(space.constraints.keep), int(space.outermost)
    prime, dim = np.asarray(space.prime), np.asarray(space.dim)
    program, copies = _Program(), {}
    for d, p in sorted({(int(d), int(p)) for d, p in zip(dim, prime, strict=True) if p > 1}):
        count = int(((dim == d) & (prime == p)).sum())
        slots = [s for s in range(3 * levels) if limit[s, d] >= p and fanout[s] >= p and s % levels <= outermost]
        copies[d, p] = {s: program.variable(count, whole=True) for s in slots}
        program.row(dict.fromkeys(copies[d, p].values(), 1.0), count, count)
    if not copies:  # a layer of one multiply-accumulate: an empty program has no rows
        program.row({program.variable(0, whole=False): 1.0}, 0, 0)

    def logs(slots, dimensions) -> dict[int, float]:
        """Logarithm of the loops over some dimensions in some slots."""
        return {
            number: math.log2(p)
            for (d, p), own in copies.items()
            if d in dimensions
            for s, number in own.items()
            if s in slots
        }

    everything = set(range(dims))
    of_space = [set(np.flatnonzero(RELEVANCE[v]).tolist()) for v in range(len(DATA_SPACES))]
    within = [{s for s in range(3 * levels) if s % levels <= level} for level in range(levels)]
    temporal, spatial = set(range(levels)), set(range(levels, 3 * levels))
    for s in range(3 * levels):
        if np.isfinite(fanout[s]):
            program.row(logs({s}, everything), 0, math.log2(fanout[s]) + 1e-9)
        for d in everything:
            if limit[s, d] < int(np.asarray(space.layer.bounds)[d]):
                program.row(logs({s}, {d}), 0, math.log2(max(limit[s, d], 1)) + 1e-9)

    window = _window(space)
    capacity = np.asarray(space.capacity, float)
    for level in range(outermost):
        stored = np.flatnonzero(keep[level])
        for v in stored:
            tile = logs(within[level], of_space[v])
            program.add(tile, -config.utilisation)
            if np.isfinite(capacity[level]):
                words = capacity[level] / len(stored) / (window if DATA_SPACES[v] == "Inputs" else 1)
                program.row(tile, 0, math.log2(max(words, 1)) + 1e-9)
    program.add(logs(temporal, everything), config.compute)

    # The outermost level on the chip that stores anything feeds the array: tiles count below it, loops above it.
    outer = max((level for level in range(outermost) if keep[level].any()), default=0)
    inner = {s for s in range(3 * levels) if s % levels < outer}
    still: dict[tuple[int, int], int] = {}
    for level in {outer, outermost}:
        free = (np.asarray(space.constraints.order)[level] < 0).all()
        for v in range(len(DATA_SPACES)):
            program.add(logs({level}, of_space[v]), config.traffic)
            # Loops that may leave the data space in place: all that do not move it, or those that an order puts inside.
            inside = everything - of_space[v]
            if not free:
                inside &= _prefix(space, level, of_space[v])
                program.add(logs({level}, everything - of_space[v] - inside), config.traffic)
            rest = logs({level}, inside)
            if not rest:
                continue
            most = sum(math.log2(p) for d, p in zip(dim, prime, strict=True) if p > 1 and d not in of_space[v])
            stands = program.variable(1, whole=True)
            if free:
                still[level, v] = stands
            # Where no level in between holds it, a loop there that moves it fetches it again in every step.
            holder = max((inner for inner in range(level) if keep[inner, v]), default=-1)
            for (d, p), own in copies.items():
                count = int(((dim == d) & (prime == p)).sum())
                for s in range(holder + 1, level):
                    if d in of_space[v] and s in own:
                        program.row({own[s]: 1.0, stands: float(count)}, 0, count)
            moves = program.variable(most, whole=False)
            # moves >= rest - most * stands
            program.row({moves: 1.0, stands: most, **{k: -x for k, x in rest.items()}}, 0, math.inf)
            program.add({moves: 1.0}, config.traffic)
        own = [number for (where, _), number in still.items() if where == level]
        if own:
            program.row(dict.fromkeys(own, 1.0), 0, 1)
    for v in range(len(DATA_SPACES)):
        program.add(logs(inner, of_space[v]), 0.99 * config.traffic)
        program.add(logs({s for s in spatial if s % levels == outer}, everything), 0.99 * config.traffic)
    return program, copies, still


def _window(space: MapSpace) -> int:
    """Factor that makes the product of P, Q, R and S at least a tile's rows times columns."""
    bounds, stride, dilation = (np.asarray(x) for x in (space.layer.bounds, space.layer.stride, space.layer.dilation))
    factor = 1
    for axis, (out, tap) in enumerate(((P, R), (Q, S))):
        factor *= int(stride[axis]) if bounds[out] > 1 else 1
        factor *= int(dilation[axis]) if bounds[tap] > 1 else 1
    return factor


def _prefix(space: MapSpace, level: int, relevant: set[int]) -> set[int]:
    """Dimensions that a prescribed order puts inside all loops that move a data space."""
    own: set[int] = set()
    loops = np.minimum(np.asarray(space.limit)[level], np.asarray(space.layer.bounds)) > 1
    for d in np.asarray(space.constraints.order)[level].tolist():
        if d in relevant and loops[d]:
            break
        own.add(d)
    return own
