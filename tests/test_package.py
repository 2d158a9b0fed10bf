"""The package: meshes, interfaces and hops, computed by hand for small packages."""

import dataclasses
import itertools
import math

import jax
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.errors import InputError
from mohamjax.hardware import (
    Memory,
    PackageParameters,
    interface_positions,
    load_package,
    nop_energy,
    package_from_dict,
    package_tables,
    package_to_dict,
)

# n: columns, positions of the interfaces, interface of every tile, hops (corner placement, default counts)
CORNER = {
    # [w 0 e]
    1: (1, [(-1, 0), (1, 0)], [1], [1]),
    # [w 0 1 e]
    2: (2, [(-1, 0), (2, 0)], [0, 1], [1, 1]),
    # [w 0 1 e / 2]: tile 2 is 2 from the west, 3 from the east
    3: (2, [(-1, 0), (2, 0)], [0, 1, 0], [1, 1, 2]),
    4: (2, [(-1, 0), (2, 0)], [0, 1, 0, 1], [1, 1, 2, 2]),
    # [w0 0 1 2 e1 / w2 3 4 e3]: tile 1 ties between west and east (2), tile 4 is 2 from both
    5: (3, [(-1, 0), (3, 0), (-1, 1), (3, 1)], [0, 1, 1, 2, 3], [1, 2, 1, 1, 2]),
    6: (3, [(-1, 0), (3, 0), (-1, 1), (3, 1)], [0, 1, 1, 2, 3, 3], [1, 2, 1, 1, 2, 1]),
    # rows 0 and 2 have interfaces; ties in the middle row go to the highest index
    9: (
        3,
        [(-1, 0), (3, 0), (-1, 2), (3, 2)],
        [0, 1, 1, 2, 3, 3, 2, 3, 3],
        [1, 2, 1, 2, 3, 2, 1, 2, 1],
    ),
    16: (
        4,
        [(-1, 0), (4, 0), (-1, 3), (4, 3)],
        [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3],
        [1, 2, 2, 1, 2, 3, 3, 2, 2, 3, 3, 2, 1, 2, 2, 1],
    ),
}
MIDDLE = {
    3: (2, [(-1, 0), (2, 0)], [0, 1, 0], [1, 1, 2]),
    # interfaces on rows 1 and 2
    9: (
        3,
        [(-1, 1), (3, 1), (-1, 2), (3, 2)],
        [0, 1, 1, 0, 1, 1, 2, 3, 3],
        [2, 3, 2, 1, 2, 1, 1, 2, 1],
    ),
    16: (
        4,
        [(-1, 1), (4, 1), (-1, 2), (4, 2)],
        [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3],
        [2, 3, 3, 2, 1, 2, 2, 1, 1, 2, 2, 1, 2, 3, 3, 2],
    ),
}


@pytest.mark.parametrize(
    ("placement", "n", "case"),
    [(p, n, case) for p, cases in (("corner", CORNER), ("middle", MIDDLE)) for n, case in cases.items()],
)
def test_by_hand(placement, n, case):
    columns, positions, interface, hops = case
    params = PackageParameters(placement=placement)
    tables = package_tables(params)
    assert interface_positions(params, n) == positions
    assert tables.columns[n] == columns
    assert tables.interfaces[n] == len(positions)
    assert tables.interface_of[n, :n].tolist() == interface
    assert tables.hops[n, :n].tolist() == hops


