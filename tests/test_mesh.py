"""Contention of the mesh's links: routes, binding links, and schedules against an oracle that knows every link."""

import dataclasses
import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_cases import TEMPLATES, application, evaluation, random_designs, recast, tables
from plain_mesh import ends, links
from test_bounds import alike, design
from test_explain_designs import evaluated, rows, with_nests

from mohamjax.hardware import PackageParameters, interface_positions, mesh_routes, package_tables
from mohamjax.io import explain_designs
from mohamjax.schedule import report

KINDS = ([0, 1, 2, 3, 4, 1, 5, 3, 0, 2, 6], [5, 6, 7, 2, 8, 3, 3, 1], [1, 4, 8, 8, 0, 9, 9, 5, 7, 6, 2])
TILES = 16
PACKAGES = [
    PackageParameters(max_tiles=TILES, contention="mesh", link_bandwidth=link, interface_bandwidth=interface, **more)
    for link, interface, more in (
        (2.0, 16.0, {}),
        (3.0, 8.0, {"placement": "middle"}),
        (1.0, 6.0, {"dram_bandwidth": 5.0}),
        (4.0, 12.0, {"interface_counts": ((9, 2), (None, 4))}),
        (16.0, 4.0, {}),
    )
]
CASES = 10
"""Designs of each package."""


@jax.jit
def _timelines(designs, on):
    """The parts of the reports that make up a schedule; the rest is not compiled."""

    def one(design):
        found = report(design, on)
        chips = found.chiplets
        return found.timeline, found.duration, found.offchip_bytes, chips.interface, chips.occupied

    return jax.vmap(one)(designs)


class Found(NamedTuple):
    timeline: Any
    duration: np.ndarray
    offchip_bytes: np.ndarray
    interface: np.ndarray
    occupied: np.ndarray


def timelines(designs, networks, made, package, trunks=True):
    """Schedules in the precision of the tables; without trunks as if the mesh did not contend."""
    with jax.enable_x64(made.cycles.dtype == np.float64):
        on = evaluation(networks, made, package)
        if not trunks:
            known = dataclasses.replace(on.package.tables, trunks=jnp.zeros_like(on.package.tables.trunks))
            on = dataclasses.replace(on, package=dataclasses.replace(on.package, tables=known))
        return Found(*jax.device_get(_timelines(designs, on)))


def problem(seed):
    """Three networks of one size, so that programs are shared, with few dependencies: much runs at once."""
    rng = np.random.default_rng(seed)
    graph = [[[p for p in range(i) if rng.random() < 0.1] for i in range(len(kinds))] for kinds in KINDS]
    return application(*graph, kinds=KINDS)


