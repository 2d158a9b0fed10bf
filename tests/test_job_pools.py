"""Batches of jobs drawn from the networks of a task: vision, language, recommendation, mixed (G#, Section 5.1.1)."""

import collections
import csv
import json

import numpy as np
import pytest

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.jobs.platform import POOLS, batch_of_layers
from mohamjax.workload import SCENARIOS, TASKS, load_scenario, packaged_networks


@pytest.fixture(scope="module")
def packaged():
    return packaged_networks()


def test_every_packaged_network_is_there_once_and_has_a_task(packaged):
    scenarios = [load_scenario(name) for name in SCENARIOS]
    assert {n.name for n in packaged.networks} == {n.name for one in scenarios for n in one.networks}
    assert len({n.name for n in packaged.networks}) == len(packaged.networks)
    tasks = {n.name: n.task for n in packaged.networks}
    # Table 3 of G# names these, Table 3 of MOHaM the others.
    named = {"bert_large_384": "language", "mobilebert_384": "language", "dlrm_mlperf": "recommendation"}
    assert tasks == {name: named.get(name, "vision") for name in tasks}
    assert {n.name: n.task for one in scenarios for n in one.networks} == tasks


@pytest.mark.parametrize("pool", POOLS)
def test_jobs_are_layers_of_the_pool_and_follow_from_the_seed(packaged, pool):
    batch, again, other = (batch_of_layers(packaged, sample=100, seed=seed, pool=pool) for seed in (5, 5, 6))
    assert (batch.names, batch.layers) == (again.names, again.layers)
    assert batch.names != other.names and len(set(batch.names)) == 100
    tasks = {n.name: n.task for n in packaged.networks}
    layers = {n.name: {(layer.name, layer.type, layer.shape) for layer in n.layers} for n in packaged.networks}
    for name, layer, tenant in zip(batch.names, batch.layers, batch.tenants, strict=True):
        assert (name.partition("/")[2], layer.type, layer.shape) in layers[tenant]
    counts = collections.Counter(tasks[tenant] for tenant in batch.tenants)
    assert set(counts) == (set(TASKS) if pool == "mixed" else {pool})
    if pool == "mixed":
        assert max(counts.values()) - min(counts.values()) <= 1
        # Their order is not fixed: otherwise some rank or place would always be of the same task.
        assert len({tuple(tasks[tenant] for tenant in b.tenants[:9]) for b in (batch, other)}) == 2
    else:
        networks = {n.name for n in packaged.networks if n.task == pool}
        assert len(set(batch.tenants)) >= min(len(networks), 2)


def test_without_a_pool_the_jobs_of_a_seed_are_those_of_the_draw(packaged):
    chosen = np.random.default_rng(1).integers(len(packaged.layers), size=50)
    wanted = [packaged.layers[i].name for i in chosen]
    found = batch_of_layers(packaged, sample=50, seed=1)
    assert [name.partition("/")[2] for name in found.names] == wanted


def test_what_is_no_pool(packaged):
    with pytest.raises(ValueError, match="pool is 'audio'"):
        batch_of_layers(packaged, sample=4, pool="audio")
    with pytest.raises(ValueError, match="how many"):
        batch_of_layers(packaged, pool="vision")


def test_pools_of_a_scenario_of_ones_own(tmp_path, networks):
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        f"networks:\n- {{file: {networks[0]}, task: language, copies: 2}}\n- {{file: {networks[1]}, task: vision}}\n"
    )
    application = load_scenario(mine)
    assert [n.task for n in application.networks] == ["language", "language", "vision"]
    assert set(batch_of_layers(application, sample=40, pool="language").tenants) == {"one", "one#2"}
    assert set(batch_of_layers(application, sample=40, pool="vision").tenants) == {"two"}
    for pool in ("recommendation", "mixed"):
        with pytest.raises(InputError, match=r"needs recommendation networks, .*draw from vision or language"):
            batch_of_layers(application, sample=40, pool=pool)
    mine.write_text(f"networks:\n- {{file: {networks[0]}, task: language}}\n- {networks[1]}\n")
    with pytest.raises(InputError, match="network two: states no task"):
        batch_of_layers(load_scenario(mine), sample=40, pool="language")
    mine.write_text(f"networks:\n- {{file: {networks[0]}, task: languages}}\n")
    with pytest.raises(InputError, match=r"networks\[0\].task: unknown value 'languages'; did you mean 'language'"):
        load_scenario(mine)


COMMAND = ["schedule", "--platform", "S4", "--bandwidth", "1", "--method", "HEFT"]


@pytest.mark.slow
def test_drawn_from_the_command_line(tmp_path, capsys):
    for options, tasks in ((["--pool", "mixed"], TASKS), (["--jobs", "mobile", "--pool", "language"], ("language",))):
        out = tmp_path / options[-1]
        command = [*COMMAND, *options, "--sample", "30", "--seed", "4", "--json", "--no-figures", "--out", str(out)]
        assert main(command) == 0
        summary = json.loads(capsys.readouterr().out)
        assert summary["jobs"] == 30 and f"({options[-1]})" in summary["title"]
        with open(out / "schedule.csv") as stream:
            tenants = {row["tenant"] for row in csv.DictReader(stream)}
        known = {n.name: n.task for n in packaged_networks().networks}
        assert {known[tenant] for tenant in tenants} == set(tasks)
        assert f"pool: {options[-1]}\n" in (out / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pool", "audio", "--sample", "9"], "--pool: 'audio' is not known; use vision, language"),
        (["--pool", "vision"], "--pool: needs the number of jobs to draw; add"),
        (["--sample", "9"], "--jobs: is missing"),
        ([], "--jobs: is missing"),
        (["--pool", "vision", "--sample", "9", "--batch", "2"], "--batch: is for networks of --jobs"),
        (["--jobs", "ar-vr", "--pool", "mixed", "--sample", "9"], "needs language networks, and ar-vr has none"),
        (["--jobs", "ar-vr", "--pool", "language", "--sample", "9"], "draw from vision, or add"),
        (["--jobs", "jobs.csv", "--pool", "vision"], "--pool: is for networks"),
        (["--jobs", "{network}", "--pool", "vision", "--sample", "9"], "network one: states no task"),
    ],
)
def test_pools_that_cannot_be_drawn_from(options, said, networks, capsys):
    options = [option.format(network=networks[0]) for option in options]
    assert main([*COMMAND, *options]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