def test_rows_of_many_interfaces():
    many = ((None, 100),)
    corner = PackageParameters(max_tiles=25, interface_counts=many)
    middle = PackageParameters(max_tiles=25, interface_counts=many, placement="middle")
    assert [y for _, y in interface_positions(corner, 25)] == [0, 0, 4, 4, 1, 1, 3, 3, 2, 2]
    assert [y for _, y in interface_positions(middle, 25)] == [2, 2, 3, 3, 1, 1, 4, 4, 0, 0]
    assert [y for _, y in interface_positions(middle, 16)] == [1, 1, 2, 2, 0, 0, 3, 3]
    assert [x for x, _ in interface_positions(corner, 25)] == [-1, 5] * 5
    assert corner.max_interfaces == 10


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 20),
    st.sampled_from(["corner", "middle"]),
    st.lists(st.integers(1, 12), min_size=1, max_size=3),
)
def test_properties(n, placement, counts):
    limits = [*range(4, 4 * len(counts), 4), None]
    params = PackageParameters(
        max_tiles=n,
        placement=placement,
        interface_counts=tuple(zip(limits, counts, strict=True)),
    )
    tables = jax.tree.map(np.asarray, package_tables(params))
    assert tables.interface_of.shape == tables.hops.shape == (n + 1, n)
    for k in range(1, n + 1):
        positions = interface_positions(params, k)
        columns = math.ceil(math.sqrt(k))
        rows = math.ceil(k / columns)
        assert len(set(positions)) == len(positions) <= 2 * rows
        assert all(x in (-1, columns) and 0 <= y < rows for x, y in positions)
        assert tables.interfaces[k] == len(positions) <= params.max_interfaces
        for tile in range(k):
            distance = [abs(tile % columns - x) + abs(tile // columns - y) for x, y in positions]
            best = int(tables.interface_of[k, tile])
            assert tables.hops[k, tile] == min(distance) == distance[best]
            assert min(distance) not in distance[best + 1 :]
        assert np.all(tables.interface_of[k, k:] == -1)
        assert not np.any(tables.hops[k, k:])
    assert tables.columns[0] == tables.interfaces[0] == 0


def test_energy_of_the_network():
    assert nop_energy(1000.0, 3.0, PackageParameters().hop_energy) == pytest.approx(1000 * 8 * 3 * 0.82)


# Config files


def test_defaults_and_round_trip():
    default = PackageParameters()
    assert package_from_dict({}) == default
    assert package_from_dict(package_to_dict(default)) == default
    other = PackageParameters(
        max_tiles=9,
        link_bandwidth=math.inf,
        interface_bandwidth=8.0,
        dram_bandwidth=32.0,
        hop_energy=1.5,
        router_area=100.0,
        transceiver_area=7.0,
        contention="interface",
        placement="middle",
        interface_counts=((2, 1), (6, 3), (None, 6)),
        memory=Memory(energy=4.5),
    )
    assert package_from_dict(package_to_dict(other)) == other


@pytest.mark.parametrize("memory", [Memory("HBM2"), Memory(energy=0.0), None])
def test_memory_round_trip(memory):
    package = PackageParameters(memory=memory, dram_bandwidth=64.0)
    data = package_to_dict(package)
    assert package_from_dict(data) == package
    # Keys that are not given come from the default, here a different one.
    other = PackageParameters(memory=Memory("HMC"), dram_bandwidth=2.0)
    assert package_from_dict(data, default=other) == package
    assert package_from_dict({"memory": {}}, default=other) == other
    assert package_from_dict({"memory": {"bytes_per_cycle": 8}}, default=other).memory == other.memory
    assert package_from_dict({"memory": {"type": "DDR3"}}, default=other).dram_bandwidth == 2.0


def test_both_forms_of_the_bandwidth_say_the_same():
    grouped = package_from_dict({"memory": {"type": "LPDDR4", "bytes_per_cycle": 32}})
    assert grouped == package_from_dict({"dram_bytes_per_cycle": 32}) == PackageParameters(dram_bandwidth=32.0)
    assert package_from_dict({"memory": {"bytes_per_cycle": "unlimited"}}) == PackageParameters()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Memory(), "neither"),
        (lambda: Memory("HBM2", 3.9), "both"),
        (lambda: Memory("HBM3"), "known are LPDDR4, LPDDR"),
        (lambda: Memory(energy=math.nan), "pJ per bit"),
        (lambda: dataclasses.replace(PackageParameters(), memory="HBM2"), "is no memory"),
    ],
)
def test_memories_of_python_are_checked(make, told):
    with pytest.raises(InputError, match=told):
        make()


