"""List schedules compared with a plain scheduler, one package and one rule at a time."""

import numpy as np
import pytest

from mohamjax.problem.list_scheduling import PRIORITIES, ListScheduler, seed_packages

LAYERS, TEMPLATES, ENTRIES = 9, 3, 4


def problem(seed: int, pinned: bool) -> ListScheduler:
    """A random problem in which template 0 runs everything."""
    random = np.random.default_rng(seed)
    unique = random.permutation(LAYERS)  # all different, as the order of tied layers is not defined
    predecessors = [sorted({int(p) for p in random.integers(0, i, 2)}) if i and i % 3 else [] for i in range(LAYERS)]
    count = random.integers(1, ENTRIES + 1, (LAYERS, TEMPLATES))
    count[:, 1] = np.where(random.random(LAYERS) < 0.4, 0, count[:, 1])
    valid = np.arange(ENTRIES) < count[..., None]
    objectives = np.where(valid[..., None], random.uniform(1, 9, (LAYERS, TEMPLATES, ENTRIES, 3)), np.inf)
    duration = np.where(valid, objectives[..., 0] + random.uniform(0, 3, valid.shape), np.inf)
    pin = np.full(LAYERS, -1)
    if pinned:
        pin[[2, 5]] = 0
    return ListScheduler(
        unique=unique,
        network=np.zeros(LAYERS, int),
        predecessors=predecessors,
        able=count[unique] > 0,
        pin=pin,
        count=count,
        objectives=objectives,
        duration=duration,
    )


def plainly(it: ListScheduler, package: tuple[int, ...], chosen: np.ndarray, priority: str):
    """One list schedule, built layer by layer: order, chiplets, mappings, latency, energy, area."""

    def seats(layer):
        pin = it.pin[layer]
        return [s for s, t in enumerate(package) if it.able[layer, t] and pin in (-1, s)]

    def takes(layer, seat):
        u, t = it.unique[layer], package[seat]
        return it.duration[u, t, chosen[u, t]]

    mean = [sum(takes(layer, s) for s in seats(layer)) / len(seats(layer)) for layer in range(LAYERS)]
    followers = [[i for i in range(LAYERS) if layer in it.predecessors[i]] for layer in range(LAYERS)]

    def remaining(layer):
        return mean[layer] + max((remaining(f) for f in followers[layer]), default=0.0)

    order, taken = [], set()
    while len(order) < LAYERS:
        ready = [i for i in range(LAYERS) if i not in taken and set(it.predecessors[i]) <= taken]
        worth = remaining if priority == "heft" else mean.__getitem__
        order.append(max(ready, key=lambda i: (round(worth(i), 9), -i)))
        taken.add(order[-1])
    free, end, tile = [0.0] * len(package), {}, {}
    for layer in order:
        ready_at = max((end[p] for p in it.predecessors[layer]), default=0.0)
        tile[layer] = min(seats(layer), key=lambda s: (max(free[s], ready_at) + takes(layer, s), s))
        end[layer] = free[tile[layer]] = max(free[tile[layer]], ready_at) + takes(layer, tile[layer])
    mapping = [chosen[it.unique[i], package[tile[i]]] for i in range(LAYERS)]
    cost = [it.objectives[it.unique[i], package[tile[i]], mapping[i]] for i in range(LAYERS)]
    area = sum(max(cost[i][2] for i in range(LAYERS) if tile[i] == s) for s in set(tile.values()))
    return order, [tile[i] for i in range(LAYERS)], mapping, max(end.values()), sum(c[1] for c in cost), area


@pytest.mark.slow
@pytest.mark.parametrize("priority", PRIORITIES)
@pytest.mark.parametrize("pinned", [False, True])
def test_schedules_side_by_side_are_those_of_a_plain_scheduler(priority, pinned):
    for seed in range(5):
        it = problem(seed, pinned)
        packages = seed_packages(TEMPLATES, 4, it.able.all(axis=0))
        rules = np.stack(list({rule.tobytes(): rule for rule in it.rules()}.values()))
        good = [p for p in packages if all(any(it.able[i, t] for t in p) for i in range(LAYERS))]
        if pinned:
            good = [p for p in good if all(it.able[i, p[0]] for i in (2, 5))]
        plans = it.plans(good, priority)
        assert len(plans) == len(good) * len(rules)
        for b, (package, chosen) in enumerate((p, c) for p in good for c in rules):
            order, tile, mapping, *estimate = plainly(it, package, chosen, priority)
            assert tuple(plans.package[b][plans.package[b] >= 0]) == package
            position = np.argsort(plans.order[b])
            assert all(position[p] < position[i] for i in range(LAYERS) for p in it.predecessors[i])
            assert plans.order[b].tolist() == order
            assert plans.tile[b].tolist() == tile
            assert plans.mapping[b].tolist() == mapping
            np.testing.assert_allclose(plans.estimate[b], estimate, rtol=1e-12)


@pytest.mark.parametrize("pinned", [False, True])
def test_no_package_gives_no_schedules(pinned):
    it = problem(0, pinned)
    only = next(t for t in range(TEMPLATES) if not it.able[:, t].all())
    for packages in ([], [(only,)]):
        for priority in PRIORITIES:
            plans = it.plans(packages, priority)
            assert len(plans) == 0 and plans.order.shape == (0, LAYERS)


def test_packages_have_the_sizes_that_are_asked_for():
    runs_all = np.array([True, False, True])
    assert {len(p) for p in seed_packages(TEMPLATES, 7, runs_all)} == {1, 2, 3, 4, 6, 7}
    assert {len(p) for p in seed_packages(TEMPLATES, 11, runs_all, [9, -3, 40])} == {1, 2, 3, 4, 6, 8, 9, 11}


def test_a_layer_that_many_wait_for_goes_first_under_heft_and_the_longest_under_lpt():
    """Layer 0 (1 cycle) starts a chain of 1 + 5; layer 2 (4 cycles) stands alone: upward ranks 6, 5, 4."""
    it = ListScheduler(
        unique=np.arange(3),
        network=np.array([0, 0, 1]),
        predecessors=[[], [0], []],
        able=np.ones((3, 1), bool),
        pin=np.full(3, -1),
        count=np.ones((3, 1), int),
        objectives=np.ones((3, 1, 1, 3)),
        duration=np.array([1.0, 5.0, 4.0]).reshape(3, 1, 1),
    )
    heft, lpt = (it.plans([(0, 0)], priority) for priority in PRIORITIES)
    assert heft.order[0].tolist() == [0, 1, 2] and heft.estimate[0, 0] == 6
    assert lpt.order[0].tolist() == [2, 0, 1] and lpt.tile[0].tolist() == [1, 1, 0]


def test_of_layers_alike_those_of_the_network_with_less_work_go_first():
    """Network 0 has layers of 3 and 2, network 1 one of 2: ranks 5, 2, 2; under LPT 2 and 2 remain after the 3."""
    it = ListScheduler(
        unique=np.array([0, 1, 1]),
        network=np.array([0, 0, 1]),
        predecessors=[[], [0], []],
        able=np.ones((3, 1), bool),
        pin=np.full(3, -1),
        count=np.ones((2, 1), int),
        objectives=np.ones((2, 1, 1, 3)),
        duration=np.array([3.0, 2.0]).reshape(2, 1, 1),
    )
    for priority in PRIORITIES:
        plan = it.plans([(0,)], priority)
        assert plan.order[0].tolist() == [0, 2, 1] and plan.estimate[0, 0] == 7
