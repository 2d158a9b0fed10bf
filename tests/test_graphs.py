"""Graphs of published networks: multiply-accumulates and parameters against the published figures."""

import pytest
from graphs import NETWORKS, PUBLISHED, built, written

from mohamjax.workload import load_scenario


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    return {name: load_scenario(written(name, folder)).networks[0] for name in NETWORKS}


@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_those_published(networks, name):
    """Within the rounding of the published figure; a layer with a bias or a repeated one would be off by far more."""
    assert networks[name].macs == pytest.approx(PUBLISHED[name].macs, rel=2e-3)
    assert built(name)[1] == PUBLISHED[name].parameters


def test_attention_is_a_part_of_the_published_figure(networks):
    """Queries with keys and shares with values: 12 layers, 197 tokens, width 768; no weights in them."""
    of_activations = [layer for layer in networks["vit_b16"].layers if layer.type == "bmm"]
    assert len(of_activations) == 24
    assert sum(layer.macs for layer in of_activations) == 12 * 2 * 197**2 * 768


def test_layers_by_kind(networks):
    """Convolutions of every cell and block: none is missing, none twice."""

    def number(name, kind):
        return sum(layer.type == kind for layer in networks[name].layers)

    assert number("convnext_tiny", "dwconv") == 18 and number("convnext_base", "dwconv") == 36
    assert number("efficientnet_v2_s", "dwconv") == 30
    # 5 pairs in 12 normal cells and in 4 reduction cells.
    assert number("nasnet_mobile", "dwconv") == 2 * 5 * (12 + 4)


def test_a_written_file_stays(tmp_path):
    path = written("convnext_tiny", tmp_path)
    before = path.stat().st_mtime_ns
    assert written("convnext_tiny", tmp_path) == path and path.stat().st_mtime_ns == before
    assert path.stat().st_size < 300_000
