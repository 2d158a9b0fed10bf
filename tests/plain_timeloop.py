"""Timeloop's counting rules in plain Python, one mapping at a time, to be read beside `semantics.md`.

Nothing is vectorised or rearranged: loops are walked, children are listed, tiles are boxes, shifts are vectors.
Section numbers refer to `semantics.md` of the reference data.
"""

import collections
import math

DIMS = "GNKCPQRS"
SPACES = ("W", "I", "O")


class Nest:
    """A layer and a mapping as plain loops, made from the arrays of `mohamjax`."""

    def __init__(self, layer, mapping, levels):
        self.stride = [int(x) for x in layer.stride]
        self.dilation = [int(x) for x in layer.dilation]
        self.levels = levels
        self.temporal, self.spatial = [], []
        for i in range(levels):
            loops = [(DIMS[d], int(mapping.temporal[i][d])) for d in mapping.order[i]]
            self.temporal.append([(d, n) for d, n in loops if n > 1])
            axes = []
            for axis in range(2):
                loops = [(DIMS[d], int(mapping.spatial[axis][i][d])) for d in mapping.spatial_order[axis][i]]
                axes.append([(d, n) for d, n in loops if n > 1])
            self.spatial.append(axes)

    def axes(self, space):
        """Axes of a data space, each a list of (dimension, coefficient)."""
        if space == "W":
            return [[(d, 1)] for d in "GKCRS"]
        if space == "O":
            return [[(d, 1)] for d in "GNKPQ"]
        first = [("P", self.stride[0]), ("R", self.dilation[0])]
        second = [("Q", self.stride[1]), ("S", self.dilation[1])]
        return [[("G", 1)], [("N", 1)], [("C", 1)], first, second]

    def box(self, space, extent):
        """Lengths of the tile along each axis, given the extents of the dimensions."""
        return [1 + sum(c * (extent[d] - 1) for d, c in axis) for axis in self.axes(space)]

    def shift(self, space, dim, distance):
        """How far a step of `distance` in a dimension moves the data space, along each axis."""
        return tuple(sum(c * distance for d, c in axis if d == dim) for axis in self.axes(space))


def extents(nest):
    """For each level, the extents of a child's tile, of the union of the children and of the level's own tile."""
    inside = dict.fromkeys(DIMS, 1)
    child, union, own = [], [], []
    for i in range(nest.levels):
        child.append(dict(inside))
        for loops in nest.spatial[i]:
            for d, n in loops:
                inside[d] *= n
        union.append(dict(inside))
        for d, n in nest.temporal[i]:
            inside[d] *= n
        own.append(dict(inside))
    return child, union, own


def steps(nest, space, level, child, union):
    """Section 3: steps of the temporal loops at `level` and outside it, innermost first: (bound, count, words, motion).

    A MAC, the child of level 0, takes its word in every step, even if the step moves nothing.
    """
    box = nest.box(space, child[level])
    full = math.prod(box)
    loops = []
    for i in range(level, nest.levels):
        reached = dict(union[i])
        for d, n in nest.temporal[i]:
            loops.append((n, nest.shift(space, d, reached[d])))
            reached[d] *= n
    result = []
    for k, (n, shift) in enumerate(loops):
        count = (n - 1) * math.prod(m for m, _ in loops[k + 1 :])
        motion = tuple(s - sum(inner[a] for _, inner in loops[:k]) for a, s in enumerate(shift))
        words = full
        if level > 0 and (k == 0 or motion == loops[0][1]):
            words = full - math.prod(max(0, length - abs(m)) for length, m in zip(box, motion, strict=True))
        result.append((n, count, words, motion))
    return full, result


def children(nest, space, level, child):
    """Section 4: offset of every child, in the order of their numbers, and the number of children along X."""
    listed = [(0, ())]
    for axis in range(2):
        for d, n in nest.spatial[level][axis]:
            inside = child[level][d]
            if axis == 1:
                inside *= math.prod(m for e, m in nest.spatial[level][0] if e == d)
            moves = [nest.shift(space, d, index * inside) for index in range(n)]
            listed = [(0, (*earlier, move)) for move in moves for _, earlier in listed]
    width = math.prod(n for _, n in nest.spatial[level][0])
    return [tuple(map(sum, zip(*moves, strict=True))) if moves else (0,) for _, moves in listed], width