def plain_ends(package, networks, one, own):
    """Ends of all layers by the oracle, to which every link of the mesh is a resource."""
    standing = np.flatnonzero(own.occupied).tolist()
    places = interface_positions(package, len(standing))
    uses = {tile: {("interface", int(own.interface[tile])), ("DRAM",), ("own", tile)} for tile in standing}
    for k, tile in enumerate(standing):
        uses[tile] |= {("mesh", link) for link in links(k, len(standing), places[own.interface[tile]])}
    keys = list(set().union(*uses.values()))
    table = np.array([[key in uses.get(tile, ()) for key in keys] for tile in range(TILES)])
    speed = {"interface": package.interface_bandwidth, "DRAM": package.dram_bandwidth}
    count = len(networks.layers)
    return ends(
        own.duration[:count],
        own.offchip_bytes[:count],
        [list(layer.predecessors) for layer in networks.layers],
        one.assignment[:count],
        [i for i in one.order.tolist() if i < count],
        table,
        np.array([speed.get(key[0], package.link_bandwidth) for key in keys]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: f"{p.placement} {p.link_bandwidth:g}")
def test_schedules_equal_those_of_an_oracle_that_knows_every_link(package):
    """Fifty cases over the packages; the mesh binds in most of those whose links are narrower than the interfaces."""
    seed = PACKAGES.index(package)
    networks = problem(seed)
    made = tables(networks, seed)
    designs = random_designs(networks, made, seed, CASES, tiles=TILES)
    found = timelines(designs, networks, made, package)
    count = len(networks.layers)
    for i in range(CASES):
        one, own = jax.tree.map(lambda leaf, i=i: leaf[i], (designs, found))
        np.testing.assert_allclose(own.timeline.end[:count], plain_ends(package, networks, one, own), rtol=1e-9)
    without = timelines(designs, networks, made, package, trunks=False)
    moved = np.abs(found.timeline.end - without.timeline.end) > 1e-6 * found.timeline.makespan[:, None]
    other = moved.any(axis=1)
    assert other.sum() >= CASES // 2 if package.link_bandwidth < package.interface_bandwidth else not other.any()


@pytest.mark.slow
def test_unlimited_links_are_contention_of_interfaces_and_wide_ones_that_of_all():
    """Bit for bit, since an unlimited link grants everything; in single precision, which stays near the oracle."""
    networks = problem(1)
    made = recast(tables(networks, 1), np.float32)
    designs = random_designs(networks, made, 1, CASES, tiles=TILES)

    def ended(**changes):
        package = PackageParameters(max_tiles=TILES, **changes)
        return timelines(designs, networks, made, package).timeline.end

    np.testing.assert_array_equal(ended(contention="mesh", link_bandwidth=math.inf), ended(contention="interface"))
    # MOHaM's printed numbers: links of 16 behind interfaces of 4.
    np.testing.assert_array_equal(ended(contention="mesh"), ended(contention="all"))
    np.testing.assert_array_equal(ended(contention="mesh"), ended(contention="interface"))
    found = timelines(designs, networks, made, PACKAGES[0])
    for i in range(CASES):
        one, own = jax.tree.map(lambda leaf, i=i: leaf[i], (designs, found))
        assert own.timeline.makespan == pytest.approx(plain_ends(PACKAGES[0], networks, one, own).max(), rel=5e-6)


COUNTS = (((4, 2), (None, 4)), ((None, 1),), ((None, 3),), ((None, 100),))


@pytest.mark.parametrize("placement", ["corner", "middle"])
def test_links_serve_one_interface_each_and_the_first_of_a_route_is_asked_most(placement):
    """So trunks of two and more chiplets are enough, in every package of up to 30 chiplets."""
    for counts in COUNTS:
        package = PackageParameters(max_tiles=30, contention="mesh", placement=placement, interface_counts=counts)
        known = jax.tree.map(np.asarray, package_tables(package))
        for n in range(1, 31):
            routes = mesh_routes(package, n)
            places = interface_positions(package, n)
            of = known.interface_of[n]
            for tile, route in enumerate(routes):
                assert [frozenset(link) for link in route] == links(tile, n, places[of[tile]])
                assert len(route) == known.hops[n, tile] - 1
            served, carried = {}, {}
            for tile, route in enumerate(routes):
                for link in map(frozenset, route):
                    served.setdefault(link, set()).add(of[tile])
                    carried.setdefault(link, set()).add(tile)
            assert all(len(who) == 1 for who in served.values())
            for route in routes:
                for inner, outer in itertools.pairwise(map(frozenset, route)):
                    assert carried[outer] <= carried[inner]
            wanted = {frozenset(carried[frozenset(r[0])]) for r in routes if r}
            trunk = known.trunks[n]
            listed = [frozenset(np.flatnonzero(column).tolist()) for column in trunk.T if column.any()]
            assert sorted(map(sorted, listed)) == sorted(sorted(w) for w in wanted if len(w) > 1)
            assert (trunk.sum(axis=1) <= 1).all() and not trunk[n:].any()


def test_only_the_mesh_has_trunks():
    for contention in ("all", "interface"):
        assert package_tables(PackageParameters(contention=contention)).trunks is None
    assert package_tables(PackageParameters(contention="mesh")).trunks.shape == (17, 16, 4)


# ---------------------------------------------------------------- by hand, and what is told of it


def test_a_case_worked_out_by_hand():
    """Two chiplets ask for 4 bytes per cycle each behind one trunk of 4, while the interface has 16."""
    networks = application([[], [], [], []])
    made = with_nests(alike(networks, [100] * 4, [400, 400, 40, 400]), 0.5)
    package = PackageParameters(
        max_tiles=4, contention="mesh", link_bandwidth=4.0, interface_bandwidth=16.0, interface_counts=((None, 1),)
    )
    # The interface is at (-1, 0), chiplet 0 at its router; 1 and 3 go along the row, 2 down the column.
    found = evaluated(networks, made, design([0, 1, 2, 3], [0, 1, 2, 3]), package, TEMPLATES[1:2])
    np.testing.assert_allclose(found.reports.timeline.end[0, :4], [100, 200, 100, 200])
    (said,) = explain_designs(rows(1), found)["designs"]
    listed = {row["name"]: row for row in said["resources"] if row["name"].startswith("mesh")}
    assert {name: row["bytes"] for name, row in listed.items()} == {
        "mesh link (0,0)-(1,0)": 800,
        "mesh link (1,0)-(1,1)": 400,
        "mesh link (0,0)-(0,1)": 40,
    }
    assert [row["full"] for row in listed.values()] == [0, 1, 0]
    assert all(row["bytes_per_cycle"] == 4 for row in listed.values())
    for k, stalls in enumerate(({}, {"mesh link (0,0)-(1,0)": 100e-9}, {}, {"mesh link (0,0)-(1,0)": 100e-9})):
        assert said["chiplets"][k]["time"]["stalled_s"] == pytest.approx(stalls)
