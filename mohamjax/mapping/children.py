"""What the children of a level share: equal tiles, multicast groups, wire hops.

Functions take arrays that describe one level: `[D, ...]` loop factors over the D dimensions (`workload.DIMS`), with
free trailing axes (levels, a batch). V data spaces (weights, inputs, outputs). Children are numbered x + y*(children
along X), the first loop of an axis fastest. "Section" is that of docs/concepts/cost-model.md.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax

from mohamjax.dims import ALL, DATA_SPACES, DIMS, RELEVANT, C, G, I, N, O, P, Q, R, S, W
from mohamjax.mapping.nest import LayerArrays
from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.platforms import short_scan
from mohamjax.runtime.struct import record

MAX_CHILDREN = 256
"""Default number of children per level that the tables for wires and links have room for."""


def table_room(children: float) -> int:
    """Room of the tables for levels of so many children: a power of two, so that few sizes are ever compiled."""
    return power_of_two(int(children), MAX_CHILDREN)


def room_for(spatial: npt.ArrayLike, most: npt.ArrayLike) -> int:
    """`table_room` for mappings with some factors along X and Y.

    Args:
        spatial: `[..., 2, L, D]`, the factors.
        most: `[...]`, children of a level beyond which a mapping is invalid in any case.
    """
    children = np.prod(np.asarray(spatial), axis=(-3, -1), dtype=float).max(axis=-1)
    return table_room(np.minimum(children, most).max(initial=1))


def are_relevant(dim, spaces=(W, I, O)):
    """Whether data spaces move along dimensions given as an array of indices: `[len(spaces), ...]` bool."""
    bits = jnp.asarray([sum(1 << d for d in RELEVANT[v]) for v in spaces], jnp.int32)
    return ((bits.reshape((-1,) + (1,) * dim.ndim) >> dim) & 1) == 1


def by_slot(order, values):
    """Rearranges values `[D, ...]` from dimensions to slots of the loop order, innermost first."""
    slots = jnp.broadcast_to(values[0], jnp.broadcast_shapes(values.shape, order.shape))
    for d in ALL[1:]:
        slots = jnp.where(order == d, values[d], slots)
    return slots


def product_over(values, dims=ALL):
    """Product of `[D, ...]` values over some dimensions: `[...]`."""
    return functools.reduce(jnp.multiply, [values[d] for d in dims])


def quotient(a, b):
    """Whole part of a / b for small whole numbers; adding 0.5 to a guards against rounding."""
    return jnp.floor((a + 0.5) / b)


def exact_divide(a, b):
    """a / b for a >= 0, correctly rounded; XLA would turn division by a broadcast value into multiplication."""
    return a / jnp.where(a < 0, 1, b)


def round_up_halves(x):
    """Nearest whole number, halves up."""
    return jnp.floor(x + 0.5)


def lenient_floor(x):
    """Floor that forgives the rounding of single precision just below an integer."""
    return jnp.floor(x * (1 + 3e-7)) if x.dtype == jnp.float32 else jnp.floor(x)


def widest(tree):
    """Casts floats to the widest type that JAX is set to: for quotients that are rounded to whole numbers.

    Timeloop computes such quotients in double precision, and an error of one matters where numbers are small. With
    64-bit types switched off, as in the search, this changes nothing.
    """
    wide = jax.dtypes.canonicalize_dtype(jnp.float64)
    return jax.tree.map(lambda x: x.astype(wide) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree)


def _gcd(a, b):
    """Greatest common divisor of whole numbers held as floats; takes as many steps as the worst element needs."""

    def step(pair):
        a, b = pair
        return jnp.where(b > 0, b, a), jnp.where(b > 0, a - b * quotient(a, jnp.maximum(b, 1)), 0)

    return lax.while_loop(lambda pair: jnp.any(pair[1] > 0), step, (a, b))[0]


@record
class Windows:
    """How the children overlap along one spatial axis of the inputs (section 4).

    Children (p, r) along P and R (Q and S) stand at offset p*a + r*b. Two coincide iff they differ by a multiple of
    (b/g, -a/g) with g = gcd(a, b): the children fall into chains, one per distinct offset.

    Attributes:
        out: `[...]` float, children along P (Q).
        tap: `[...]` float, children along R (S).
        chain_out: `[...]` float, b/g; 1 where one of the two has a single child.
        chain_tap: `[...]` float, a/g; 1 where one of the two has a single child.
        shift_out: `[...]` float, a, words.
        shift_tap: `[...]` float, b, words.
    """

    out: jax.Array
    tap: jax.Array
    chain_out: jax.Array
    chain_tap: jax.Array
    shift_out: jax.Array
    shift_tap: jax.Array

    def chains(self, length):
        """Number of places where `length` children follow each other in a chain."""
        steps = length - 1
        return jnp.maximum(self.out - steps * self.chain_out, 0) * jnp.maximum(self.tap - steps * self.chain_tap, 0)


def windows(layer: LayerArrays, child, spread) -> tuple[Windows, Windows]:
    """Overlap of the input windows along the first and the second spatial axis.

    Args:
        layer: The layer.
        child: `[D, ...]` float, extents of a child's tile.
        spread: `[D, ...]` float, children along each dimension.
    """
    axes = []
    for a, (out, tap) in enumerate(((P, R), (Q, S))):
        shift_out = child[out] * layer.stride[a].astype(child.dtype)
        shift_tap = child[tap] * layer.dilation[a].astype(child.dtype)
        both = (spread[out] > 1) & (spread[tap] > 1)
        step_out, step_tap = jnp.where(both, shift_out, 1), jnp.where(both, shift_tap, 1)
        common = _gcd(step_out, jnp.where(both, step_tap, 0))
        axes.append(
            Windows(
                out=spread[out],
                tap=spread[tap],
                chain_out=jnp.round(step_tap / common),
                chain_tap=jnp.round(step_out / common),
                shift_out=shift_out,
                shift_tap=shift_tap,
            )
        )
    return axes[0], axes[1]


def group_counts(spread, axes):
    """Number of distinct tiles among the children, per data space (section 4)."""
    inputs = product_over(spread, (G, N, C))
    for axis in axes:
        inputs = inputs * (axis.chains(1) - axis.chains(2))
    return product_over(spread, RELEVANT[W]), inputs, product_over(spread, RELEVANT[O])


def multicast_classes(spread, axes, most):
    """Groups of the inputs by size: entry m - 1 counts those with m * (children along K) members.

    Args:
        spread: `[D, ...]` float, children along each dimension.
        axes: From `windows`.
        most: Static, largest m. A larger group takes at least `most + 1` squared children.

    Returns:
        `[most, ...]` float.
    """
    lengths = jnp.arange(1, most + 3).reshape((-1,) + (1,) * (spread.ndim - 1))
    by_length = []
    for axis in axes:
        chains = axis.chains(lengths.astype(spread.dtype))
        by_length.append(chains[:-2] - 2 * chains[1:-1] + chains[2:])
    sizes = [
        sum(by_length[0][a - 1] * by_length[1][m // a - 1] for a in range(1, m + 1) if m % a == 0)
        for m in range(1, most + 1)
    ]
    return jnp.stack(sizes) * product_over(spread, (G, N, C))


def _bounds_and_strides(order, spatial):
    """Bounds `[D, ...]` of the loops along one axis, innermost first, and a list of their children's distances."""
    bounds, stride, strides = by_slot(order, spatial), jnp.ones_like(spatial[0]), []
    for bound in bounds:
        strides.append(stride)
        stride = stride * bound
    return bounds, strides


