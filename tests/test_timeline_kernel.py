"""The kernel of the fluid model compared with the loop of array operations and with the references.

Times may differ by single-precision rounding: on GPUs and on some processors the compiler chooses which products and
sums to fuse into one instruction, in either form. Counts are equal.
"""

import functools
import inspect
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AbstractDevice, AbstractMesh
from jax.sharding import PartitionSpec as P
from test_fluid import _arguments, _cases, _random_population, _records

from mohamjax.runtime import platforms
from mohamjax.schedule import fluid, timeline_kernel

_INTERPRETED = not platforms.can_run_kernels()

_scanned = jax.jit(functools.partial(fluid.simulate_block, link=fluid.link_at_once, compact=True))
_in_registers = jax.jit(
    functools.partial(
        fluid.simulate_block,
        link=fluid.link_at_once,
        steps=functools.partial(timeline_kernel.run, interpret=_INTERPRETED),
        compact=True,
    )
)


def columns(cases, jobs, accelerators, resources):
    rows = [_arguments(case, jobs, accelerators, resources, np.float32) for case in cases]
    return _records([jnp.asarray(np.stack(column)) for column in zip(*rows, strict=True)])


def drawn(*sizes):
    """Random schedules in single precision, and which of their axes run over schedules."""
    arguments, axes = _random_population(*sizes)
    return [jnp.asarray(x, jnp.float32) if x.dtype.kind == "f" else jnp.asarray(x) for x in arguments], axes


def drawn_block(*sizes):
    """Arguments of `fluid.simulate_block`: what all schedules share has an axis of size one."""
    arguments, axes = drawn(*sizes)
    return _records([x if axis == 0 else x[None] for x, axis in zip(arguments, axes, strict=True)])


@pytest.fixture
def kernels():
    """`platforms.use_kernels`; the setting is restored afterwards."""
    before = platforms._kernels
    yield platforms.use_kernels
    platforms.use_kernels(before)


def same(records):
    """Runs both and compares their outcomes; returns those of the kernel."""
    one, other = (jax.device_get(run(*records)) for run in (_scanned, _in_registers))
    for name, a, b in zip(one._fields, one, other, strict=True):
        if a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b, err_msg=name)
        else:
            np.testing.assert_allclose(a, b, rtol=2e-6, err_msg=name)
    return other


def test_reference_cases():
    cases = _cases()
    found = same(columns(cases, 100, 16, 16))
    for i, case in enumerate(cases):
        count = len(case["duration"])
        np.testing.assert_allclose(found.makespan[i], case["makespan"], rtol=2e-6)
        np.testing.assert_allclose(found.end[i, :count], case["end"], rtol=2e-6)


def test_the_kernel_takes_no_larger_number_by_what_passes_over_nan():
    """In interpreted kernels `jnp.maximum` passes NaN on as usual; in Triton it returns the other operand."""
    values = jnp.float32([1.0, jnp.nan, 2.0, -jnp.inf]), jnp.float32([jnp.nan, 1.0, 2.5, -1.0])
    np.testing.assert_array_equal(timeline_kernel.larger_of(*values), jnp.maximum(*values))

    def calls(jaxpr):
        for equation in jaxpr.eqns:
            yield equation
            for value in equation.params.values():
                for inner in value if isinstance(value, tuple | list) else (value,):
                    inner = getattr(inner, "jaxpr", inner)
                    if hasattr(inner, "eqns"):
                        yield from calls(inner)

    traced = jax.make_jaxpr(functools.partial(fluid.simulate_block, steps=timeline_kernel.run))(
        *drawn_block(0, 3, 7, 3, 1)
    )
    (kernel,) = [equation for equation in calls(traced.jaxpr) if equation.primitive.name == "pallas_call"]
    inside = list(calls(kernel.params["jaxpr"]))
    assert any(equation.primitive.name == "argmin" for equation in inside)
    larger = [e for e in inside if e.primitive.name == "max" and jnp.issubdtype(e.outvars[0].aval.dtype, jnp.floating)]
    assert not larger, larger


@pytest.mark.slow
@pytest.mark.parametrize(
    ("population", "jobs", "accelerators", "resources"), [(1, 7, 3, 1), (37, 40, 5, 3), (64, 33, 16, 2), (5, 70, 5, 3)]
)
def test_any_sizes(population, jobs, accelerators, resources):
    """Whole warps or not, powers of two or not; three words of predecessors are padded too."""
    found = same(drawn_block(population, population, jobs, accelerators, resources))
    assert (found.reason == fluid.DONE).all()


