"""Off-chip partial sums: outputs that are read were written before, and a suitable loop order keeps them on chip."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_cases import chains, random_designs, tables
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mapping_cases import LEVELS, TECHNOLOGY, quick_jit, random_shape, toy
from test_explain_designs import PACKAGE, evaluated, rows

from mohamjax.dims import O
from mohamjax.hardware import template_arrays
from mohamjax.io import explain_designs, explanations_text
from mohamjax.mapping.accesses import Counting, count_accesses
from mohamjax.mapping.space import constraints, decode, layer_arrays, map_space, sample
from mohamjax.schedule.partial_sums import partial_sum_bytes
from mohamjax.schedule.recommended import told_of_partial_sums

COUNT, DRAM = 16, 2


def kept(template):
    """The template with the reduction loops innermost at its off-chip level."""
    (flow,) = template.dataflows
    levels = (*flow.rules[:-1], dataclasses.replace(flow.rules[-1], order=("C", "R", "S")))
    return dataclasses.replace(template, dataflows=(dataclasses.replace(flow, rules=levels),))


@quick_jit
def off_chip(key, problem, layer, machine):
    """`[COUNT, 2]`, output words that random nests read from and write to the off-chip level."""

    def one(key):
        counts = count_accesses(layer, decode(sample(key, problem), problem), machine, Counting(wires=False))
        words = jnp.stack([counts.reads, counts.updates], axis=-1) * counts.instances_used[:, None, None]
        return words[DRAM, O]

    return jax.vmap(one)(jax.random.split(key, COUNT))


def drawn(template, shape, seed):
    machine = jax.tree.map(lambda leaf: np.asarray(leaf[0]), template_arrays((template,), TECHNOLOGY, LEVELS).machine)
    problem = map_space(shape, constraints(template, "conv", shape, LEVELS), machine, 24)
    layer = layer_arrays(shape)
    return np.asarray(off_chip(jax.random.key(seed), jax.tree.map(jnp.asarray, problem), layer, machine)).T


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
@example(seed=6125007)
def test_sums_that_are_read_were_written_and_an_order_keeps_them_on_the_chip(seed):
    shape = random_shape(np.random.default_rng(seed))
    outputs = shape.tensor_words[O]
    read, written = drawn(toy(capacity=(64, 4096)), shape, seed)
    # Both are single precision, and may be many times their difference.
    np.testing.assert_array_less(np.abs(written - read - outputs), 1e-5 * outputs + 1e-6 * written)
    read, written = drawn(kept(toy(capacity=(64, 4096))), shape, seed)
    assert (read == 0).all()
    np.testing.assert_allclose(written, outputs, rtol=1e-6)


def test_without_the_order_some_nests_spill():
    shape = random_shape(np.random.default_rng(4))
    shape = dataclasses.replace(shape, C=42, K=30, P=14, Q=14)
    read, _ = drawn(toy(capacity=(64, 4096)), shape, 4)
    assert (read > 0).any()


def spilling(made, share):
    """Tables in which `share` output words are read off-chip, and 8 other words are moved."""
    words = np.zeros_like(made.offchip_words)
    words[..., :2, 0], words[..., O, 1] = 4.0 - share, 2.0 * share
    words[..., O, 0] = share
    return dataclasses.replace(made, offchip_words=words)


@pytest.mark.slow
def test_an_explanation_tells_the_partial_sums():
    problem = chains(0)
    plain = tables(problem, 0)
    designs = random_designs(problem, plain, 0, 3, tiles=4)
    made = spilling(plain, 1.0)  # 6 words of weights and inputs, 1 read, 2 written
    found = evaluated(problem, made, designs, PACKAGE)
    document = explain_designs(rows(3), found)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    for said in document["designs"]:
        traffic = [layer["offchip_bytes"] for layer in said["layers"]]
        sums = said["partial_sums"]
        assert [layer["partial_sum_bytes"] for layer in said["layers"]] == pytest.approx([x * 2 / 9 for x in traffic])
        assert sums["bytes"] == pytest.approx(sum(traffic) * 2 / 9)
        assert (sums["offchip_bytes"], sums["layers"], sums["of_layers"]) == (pytest.approx(sum(traffic)), 9, 9)
        assert sums["word_bits"] == [8]
        assert "in 9 of 9 layers" in sums["told"] and "order: [C, R, S]" in sums["told"]
    text = explanations_text(document)
    assert text.count("are partial sums") == 3 and "8 bits" in text
    assert "are partial sums, in 9 of 9 layers" in told_of_partial_sums(found, 1)


def test_where_nothing_spills_nothing_is_said():
    problem = chains(0)
    plain = tables(problem, 0)
    made = spilling(plain, 0.0)
    found = evaluated(problem, made, random_designs(problem, plain, 0, 1, tiles=4), PACKAGE)
    document = explain_designs(rows(1), found)
    (said,) = document["designs"]
    assert "partial_sums" not in said and all("partial_sum_bytes" not in layer for layer in said["layers"])
    assert "partial sums" not in explanations_text(document) and told_of_partial_sums(found, 0) == ""


def test_bytes_of_many_designs_are_those_of_each():
    problem = chains(1)
    plain = tables(problem, 1)
    made = spilling(plain, 0.5)
    found = evaluated(problem, made, random_designs(problem, plain, 1, 5, tiles=4), PACKAGE)
    unique = np.asarray(problem.unique_of_layer)
    every = partial_sum_bytes(found.designs, found.reports, made, unique)
    for i in range(5):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], (found.designs, found.reports))
        np.testing.assert_allclose(partial_sum_bytes(*one, made, unique), every[i])