def _strides(order, spatial):
    """Change of a child's number per step along each dimension: `[D, ...]` each for X and Y loops."""
    dims = np.arange(len(ALL)).reshape((-1,) + (1,) * (order.ndim - 2))
    strides = []
    for axis in range(2):
        found = jnp.ones_like(spatial[axis])
        for dim, stride in zip(order[axis], _bounds_and_strides(order[axis], spatial[axis])[1], strict=True):
            found = jnp.where(dims == dim, stride, found)
        strides.append(found)
    return strides[0], strides[1]


def indices(child, order, spatial):
    """Indices of numbered children along each dimension: a list over dimensions of arrays like `child`.

    Where a dimension runs along both axes, its X part is the fast one, since X loops lie inside Y loops.

    Args:
        child: `[size, ...]` float, numbers of children.
        order: `[2, D, ...]` int32, loop order along X and Y.
        spatial: `[2, D, ...]` float, factors along X and Y.
    """
    along_x = product_over(spatial[0])
    index = []
    for axis, strides in enumerate(_strides(order, spatial)):
        for d in ALL:
            over = quotient(child, strides[d] * (1 if axis == 0 else along_x))
            digit = over - spatial[axis, d] * quotient(over, spatial[axis, d])
            index.append(digit if axis == 0 else index[d] + spatial[0, d] * digit)
    return index[len(DIMS) :]


