"""Small ONNX graphs for the importer's tests."""

import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, INT8, UINT8, INT32, BOOL = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT32,
    TensorProto.BOOL,
)


def info(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name, shape, dtype=FLOAT):
    """An initialiser without data: only its dimensions."""
    tensor = TensorProto()
    tensor.name, tensor.data_type = name, dtype
    tensor.dims.extend(shape)
    return tensor


def const(name, array):
    return numpy_helper.from_array(array, name)


def node(op, inputs, outputs, name=None, **attributes):
    return helper.make_node(
        op,
        inputs.split() if isinstance(inputs, str) else inputs,
        outputs.split() if isinstance(outputs, str) else outputs,
        name=name,
        **attributes,
    )


def model(nodes, inputs, outputs, weights=(), *, opset=17, ir=8, functions=(), domains=(), value_info=()):
    """A model; inputs and outputs are `ValueInfoProto`, or just names for outputs."""
    outputs = [info(o, None) if isinstance(o, str) else o for o in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), outputs, list(weights), value_info=list(value_info))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, functions=list(functions))


def save(folder, proto, name="m.onnx"):
    path = folder / name
    path.write_bytes(proto.SerializeToString() if isinstance(proto, onnx.ModelProto) else proto)
    return path


def brief(network):
    """Type and non-unit loop bounds of each layer, in order."""
    return [
        (layer.type, {d: b for d, b in zip("GNKCPQRS", layer.shape.bounds, strict=True) if b > 1})
        for layer in network.layers
    ]


def edges(network):
    """Layer name -> names of its predecessors."""
    names = [layer.name for layer in network.layers]
    return {layer.name: {names[p] for p in layer.predecessors} for layer in network.layers}
