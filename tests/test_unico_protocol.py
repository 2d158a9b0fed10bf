"""The protocol of comparisons: the tables of the paper, and small cases by hand."""

import pathlib
import sys

import moocore
import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "experiments" / "paper"))
from unico_measures import cost_to_reach, hypervolume_difference, mean_of_ratios, ratio_of_means, sign_test

from mohamjax.unico.axes import Axes, distance_to_ideal, nearest_to_ideal

# Distances of Tables 1 and 2 (BERT, MobileNet, ResNet, SRGAN, UNet, ViT, Xception).
EDGE = {
    "hasco": [0.043, 0.07, 0.12, 0.15, 0.19, 0.18, 0.12],
    "nsga2": [0.16, 0.025, 0.05, 0.21, 0.14, 0.15, 0.16],
    "unico": [0.0007, 0.021, 0.029, 0.09, 0.08, 0.13, 0.03],
}
CLOUD = {
    "hasco": [0.02, 0.006, 0.028, 0.061, 0.05, 0.088, 0.018],
    "nsga2": [0.04, 0.024, 0.043, 0.084, 0.068, 0.091, 0.043],
    "unico": [0.002, 0.0048, 0.016, 0.048, 0.037, 0.082, 0.012],
}
# Latency [ms], power [mW], area [mm2] and distance of HASCO and UNICO in Table 1.
EDGE_ROWS = [
    (0.0032, 99.7, 1.1, 0.043),
    (3.33, 160.5, 1.9, 0.07),
    (33.28, 244.3, 1.7, 0.12),
    (281.71, 103.9, 1.6, 0.15),
    (220.06, 303.3, 4.6, 0.19),
    (171.28, 317.9, 6.5, 0.18),
    (35.80, 244.3, 1.7, 0.12),
    (40.91, 57.1, 1.1, 0.029),
    (109.45, 155.2, 3.7, 0.09),
    (85.05, 148.6, 2.8, 0.08),
    (199.37, 176.0, 3.7, 0.13),
    (22.33, 68.7, 1.3, 0.03),
]


@pytest.mark.parametrize(
    ("table", "method", "means", "ratios"),
    [
        (EDGE, "hasco", 2.293, 11.2),
        (EDGE, "nsga2", 2.351, 34.6),
        (CLOUD, "hasco", 1.343, 2.6),
        (CLOUD, "nsga2", 1.947, 5.1),
    ],
)
def test_headline_factors_are_ratios_of_means(table, method, means, ratios):
    assert ratio_of_means(table["unico"], table[method]) == pytest.approx(means, abs=1e-3)
    assert mean_of_ratios(table["unico"], table[method]) == pytest.approx(ratios, abs=0.05)


def test_distances_of_the_paper_are_of_common_axes():
    rows = np.array(EDGE_ROWS)
    axes = Axes((0.0, 18.0, 0.0), (1985.0, 18.0 + 1921.0, 435.0))
    off = np.abs(distance_to_ideal(rows[:, :3], axes) / rows[:, 3] - 1)
    assert np.median(off) < 0.03  # the paper prints two digits
    assert off.max() < 0.1


def test_axes_and_the_nearest_row():
    rows = np.array([[1.0, 100.0, 3.0], [100.0, 1.0, 3.0], [10.0, 10.0, 3.0]])
    linear, log = Axes.of(rows), Axes.of(rows, log=True)
    assert linear.low == (1, 1, 3)
    assert linear.high == (100, 100, 3)
    np.testing.assert_allclose(log.scaled(rows), [[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], atol=1e-12)
    np.testing.assert_allclose(distance_to_ideal(rows, log), [1, 1, np.sqrt(0.5)])
    assert nearest_to_ideal(rows, log) == 2
    assert nearest_to_ideal(rows[:2], linear) == 0
    with pytest.raises(ValueError, match="N >= 1"):
        Axes.of(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="infeasible"):
        Axes.of([[1.0, np.inf, 1.0]])
    with pytest.raises(ValueError, match="logarithmic"):
        Axes.of([[1.0, 0.0, 1.0]], log=True)


def test_hypervolume_difference():
    rng = np.random.default_rng(0)
    rows = np.exp(rng.normal(size=(40, 3)) * 3)
    axes = Axes.of(rows, log=True)
    assert hypervolume_difference(rows, rows, axes) == 0
    assert hypervolume_difference(rows[:0], rows, axes) == 1
    part = rows[:5]
    want = 1 - moocore.hypervolume(axes.scaled(part), ref=[1.1] * 3) / moocore.hypervolume(
        axes.scaled(rows), ref=[1.1] * 3
    )
    assert hypervolume_difference(part, rows, axes) == pytest.approx(want, rel=1e-10)
    assert 0 < want < 1
    with pytest.raises(ValueError, match="reference"):
        hypervolume_difference(rows, rows[:0], axes)


def test_cost_to_reach():
    costs, values = [10, 20, 30], [0.5, 0.3, 0.4]
    assert cost_to_reach(costs, values, 0.3) == 20
    assert cost_to_reach(costs, values, 0.6) == 10
    assert cost_to_reach(costs, values, 0.1) == np.inf


def test_sign_test():
    found = sign_test([1, 2, 3, 4, 5, 6, 7, 8, 9, np.inf], [2, 3, 4, 5, 6, 7, 8, 9, 0, np.inf])
    assert (found.wins, found.losses, found.ties) == (8, 1, 1)
    assert found.p == pytest.approx(2 * (1 + 9) / 2**9)
    assert found.median == -1
    assert sign_test([1.0], [1.0]).p == 1
    with pytest.raises(ValueError, match="NaN"):
        sign_test([1.0], [np.nan])
    with pytest.raises(ValueError, match="one length"):
        sign_test([1.0], [1.0, 2.0])