def group_labels(index, spread, axes):
    """Number of the group of equal tiles that each child belongs to: `[size, V, ...]`, below the number of children.

    Args:
        index: From `indices`.
        spread: `[D, ...]` float, children along each dimension.
        axes: From `windows`.
    """
    labels = []
    for space in (W, I, O):
        label = jnp.zeros_like(index[0])
        for d in RELEVANT[space] if space != I else (G, N, C):
            label = label * spread[d] + index[d]
        if space == I:
            for (out, tap), axis in zip(((P, R), (Q, S)), axes, strict=True):
                # The first child of the chain stands for all of it.
                first, second = index[out], index[tap]
                back = jnp.minimum(quotient(first, axis.chain_out), quotient(axis.tap - 1 - second, axis.chain_tap))
                label = label * axis.out + first - back * axis.chain_out
                label = label * axis.tap + second + back * axis.chain_tap
        labels.append(label)
    return jnp.stack(labels, axis=1)


def mesh_shape(spatial, fanout):
    """Columns and rows of the mesh that the children are laid out on, row by row (section 4)."""
    return tuple(jnp.maximum(fanout[axis], product_over(spatial[axis])) for axis in range(2))


def sorted_groups(label, child, columns, rows):
    """Groups of children by label, with the hops that the words for each take (section 4).

    The words enter at column 0 between the middle rows. A group costs its last column plus, in each column where
    it has members, the way up to its first and down to its last row.

    Args:
        label: `[size, ...]` float, inf for a child that does not exist.
        child: `[size, ...]` float, numbers of the children, broadcast against `label`.
        columns: `[...]` float, mesh width.
        rows: `[...]` float, mesh height.

    Returns:
        `(ends, hops)`, `[size, ...]` each, sorted by group: whether a group ends there, and parts of the group's hops.
    """
    row = jnp.broadcast_to(quotient(child, columns), label.shape)
    column = child - row * columns
    middle = (rows - 1) / 2
    label, column, row = lax.sort((label, jnp.broadcast_to(column, label.shape), row), dimension=0, num_keys=3)
    edge = jnp.ones_like(label[:1], bool)
    new_group = label[1:] != label[:-1]
    new_run = new_group | (column[1:] != column[:-1])
    ends = jnp.concatenate([new_group, edge])
    up = jnp.where(jnp.concatenate([edge, new_run]), jnp.maximum(middle - row, 0), 0)
    down = jnp.where(jnp.concatenate([new_run, edge]), jnp.maximum(row - middle, 0), 0)
    there = label < jnp.inf
    return ends & there, jnp.where(there, jnp.where(ends, column, 0) + up + down, 0)


def _tabled_hops(order, spatial, fanout, axes, size):
    """Hops summed over groups, from a table over the children: `[V, ...]`; nan for more than `size` children."""
    count = product_over(spatial[0]) * product_over(spatial[1])
    child = jnp.arange(size, dtype=spatial.dtype).reshape((size,) + (1,) * (spatial.ndim - 2))
    labels = group_labels(indices(child, order, spatial), spatial[0] * spatial[1], axes)
    child = child[:, None]
    labels = jnp.where(child < count, labels, jnp.inf)
    _, hops = sorted_groups(labels, child, *mesh_shape(spatial, fanout))
    return jnp.where(count <= size, jnp.sum(hops, axis=0), jnp.nan)


def _loops_along(order, spatial):
    """The loops along one axis, innermost first, and how far apart their children stand there.

    Returns:
        (moves `[D, V, ...]` bool, bound `[D, ...]`, stride `[D, ...]`), stacked as inputs of a scan, which are computed
        once; otherwise XLA would repeat the selections of `by_slot` in each of their many readers.
    """
    bounds, strides = _bounds_and_strides(order, spatial)
    return jnp.moveaxis(are_relevant(order), 0, 1), bounds, jnp.stack(strides)


