"""An independent check of a designs/1 document, in plain Python: it shares no code with the package it checks.

It checks order and dependencies, that chiplets hold their mappings, that no layers overlap on a chiplet, that shared
bandwidth is never exceeded, that times are those of the plain fluid model, that energies and objectives add up and
respect their bounds, and that places and hops follow DESIGN section 5.
"""

import itertools
import math

from plain_fluid import simulate
from plain_mesh import links

WORDS = "GNKCPQRS"


def interfaces(chiplets: int, placement: str, counts) -> list[tuple[int, int]]:
    columns = math.ceil(math.sqrt(chiplets))
    rows = math.ceil(chiplets / columns)
    number = next(n for limit, n in counts if limit is None or chiplets <= limit)
    if placement == "corner":
        order = [r for pair in zip(range(rows), reversed(range(rows)), strict=True) for r in pair]
    else:
        middle = (rows - 1) // 2
        order = [middle] + [r for step in range(1, rows) for r in (middle + step, middle - step)]
    order = [r for i, r in enumerate(order) if 0 <= r < rows and r not in order[:i]]
    number = min(number, 2 * rows)
    return [(columns if i % 2 else -1, order[i // 2]) for i in range(number)]


def place(chip: int, chiplets: int, package) -> tuple[int, int]:
    """Interface index and number of hops of a chiplet."""
    columns = math.ceil(math.sqrt(chiplets))
    x, y = chip % columns, chip // columns
    best = None
    for i, (ix, iy) in enumerate(interfaces(chiplets, package["placement"], package["interface_counts"])):
        hops = abs(x - ix) + abs(y - iy)
        if best is None or hops <= best[1]:
            best = (i, hops)
    return best


def extents(levels, upto: int) -> dict[str, int]:
    """Product of a mapping's factors per dimension, over the levels up to and including `upto`."""
    out = dict.fromkeys(WORDS, 1)
    for level in levels[: upto + 1]:
        for d, f in level["temporal"]["factors"].items():
            out[d] *= f
        for axis in "XY":
            for d, f in level["spatial"][axis]:
                out[d] *= f
    return out


def tile_words(ext, layer) -> tuple[int, int, int]:
    high = (ext["P"] - 1) * layer["stride"][0] + (ext["R"] - 1) * layer["dilation"][0] + 1
    wide = (ext["Q"] - 1) * layer["stride"][1] + (ext["S"] - 1) * layer["dilation"][1] + 1
    return (
        ext["G"] * ext["K"] * ext["C"] * ext["R"] * ext["S"],
        ext["G"] * ext["N"] * ext["C"] * high * wide,
        ext["G"] * ext["N"] * ext["K"] * ext["P"] * ext["Q"],
    )


def overfull(jobs, bandwidth: float) -> bool:
    """Whether more bytes are transferred within some interval of time than the bandwidth allows.

    Args:
        jobs: (start, end, bytes) of every transfer, in ns and bytes.
        bandwidth: bytes per ns.
    """
    for first in {start for start, _, _ in jobs}:
        moved = 0.0
        for _, end, size in sorted((job for job in jobs if job[0] >= first), key=lambda job: job[1]):
            moved += size
            if moved > bandwidth * (end - first) * (1 + 1e-6):
                return True
    return False


def close(a: float, b: float, relative: float = 1e-6) -> bool:
    return math.isclose(a, b, rel_tol=relative, abs_tol=1e-18)


def problems(document, design, fixed=()) -> list[str]:
    """Everything that is wrong with one design; chiplets on the tiles in `fixed` may be idle."""
    found = []
    layers, package = document["layers"], document["package"]
    templates = {t["name"]: t for t in document["templates"]}
    chips, steps = design["chiplets"], design["schedule"]
    seen = set()
    for step in steps:
        if not set(layers[step["layer"]]["predecessors"]) <= seen:
            found.append(f"layer {step['layer']} is ordered before a predecessor")
        seen.add(step["layer"])
    if seen != set(range(len(layers))) or len(steps) != len(layers):
        return [*found, "not every layer is scheduled once"]

    by_layer = {step["layer"]: step for step in steps}
    for i, step in by_layer.items():
        for p in layers[i]["predecessors"]:
            if step["start_s"] < by_layer[p]["end_s"] * (1 - 1e-9):
                found.append(f"layer {i} starts before its predecessor {p} ends")
        if step["end_s"] - step["start_s"] < step["alone_s"] * (1 - 1e-6):
            found.append(f"layer {i} is faster than it can be")
        nest, chip = document["mappings"][step["mapping"]], chips[step["chiplet"]]
        if nest["template"] != chip["template"]:
            found.append(f"layer {i} has a mapping of another template")
        levels = nest["levels"]
        total = extents(levels, len(levels))
        # The factors cover all of the layer's bounds, or the larger bounds that the nest states.
        wanted = {d: layers[i]["bounds"].get(d, 1) for d in WORDS}
        padded = {d: bound for d, bound in nest.get("padded", {}).items() if bound > wanted[d]}
        if any(total[d] != bound for d, bound in (wanted | padded).items()):
            found.append(f"the mapping of layer {i} does not cover it")
        steps_in_time = math.prod(f for level in levels for f in level["temporal"]["factors"].values())
        if step["alone_s"] * 1e9 < steps_in_time * (1 - 1e-6):
            found.append(f"layer {i} takes fewer cycles than its loops have steps")
        listed = templates[chip["template"]]["levels"][::-1]
        for v, (level, size, kind) in enumerate(zip(levels, chip["levels"], listed, strict=True)):
            words = sum(w for w, k in zip(tile_words(extents(levels, v), layers[i]), level["keep"], strict=True) if k)
            if size["capacity_words"] is not None and words > size["capacity_words"]:
                found.append(f"level {level['name']} of chiplet {step['chiplet']} cannot hold layer {i}")
            if size["capacity_words"] is not None and size["capacity_words"] > kind["capacity_words"]:
                found.append(f"level {level['name']} of chiplet {step['chiplet']} is larger than its template allows")
            for axis, limit in zip("XY", size["fanout"], strict=True):
                if math.prod(f for _, f in level["spatial"][axis]) > limit:
                    found.append(f"layer {i} spreads wider than level {level['name']} of its chiplet")

    for k in range(len(chips)):
        busy = sorted((s["start_s"], s["end_s"]) for s in steps if s["chiplet"] == k)
        if not busy and chips[k]["tile"] not in fixed:
            found.append(f"chiplet {k} stands idle")
        if any(b[0] < a[1] * (1 - 1e-9) for a, b in itertools.pairwise(busy)):
            found.append(f"layers overlap on chiplet {k}")

    seats = [place(k, len(chips), package) for k in range(len(chips))]
    for k, (chip, seat) in enumerate(zip(chips, seats, strict=True)):
        if (chip["interface"], chip["hops"]) != seat:
            found.append(f"chiplet {k} is at {(chip['interface'], chip['hops'])}, not {seat}")

    number = max(i for i, _ in seats) + 1
    contends = package["contention"] != "interface"
    speed = lambda key: math.inf if package[key] == "unlimited" else package[key]  # noqa: E731
    bandwidth = [speed("interface_bytes_per_cycle")] * number
    bandwidth += [speed("dram_bytes_per_cycle") if contends else math.inf]
    bandwidth += [speed("link_bytes_per_cycle") if contends else math.inf] * len(chips)
    passed = [[seat[0], number, number + 1 + k] for k, seat in enumerate(seats)]
    if package["contention"] == "mesh":
        places = interfaces(len(chips), package["placement"], package["interface_counts"])
        routes = [links(k, len(chips), places[seat[0]]) for k, seat in enumerate(seats)]
        mesh = list({link for route in routes for link in route})
        for mine, route in zip(passed, routes, strict=True):
            mine += [len(bandwidth) + mesh.index(link) for link in route]
        bandwidth += [speed("link_bytes_per_cycle")] * len(mesh)
    jobs = [by_layer[i] for i in range(len(layers))]
    plain = simulate(
        [j["alone_s"] * 1e9 for j in jobs],
        [j["offchip_bytes"] for j in jobs],
        [layer["predecessors"] for layer in layers],
        [j["chiplet"] for j in jobs],
        [s["layer"] for s in steps],
        passed,
        bandwidth,
        number=float,
    )
    for i, job in enumerate(jobs):
        if plain.start[i] is None or plain.end[i] is None:
            found.append(f"layer {i} never ends")
        elif not (close(job["start_s"] * 1e9, plain.start[i]) and close(job["end_s"] * 1e9, plain.end[i])):
            found.append(
                f"layer {i} runs {job['start_s']} to {job['end_s']}, not {plain.start[i]} to {plain.end[i]} ns"
            )
    # Checked on the times as written, independently of the simulation.
    for r, limit in enumerate(bandwidth):
        passing = [
            (job["start_s"] * 1e9, job["end_s"] * 1e9, job["offchip_bytes"])
            for job in jobs
            if r in passed[job["chiplet"]]
        ]
        if math.isfinite(limit) and overfull(passing, limit):
            found.append(f"the bandwidth of resource {r} is exceeded")

    if not close(design["latency_s"], max(j["end_s"] for j in jobs)):
        found.append("the latency is not the latest end")
    if not close(design["energy_J"], sum(j["energy_J"] for j in jobs)):
        found.append("the energies do not add up")
    for bounds in (document["bounds"], design["bounds"]):
        for key in ("latency_s", "energy_J", "area_mm2"):
            if design[key] < bounds[key] * (1 - 1e-9):
                found.append(f"{key} is below its lower bound")
    own = len(chips) * (package["router_area_um2"] + package["transceiver_area_um2"]) * 1e-6
    if not close(design["area_mm2"], sum(c["area_mm2"] for c in chips) + own):
        found.append("the areas do not add up")
    return found