def test_file(tmp_path):
    path = tmp_path / "package.yaml"
    path.write_text(yaml.safe_dump(package_to_dict(PackageParameters(max_tiles=4, placement="middle"))))
    assert load_package(path) == PackageParameters(max_tiles=4, placement="middle")
    path.write_text("max_tile: 4\n")
    with pytest.raises(InputError, match=r"package.yaml: max_tile: unknown key"):
        load_package(path)
    with pytest.raises(InputError, match="no such file"):
        load_package(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("field", "value", "parts"),
    [
        ("interface_bandwidth", 0, ["0 is too small", "above 0"]),
        ("interface_bandwidth", -1.0, ["-1.0 is too small", "above 0"]),
        ("link_bandwidth", math.nan, ["nan", "number"]),
        ("link_bandwidth", np.float32(0), ["0.0 is too small", "above 0"]),
        ("dram_bandwidth", None, ["package.dram_bandwidth"]),
        ("dram_bandwidth", "fast", ["'fast'", "or `unlimited`"]),
        ("hop_energy", -0.1, ["-0.1 is too small", "at least 0"]),
        ("hop_energy", math.inf, ["inf is not finite"]),
        ("router_area", "1", ["expected a number"]),
        ("transceiver_area", math.nan, ["expected a number"]),
        ("max_tiles", 2.5, ["2.5 is not whole"]),
        ("max_tiles", 0, ["0 is too small", "at least 1"]),
        ("max_tiles", True, ["expected a whole number"]),
        ("contention", "none", ["known: all, interface, mesh"]),
        ("placement", "corners", ["did you mean 'corner'"]),
        ("interface_counts", (), ["is empty", "[[4, 2], [null, 4]]"]),
        ("interface_counts", ((4, 2),), ["not in order"]),
        ("interface_counts", ((None, 0),), ["at least 1"]),
        ("memory", "HBM2", ["is no memory"]),
    ],
)
def test_a_package_of_nonsense_is_refused_where_it_is_made(field, value, parts):
    with pytest.raises(InputError) as error:
        PackageParameters(**{field: value})
    message = str(error.value)
    assert message.startswith(f"package.{field}")
    assert all(part in message for part in parts), message
    assert error.value.remedy


def test_bandwidths_have_one_name_and_files_may_use_the_older_one():
    given = {"link_bandwidth": 8, "interface_bandwidth": 2.5, "dram_bandwidth": "unlimited"}
    older = {name.replace("bandwidth", "bytes_per_cycle"): value for name, value in given.items()}
    package = PackageParameters(**given)
    assert package_from_dict(given) == package_from_dict(older) == package
    assert package_from_dict({"memory": {"bytes_per_cycle": 3}}) == package_from_dict({"dram_bandwidth": 3})
    for name in given:
        old = name.replace("bandwidth", "bytes_per_cycle")
        with pytest.raises(InputError, match=f"package.{old}: is given twice: `{name}` of the package is the same"):
            package_from_dict({name: 4, old: 4})
    with pytest.raises(InputError, match=r"package.memory.bytes_per_cycle: is given twice: `dram_bandwidth`"):
        package_from_dict({"memory": {"bytes_per_cycle": 8}, "dram_bandwidth": 8})