def _ways(reaches, loops, along):
    """Sums of max(0, reach - position) over the positions at which groups of children start: `[V, ...]` each.

    Groups start where the loops that do not move the data space have index 0. In the mixed radix of the loops, a
    position below `reach` has the same digits from the outermost loop inwards, up to a first smaller one.

    Args:
        reaches: two of `[...]` float, at most the number of children along the axis.
        loops: from `_loops_along`.
        along: `[...]` float, children along the axis.
    """
    shape = loops[0].shape[1:]

    def count(state, loop):
        """Number of positions that the loops so far make, and their sum."""
        (count, total), (moves, bound, stride) = state, loop
        state = (
            jnp.where(moves, bound * count, count),
            jnp.where(moves, bound * (total + count * stride * (bound - 1) / 2), total),
        )
        return state, (count, total)

    one = jnp.ones(shape, along.dtype)
    _, inner = short_scan(count, (one, jnp.zeros_like(one)), loops)

    def way(reach):
        top = jnp.clip(jnp.floor(reach), 0, along - 1)

        def digit(state, loop):
            (agrees, left, way), ((moves, bound, stride), (count, total)) = state, loop
            over = quotient(top, stride)
            digit = over - bound * quotient(over, bound)
            below = jnp.where(moves, digit, jnp.minimum(digit, 1))
            added = below * (count * left - total) - count * stride * below * (below - 1) / 2
            state = (agrees & (moves | (digit == 0)), left - digit * stride, jnp.where(agrees, way + added, way))
            return state, None

        start = (jnp.broadcast_to(reach >= 0, shape), jnp.broadcast_to(reach, shape[1:]), jnp.zeros_like(one))
        (agrees, left, way), _ = short_scan(digit, start, (loops, inner), reverse=True)
        return jnp.where(agrees, way + left, way)

    first, second = reaches
    # On an array that is just large enough the two are the same.
    return lax.cond(jnp.all(first == second), lambda: (way(first),) * 2, lambda: (way(first), way(second)))


def _chained(spatial, out, tap, axis):
    """The dimension of a pair that runs along X where windows coincide, and how far beyond the middle its groups end.

    Where windows coincide, a group of the inputs is a chain of children (`Windows`). With n children along one
    dimension of a pair and m along the other, and chain steps u and v, a chain ends where there is no next place: at
    all n places where the other index is below v, and at the last u where it is not.

    Args:
        spatial: `[D, ...]` float, children along X; at most one dimension of the pair has more than one.
        out: P or Q.
        tap: R or S.
        axis: the windows along the pair's axis of the inputs.

    Returns:
        `[...]` int32, the dimension, -1 where no windows coincide; and `[...]` float, how far the last child of a group
        along it is beyond the middle of the children, on average over the groups.
    """
    along_tap = spatial[tap] > 1

    def pair(of_out, of_tap):
        return jnp.where(along_tap, of_tap, of_out), jnp.where(along_tap, of_out, of_tap)

    (n, m), (u, v) = pair(axis.out, axis.tap), pair(axis.chain_out, axis.chain_tap)
    chains = axis.chains(1) - axis.chains(2)
    last = jnp.minimum(u, n)
    ends = jnp.minimum(v, m) * n * (n - 1) + jnp.maximum(m - v, 0) * last * (2 * n - 1 - last)
    chained = (along_tap | (spatial[out] > 1)) & (chains < axis.out * axis.tap)
    return jnp.where(chained, jnp.where(along_tap, tap, out), -1), exact_divide(ends / 2, chains) - (n - 1) / 2