def test_what_cannot_end():
    """A deadlock, a job without an accelerator, zero bandwidth, and endless durations, beside a case that ends."""
    first = {
        "duration": [4.0, 3.0, 2.0], "bytes": [8.0, 0.0, 4.0], "predecessors": [[], [0], [1]], "accelerator": [0, 1, 0],
        "order": [0, 1, 2], "resources_of_accelerator": [[0, 1], [0]], "resource_bandwidth": [3.0, 5.0],
    }  # fmt: skip
    changes = [
        {}, {"order": [2, 1, 0]}, {"accelerator": [0, -1, 0]}, {"resource_bandwidth": [0.0, 5.0]},
        {"duration": [4.0, np.inf, 2.0]}, {"duration": [4.0, np.nan, 2.0]},
    ]  # fmt: skip
    found = same(columns([{**first, **change} for change in changes], 32, 2, 2))
    assert found.reason.tolist() == [fluid.DONE, fluid.DEADLOCK, fluid.UNPLACED, *[fluid.ENDLESS] * 3]


def test_an_order_that_leaves_a_job_out_without_padding():
    case = {
        "duration": [1.0, 1.0, 1.0], "bytes": [0.0, 0.0, 0.0], "predecessors": [[1], [], []], "accelerator": [0, 1, 1],
        "order": [1, 1, 0], "resources_of_accelerator": [[0], [0]], "resource_bandwidth": [3.0],
    }  # fmt: skip
    assert same(columns([case], 3, 2, 1)).reason.tolist() == [fluid.UNPLACED]


def test_a_kernel_is_taken_where_gpus_can_run_it_unless_somebody_says_otherwise(monkeypatch):
    def taken(*capabilities):
        devices = [types.SimpleNamespace(**given) for given in capabilities]
        monkeypatch.setattr(platforms.jax, "local_devices", lambda: devices)
        platforms.can_run_kernels.cache_clear()
        return platforms.with_kernels()

    monkeypatch.setattr(platforms, "_kernels", None)
    try:
        assert not taken({})  # a CPU
        assert taken({"compute_capability": "9.0"}) and taken({"compute_capability": "12.0"})
        assert not taken({"compute_capability": "9.0"}, {"compute_capability": "7.5"})
        assert not taken({"compute_capability": "gfx90a"})
        assert not taken()
        with monkeypatch.context() as without:

            def gone(name):
                raise ModuleNotFoundError(name)

            without.setattr(platforms.importlib, "import_module", gone)
            assert not taken({"compute_capability": "9.0"})
        for asked in (True, False):
            monkeypatch.setattr(platforms, "_kernels", asked)
            assert taken({"compute_capability": "9.0"}) == asked
    finally:
        platforms.can_run_kernels.cache_clear()


def described_gpu():
    """A mesh with an abstract GPU: newer Pallas versions ask which device they compile for."""
    kind = {"device_kind": "NVIDIA H200", "num_cores": 132, "platform": "gpu"}
    known = inspect.signature(AbstractDevice).parameters
    device = AbstractDevice(**{name: value for name, value in kind.items() if name in known})
    return jax.sharding.use_abstract_mesh(AbstractMesh((1,), ("gpu",), abstract_device=device))


@pytest.mark.slow
def test_a_kernel_is_taken_on_nvidia_gpus_alone_and_where_it_is_asked_for(kernels):
    arguments, axes = drawn(0, 3)

    def text(platform):
        program = jax.jit(jax.vmap(fluid.simulate, in_axes=axes))
        checks = [export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")]
        with described_gpu():
            return export.export(program, platforms=[platform], disabled_checks=checks)(*arguments).mlir_module()

    kernels(False)
    assert "triton" not in text("cuda")
    kernels(True)
    assert "triton" in text("cuda")
    assert "triton" not in text("cpu") and "triton" not in text("tpu")
    kernels(False)
    assert "triton" not in text("cuda")


@pytest.mark.slow
def test_what_the_kernel_writes_is_marked_for_the_check_of_shard_map(kernels):
    """It is marked as varying between devices, so that users need not switch the check off."""
    arguments, axes = drawn(0, 4)
    mesh = jax.make_mesh((1,), ("designs",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = tuple(P("designs") if axis == 0 else P() for axis in axes)
    program = jax.vmap(fluid.simulate, in_axes=axes)
    spread = jax.jit(jax.shard_map(program, mesh=mesh, in_specs=specs, out_specs=P("designs")))
    kernels(True)
    assert "pallas_call" in str(jax.make_jaxpr(spread)(*arguments))