def hops(members, columns, rows):
    """Section 4: hops of one word to a group of children."""
    middle = (rows - 1) / 2
    by_column = collections.defaultdict(list)
    for q in members:
        by_column[q % columns].append(q // columns)
    total = max(by_column)
    for used in by_column.values():
        total += max(0, middle - min(used)) + max(0, max(used) - middle)
    return total


def traffic(nest, space, level, child, union, fanout, links):
    """Sections 3, 4 and 6: what a level sends of one data space to its children.

    Returns:
        (words delivered to a child, {(members, groups): words that enter the network}, hops, link transfers).
    """
    offsets, width = children(nest, space, level, child)
    columns, rows = max(int(fanout[0]), width), max(int(fanout[1]), len(offsets) // width)

    def serve(served):
        """Groups of the children in `served`, and the hops of a word to all groups."""
        groups = collections.defaultdict(list)
        for q in served:
            groups[offsets[q]].append(q)
        sizes = collections.Counter(len(members) for members in groups.values())
        length = sum(hops(members, columns, rows) for members in groups.values()) if len(offsets) > 1 else 0
        return len(groups), sizes, length

    everyone = range(len(offsets))
    all_groups, all_sizes, all_hops = serve(everyone)
    entries, total_hops, transfers = collections.Counter(), 0.0, 0

    def send(words, sizes, length):
        nonlocal total_hops
        for members, groups in sizes.items():
            entries[members, groups] += words * groups
        total_hops += words * length

    full, moves = steps(nest, space, level, child, union)
    delivered = full + sum(count * words for _, count, words, _ in moves)
    send(full, all_sizes, all_hops)
    for k, (n, count, words, motion) in enumerate(moves):
        # The number of these steps that follow a step which brought words of the same shape.
        if k == 0:
            alike = (n - 1) * ((words == full) + sum(c for _, c, w, _ in moves[1:] if w == words))
        else:
            alike = count if words == moves[0][2] else 0
        if not (links and len(offsets) > 1 and alike and words):
            send(count * words, all_sizes, all_hops)
            continue
        linked = set()
        for q in everyone:
            column, row = q % columns, q // columns
            for c, r in ((column + 1, row), (column - 1, row), (column, row + 1), (column, row - 1)):
                other = c + r * columns
                if 0 <= c < columns and 0 <= r < rows and other < len(offsets):
                    apart = tuple(b - a for a, b in zip(offsets[q], offsets[other], strict=True))
                    if apart == motion:
                        linked.add(q)
        groups, sizes, length = serve(q for q in everyone if q not in linked)
        if groups >= all_groups:
            send(count * words, all_sizes, all_hops)
            continue
        send((count - alike) * words, all_sizes, all_hops)
        send(alike * words, sizes, length)
        transfers += len(linked) * words * alike
    return delivered, +entries, total_hops, transfers


def half_up(x):
    return math.floor(x + 0.5)


def count(layer, mapping, machine, *, links=False, first_fills=False):
    """Sections 1 and 3 to 10 for a `mohamjax` machine (NumPy arrays): a dict of lists over levels and spaces."""
    levels = int(sum(machine.level_mask))
    nest = Nest(layer, mapping, levels)
    child, union, own = extents(nest)
    keep = [[bool(mapping.keep[i][v]) or i == levels - 1 for v in range(3)] for i in range(levels)]
    wide = [[math.prod(n for _, n in nest.spatial[i][axis]) for axis in range(2)] for i in range(levels)]
    above = [[math.prod(wide[j][axis] for j in range(i + 1, levels)) for axis in range(2)] for i in range(levels)]
    used = [x * y for x, y in above]
    macs_used = used[0] * wide[0][0] * wide[0][1]
    compute = math.prod(n for loops in nest.temporal for _, n in loops)

    names = ("tile", "partition", "reads", "fills", "updates", "hops", "link_transfers")
    out = {name: [[0] * 3 for _ in range(levels)] for name in names}
    for v, space in enumerate(SPACES):
        size = [math.prod(nest.box(space, e)) for e in own]
        sent = [traffic(nest, space, i, child, union, machine.fanout[i], links) for i in range(levels)]
        entries = [dict(sorted(e.items())) for _, e, _, _ in sent]
        fan = [x * y for x, y in wide]
        # Section 5, before any bypass.
        share = [0.0] * levels
        for i in range(levels - 1):
            for (members, _), words in entries[i + 1].items():
                share[i] += words * members / fan[i + 1]
        partition = [0] * levels
        partition[-1] = size[-1]
        for i in range(levels - 2, -1, -1):
            whole = math.prod(nest.box(space, union[i + 1])) if fan[i + 1] > 1 else size[i]
            partition[i] = partition[i + 1] * size[i] // whole
        handed = [lt for _, _, _, lt in sent]
        # Section 7.
        for i in range(levels - 1):
            if not keep[i][v]:
                weighted = sum(words * members for (members, _), words in entries[i + 1].items())
                factor = sum(entries[i].values()) * fan[i + 1] / weighted
                entries[i + 1] = {key: words * factor for key, words in entries[i + 1].items()}
                handed[i + 1] = 0
        # Section 8.
        for i in range(levels):
            out["hops"][i][v] = sent[i][2]
            out["link_transfers"][i][v] = handed[i]
            if not keep[i][v]:
                continue
            served = sum(entries[i].values())
            peer = handed[i + 1] / used[i] if i + 1 < levels else 0
            top = i == levels - 1
            out["tile"][i][v], out["partition"][i][v] = size[i], partition[i]
            if space == "O":
                out["updates"][i][v] = half_up(served)
                out["reads"][i][v] = half_up(served + peer - partition[i])
                first = 0 if first_fills else partition[i]
                out["fills"][i][v] = 0 if top else half_up(share[i] + peer - first)
            else:
                out["reads"][i][v] = half_up(served + peer)
                out["fills"][i][v] = 0 if top else math.floor(share[i] + peer)

    # Sections 9 and 10.
    energy = {"mac": macs_used * compute * float(machine.mac_energy), "level": [], "network": []}
    cycles = []
    for i in range(levels):
        block = float(machine.block_words[i])
        read, write = (float(e) for e in machine.access_energy[i])
        spent = []
        for v in range(3):
            blocks = [math.ceil(out[kind][i][v] / block) for kind in ("reads", "fills", "updates")]
            spent.append((blocks[0] * read + (blocks[1] + blocks[2]) * write) * used[i])
        energy["level"].append(spent)
        travelled = sum(out["hops"][i]) + sum(out["link_transfers"][i])
        energy["network"].append(travelled * float(machine.hop_energy[i]) * used[i])
        slowdown = 1.0
        kinds = (out["reads"][i], [f + u for f, u in zip(out["fills"][i], out["updates"][i], strict=True)])
        needs = [words[0] / compute + words[1] / compute + words[2] / compute for words in kinds]
        limits = [*machine.bandwidth[i], math.inf if machine.shared_bandwidth is None else machine.shared_bandwidth[i]]
        for limit, need in zip(limits, [*needs, sum(needs)], strict=True):
            if limit < need:
                slowdown = min(slowdown, float(limit) / need)
        cycles.append(math.ceil(compute / slowdown))
    return {
        **out,
        "instances_used": used,
        "expansion": above,
        "fanout_used": wide,
        "macs": macs_used * compute,
        "macs_used": macs_used,
        "compute_cycles": compute,
        "cycles_per_level": cycles,
        "cycles": max(cycles),
        "energy_parts": energy,
        "energy": energy["mac"] + sum(map(sum, energy["level"])) + sum(energy["network"]),
        "mac_expansion": [wide[0][axis] * above[0][axis] for axis in range(2)],
    }


def verdict(counts, machine):
    """Section 2: the first reason to reject a mapping, named as in `REASONS`, and its level; ("valid", -1) if none."""
    x, y = counts["mac_expansion"]
    if x * y > machine.mac_instances:
        return "mac_instances", -1
    if x > machine.mac_mesh[0]:
        return "mac_x", -1
    if y > machine.mac_mesh[1]:
        return "mac_y", -1
    for i, (x, y) in enumerate(counts["expansion"]):
        reasons = []
        if sum(counts["tile"][i]) > machine.capacity[i]:
            reasons.append("capacity")
        if x * y > machine.instances[i]:
            reasons.append("instances")
        elif x > machine.mesh[i][0]:
            reasons.append("x_expansion")
        elif y > machine.mesh[i][1]:
            reasons.append("y_expansion")
        if reasons:
            return "+".join(reasons), i
    return "valid", -1