def _product_hops(order, spatial, fanout, axes, shared):
    """Hops summed over groups where child (x, y) stands in column x and row y: `[V, ...]`.

    Each group is then a product of a set of columns and a set of rows: loops that move the data space place the
    group, the others spread it. Windows may coincide between X and Y, but not within one: a column then still
    holds one run of rows of each of its groups, and a group's last column follows from its chain.

    Args:
        order, spatial, fanout, axes: those of `hop_sums`.
        shared: `[...]` bool, whether windows coincide.
    """
    along = [product_over(spatial[axis]) for axis in range(2)]
    # The way up goes to a group's first row if that is above the middle. The way down to the last row is the same sum
    # seen from the other end, since first and last rows lie symmetrically.
    middle = (jnp.maximum(fanout[1], along[1]) - 1) / 2
    up, down = _ways((middle, along[1] - 1 - middle), _loops_along(order[1], spatial[1]), along[1])
    rows = up + down
    # The last column of a group: its place by the loops that move it, on average, plus its spread.
    loops = _loops_along(order[0], spatial[0])

    def last(total, loop):
        moves, bound, stride = loop
        return total + jnp.where(moves, 0.5, 1.0).astype(bound.dtype) * (bound - 1) * stride, None

    column, _ = short_scan(last, jnp.zeros_like(rows), loops)

    def beyond_mean():
        """How far the chains of the inputs reach beyond that average, on average: `[...]`."""
        chains = [_chained(spatial[0], *pair, axis) for pair, axis in zip(((P, R), (Q, S)), axes, strict=True)]

        def chained_loop(total, loop):
            dim, stride = loop
            return total + sum(jnp.where(dim == chained, excess, 0) for chained, excess in chains) * stride, None

        return short_scan(chained_loop, jnp.zeros_like(rows[I]), (order[0], loops[2]))[0]

    # Few templates let windows coincide; where none do, nothing is added.
    beyond = lax.cond(jnp.any(shared), beyond_mean, lambda: jnp.zeros_like(rows[I]))
    column = column.at[I].add(beyond)
    groups = jnp.stack(group_counts(spatial[0] * spatial[1], axes))
    return groups * column + along[0] * rows


def _gridded_hops(order, spatial, fanout, side):
    """Hops summed over groups that are products of loops, from a grid of `side` rows and columns: `[V, ...]`.

    The grid must hold the mesh's columns and the rows that the children take. At a group's first child, the loops that
    do not move the data space have index 0; these loops shift it to the group's other children, by the same amounts in
    every group. The columns that a group reaches therefore follow from that of its first child.
    """
    along = [product_over(spatial[axis]) for axis in range(2)]
    columns, rows = mesh_shape(spatial, fanout)
    place = jnp.arange(side, dtype=spatial.dtype)
    row, column = place.reshape((-1, 1) + (1,) * columns.ndim), place.reshape((1, -1) + (1,) * columns.ndim)
    child = row * columns + column
    exists = (column < columns) & (child < along[0] * along[1])

    along_x, (moves, bounds, strides) = (_loops_along(order[axis], spatial[axis]) for axis in range(2))
    rest = (moves, bounds, strides * along[0])
    moves, bounds, strides = (jnp.concatenate(pair) for pair in zip(along_x, rest, strict=True))
    slot = jnp.arange(len(bounds)).reshape((-1,) + (1,) * columns.ndim)

    def number(state):
        """Adds the part of each mapping's innermost remaining loop to the number of a group's first child."""
        label, left = state
        chosen = left & (slot == jnp.argmax(left, axis=0))
        bound, stride = (jnp.sum(jnp.where(chosen, x, 0), axis=0) for x in (bounds, strides))
        moving = jnp.any(moves & chosen[:, None], axis=0)
        digit = quotient(child, jnp.maximum(stride, 1)) - bound * quotient(child, jnp.maximum(stride * bound, 1))
        return label + jnp.where(moving[:, None, None], digit * stride, 0), left & ~chosen

    start = jnp.zeros((len(DATA_SPACES), *child.shape), spatial.dtype)
    label, _ = lax.while_loop(lambda state: jnp.any(state[1]), number, (start, bounds > 1))
    first_child = exists & (label == child)
    # Labels are numbers of children; half the width takes half the memory where it holds them all.
    label = jnp.where(exists, label, -1).astype(jnp.int16 if side * side <= 1 << 15 else jnp.int32)
    index = jnp.arange(side, dtype=jnp.int32)

    def first_and_last(last, at):
        """Finds the children of a row that are first of their group in their column; those before are not last."""
        here = lax.dynamic_index_in_dim(label, at, 1)
        earlier = (label == here) & (index < at).reshape((1, -1, 1) + (1,) * columns.ndim)
        return last & ~earlier, ~jnp.any(earlier, axis=1)

    last, first = lax.scan(first_and_last, jnp.ones(label.shape, bool), index)
    middle = (rows - 1) / 2
    up = jnp.where(exists & jnp.moveaxis(first, 0, 1), jnp.maximum(middle - row, 0), 0)
    down = jnp.where(exists & last, jnp.maximum(row - middle, 0), 0)
    # Columns that the group of child 0 reaches. Another group reaches the same ones, shifted; those beyond the mesh
    # wrap around to the left, where they are never the last.
    reached = jnp.any(label == 0, axis=1)[:, None]
    shift = place.reshape((-1, 1) + (1,) * columns.ndim)
    farthest = jnp.max(jnp.where(reached & (shift + column < columns), column, 0), axis=2)
    groups = jnp.sum(first_child, axis=1, dtype=spatial.dtype)
    return jnp.sum(up + down, axis=(1, 2)) + jnp.sum(
        groups * (place.reshape((-1,) + (1,) * columns.ndim) + farthest), axis=1
    )