def test_a_package_takes_numbers_of_every_kind():
    given = PackageParameters(
        max_tiles=np.int64(4), link_bandwidth="unlimited", hop_energy=np.float32(1), interface_counts=[[None, 2]]
    )
    assert given == PackageParameters(
        max_tiles=4, link_bandwidth=math.inf, hop_energy=1.0, interface_counts=((None, 2),)
    )
    assert hash(given) == hash(dataclasses.replace(given))
    # Arrays come from callers who trace or sweep them: their values are not checked.
    assert PackageParameters(interface_bandwidth=np.array([0.0, 4.0])).interface_bandwidth.shape == (2,)
    energy = jax.jit(lambda pj: PackageParameters(hop_energy=pj).hop_energy * 2)(0.5)
    assert float(energy) == 1.0


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ({"max_tile": 4}, ["package.max_tile", "did you mean 'max_tiles'"]),
        ({"max_tiles": 0}, ["package.max_tiles", "too small"]),
        ({"max_tiles": 10**6}, ["package.max_tiles", "up to 1024"]),
        ({"max_tiles": 2.5}, ["package.max_tiles", "not whole"]),
        ({"max_tiles": True}, ["package.max_tiles", "expected a whole number"]),
        ({"link_bytes_per_cycle": 0}, ["package.link_bytes_per_cycle", "above 0"]),
        ({"interface_bytes_per_cycle": "fast"}, ["package.interface_bytes_per_cycle", "'fast'", "or `unlimited`"]),
        ({"hop_energy_pJ_per_bit": -1}, ["package.hop_energy_pJ_per_bit", "at least 0"]),
        ({"router_area_um2": math.nan}, ["package.router_area_um2", "expected a number"]),
        ({"contention": "none"}, ["package.contention", "known: all, interface, mesh"]),
        ({"placement": "corners"}, ["package.placement", "did you mean 'corner'"]),
        ({"memory": "HBM2"}, ["package.memory", "expected a mapping"]),
        ({"memory": {"type": "HBM3"}}, ["package.memory.type", "known are LPDDR4, LPDDR"]),
        ({"memory": {"energy": 4}}, ["package.memory.energy", "unknown key", "energy_pJ_per_bit"]),
        ({"memory": {"energy_pJ_per_bit": -1}}, ["package.memory.energy_pJ_per_bit", "at least 0"]),
        ({"memory": {"type": "HBM2", "energy_pJ_per_bit": 4}}, ["package.memory", "both", "keep one of the two"]),
        ({"memory": {"bytes_per_cycle": 0}}, ["package.memory.bytes_per_cycle", "above 0"]),
        (
            {"memory": {"bytes_per_cycle": 8}, "dram_bytes_per_cycle": 8},
            ["package.memory.bytes_per_cycle", "given twice", "keep one of the two"],
        ),
        ({"interface_counts": 4}, ["package.interface_counts", "expected a list"]),
        ({"interface_counts": []}, ["package.interface_counts", "is empty"]),
        ({"interface_counts": [4]}, ["package.interface_counts[0]", "expected a list", "[most chiplets, interfaces]"]),
        ({"interface_counts": [[4, 2]]}, ["package.interface_counts[0]", "not in order"]),
        ({"interface_counts": [[None, 2], [4, 2]]}, ["package.interface_counts[0]", "not in order"]),
        ({"interface_counts": [[4, 2], [4, 3], [None, 4]]}, ["package.interface_counts[1]", "at least 5"]),
        ({"interface_counts": [[4, 0], [None, 4]]}, ["package.interface_counts[0]", "at least 1"]),
        ([1], ["package", "expected a mapping"]),
    ],
)
def test_bad_package_is_one_line_that_says_where(data, parts):
    with pytest.raises(InputError) as error:
        package_from_dict(data, file="config.yaml")
    message = str(error.value)
    assert message.startswith("config.yaml: ")
    assert "\n" not in message
    assert error.value.remedy
    for part in parts:
        assert part in message


def test_hand_cases_cover_both_placements_and_ties():
    # The cases above must contain tiles with two interfaces at the same distance.
    ties = 0
    for n, (columns, positions, _, hops) in itertools.chain(CORNER.items(), MIDDLE.items()):
        for tile in range(n):
            distance = [abs(tile % columns - x) + abs(tile // columns - y) for x, y in positions]
            ties += distance.count(hops[tile]) > 1
    assert ties >= 5
