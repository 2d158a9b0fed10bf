"""The importer's shape rules compared with the results in the operator test suite of the onnx package."""

import warnings

import numpy as np
import pytest
from onnx.backend.test.case.node import collect_testcases

from mohamjax.errors import InputError
from mohamjax.workload import control_flow  # noqa: F401 -- the walk finds control flow by name
from mohamjax.workload.plan import static_shape
from mohamjax.workload.tensor import INT64, Tensor
from mohamjax.workload.walk import Walk

pytestmark = pytest.mark.slow  # the suite generates its cases: about ten seconds

# Sizes depend on data, or no rule gives the result (strings, optimisers, images, trees).
UNKNOWN = {
    "Adagrad", "Adam", "ArrayFeatureExtractor", "ImageDecoder", "LabelEncoder", "Momentum", "NonMaxSuppression",
    "StringNormalizer", "StringSplit", "TfIdfVectorizer", "TreeEnsemble", "Unique",
    "CausalConvWithState", "LinearAttention",
}  # fmt: skip
REFUSED_CASES = {"test_convtranspose_3d"}


def given(info, value):
    """A graph input as the importer would see it, with its values if there are few."""
    _, dtype, _ = static_shape(info, {})
    if value is None or isinstance(value, list):
        members = [Tensor(np.asarray(v).shape, dtype, producers=frozenset()) for v in value or ()]
        return Tensor(None, dtype, producers=frozenset(), elements=members, sequence=True)
    array = np.asarray(value)
    data = array if array.dtype.kind in "iubf" and array.size < 1000 else None
    return Tensor(array.shape, dtype, data=data, producers=frozenset())


def outputs(proto, values):
    walk = Walk(proto, "case.onnx", lambda line: None)
    inputs = {info.name: given(info, v) for info, v in zip(proto.graph.input, values, strict=False)}
    scope = walk.run(inputs)
    return [scope[info.name] for info in proto.graph.output]


@pytest.fixture(scope="module")
def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in collect_testcases(None) if case.model is not None and case.data_sets]


def shape_of(value):
    """Shape of an expected result; None for other than plain arrays (sequences, packed narrow types)."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return None
    return np.asarray(value).shape


@pytest.mark.filterwarnings("ignore")
def test_shapes_and_folded_values(cases):
    wrong, unknown, refused, checked, folded = [], [], [], 0, 0
    for case in cases:
        operators = {n.op_type for n in case.model.graph.node}
        inputs, expected = case.data_sets[0]
        if not all(isinstance(v, (np.ndarray, np.generic, list)) or v is None for v in inputs):
            continue  # packed four-bit and eight-bit floats are protobuf messages, not arrays
        try:
            made = outputs(case.model, inputs)
        except InputError as error:
            refused.append((case.name, operators, str(error)))
            continue
        for tensor, value in zip(made, expected, strict=False):
            want = shape_of(value)
            if want is None or tensor.sequence:
                continue
            if tensor.shape is None or None in tensor.shape:
                unknown.append((case.name, operators))
                continue
            checked += 1
            if tensor.shape != want:
                wrong.append((case.name, tensor.shape, want))
            elif tensor.values_known and np.asarray(value).dtype.kind in "iubf":
                folded += 1
                got = np.asarray(tensor.data, np.float64)
                if not np.allclose(got, np.asarray(value, np.float64), rtol=1e-3, atol=1e-5, equal_nan=True):
                    wrong.append((case.name, "values"))
    assert wrong == []
    assert [x for x in unknown if not x[1] & UNKNOWN and "range" not in x[0]] == []
    assert [x for x in refused if x[0] not in REFUSED_CASES] == []
    assert checked > 1500 and folded > 500


def test_element_types(cases):
    wrong = []
    for case in cases:
        if {n.op_type for n in case.model.graph.node} & UNKNOWN or case.name in REFUSED_CASES:
            continue
        for tensor, info in zip(outputs(case.model, case.data_sets[0][0]), case.model.graph.output, strict=True):
            stated = static_shape(info, {})[1]
            if stated and tensor.dtype not in (0, stated):
                wrong.append((case.name, tensor.dtype, stated))
    assert wrong == []


def test_a_size_query_is_a_constant(cases):
    shapes = [case for case in cases if case.name.startswith(("test_shape_", "test_size"))]
    assert shapes
    for case in shapes:
        (tensor,) = outputs(case.model, case.data_sets[0][0])
        assert tensor.const and tensor.dtype == INT64 and not tensor.producers