def hop_sums(order, spatial, fanout, axes, size, grid=True):
    """Hops that one word for every group of equal tiles takes, summed over the groups (section 4).

    The sum has a closed form where the mesh is as wide as the level uses (or one row is used) and no windows coincide
    within X or within Y. Elsewhere hops are counted one level of each mapping at a time: from a grid of the mesh if no
    windows coincide at all and at most the square root of `size` rows and columns are needed, else from a sorted table
    over all children, which takes longer.

    Args:
        order: `[2, D, L, ...]` int32, loop order along X and Y.
        spatial: `[2, D, L, ...]` float, factors along X and Y.
        fanout: `[2, L, ...]` float, children that the level has along X and Y.
        axes: From `windows`, `[L, ...]`.
        size: Static, children that the table has room for; hops are nan where it is too small. 0 compiles no table.
        grid: Static, whether to compile the grid; without it the table is used in its place.

    Returns:
        `[V, L, ...]` float.
    """
    along = [product_over(spatial[axis]) for axis in range(2)]
    children = along[0] * along[1]
    columns = jnp.maximum(fanout[0], along[0])
    shared = ((axes[0].out > 1) & (axes[0].tap > 1)) | ((axes[1].out > 1) & (axes[1].tap > 1))
    one_row = (along[1] == 1) | (columns == along[0])
    many = spatial > 1
    tangled = jnp.any((many[:, P] & many[:, R]) | (many[:, Q] & many[:, S]), axis=0)
    alone = children == 1
    hops = jnp.where(alone, 0, _product_hops(order, spatial, fanout, axes, shared))
    pending = jnp.broadcast_to((~one_row | tangled) & ~alone, hops.shape[1:])
    if size == 0:
        return jnp.where(pending, jnp.nan, hops)
    levels = pending.shape[0]
    index = jnp.arange(levels).reshape((levels,) + (1,) * (pending.ndim - 1))

    def level_by_level(hops, pending, count):
        """Replaces the hops of pending levels by those that `count` finds, one level of each mapping at a time."""

        def next_level(state):
            hops, pending = state
            chosen = pending & (index == jnp.argmax(pending, axis=0))
            picked = chosen | (~jnp.any(pending, axis=0) & (index == levels - 1))

            def pick(x):
                """The chosen level of `[..., L, batch]`, the last one where none is pending."""
                return jnp.sum(jnp.where(picked, x, 0), axis=x.ndim - pending.ndim, dtype=x.dtype)

            level_axes = jax.tree.map(lambda x: pick(jnp.broadcast_to(x, pending.shape)), axes)
            found = count(pick(order), pick(spatial), pick(fanout), level_axes)
            return jnp.where(chosen, found[:, None], hops), pending & ~chosen

        return lax.while_loop(lambda state: jnp.any(state[1]), next_level, (hops, pending))[0]

    if grid:
        side = math.isqrt(size)
        fits = ~shared & (columns <= side) & (children <= columns * side)
        hops = level_by_level(hops, pending & fits, lambda o, s, f, _: _gridded_hops(o, s, f, side))
        pending = pending & ~fits
    return level_by_level(hops, pending, lambda o, s, f, a: _tabled_hops(o, s, f, a, size))
