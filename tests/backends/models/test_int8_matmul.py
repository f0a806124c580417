import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession

from backends.models.rapidocr_recogniser import cut_weights, with_int8_matmul

CHANNELS = 128
LARGE = 9000


def network(*, size: int = 1) -> ModelProto:
    """Two convolutions with a bias beside them, the first again beside both, and a product by large weights."""
    drawn = np.random.default_rng(7)
    weights = {
        "first": drawn.normal(size=(CHANNELS, CHANNELS, size, size)),
        "first_bias": 50 * drawn.normal(size=(1, CHANNELS, 1, 1)),
        "second": drawn.normal(size=(CHANNELS, CHANNELS, 1, 1)),
        "bias": 500 * drawn.normal(size=CHANNELS),
        "large": drawn.normal(size=(CHANNELS, LARGE)),
        "large_bias": 2000 * drawn.normal(size=LARGE),
    }
    tensors = [numpy_helper.from_array(values.astype(np.float32), name) for name, values in weights.items()]
    tensors.append(numpy_helper.from_array(np.array([1, CHANNELS, 1, 1]), "shape"))
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a0"], "first", pads=[size // 2] * 4),
        helper.make_node("Add", ["a0", "first_bias"], ["a1"]),
        helper.make_node("Identity", ["a1"], ["a"]),
        helper.make_node("Conv", ["a", "second"], ["b"], "second"),
        helper.make_node("Reshape", ["bias", "shape"], ["shaped"]),
        helper.make_node("Add", ["b", "shaped"], ["c"]),
        helper.make_node("Add", ["a", "c"], ["beside"], "beside"),
        helper.make_node("ReduceMean", ["beside"], ["d"], axes=[2], keepdims=0),
        helper.make_node("Transpose", ["d"], ["e"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["e", "large"], ["f"], "large"),
        helper.make_node("Add", ["f", "large_bias"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


def run(model: ModelProto, width: int = 30) -> NDArray[np.float32]:
    picture = np.random.default_rng(8).normal(size=(1, CHANNELS, 6, width)).astype(np.float32)
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": picture})[0])


def test_results_stay_within_a_few_hundredths_with_their_bias() -> None:
    model = network()
    expected = run(model)
    assert with_int8_matmul(model) == 3
    kinds = {"Transpose", "DynamicQuantizeMatMul", "Reshape", "ReduceMean", "Add"}
    assert {node.op_type for node in model.graph.node} == kinds
    assert sum(node.op_type == "Add" for node in model.graph.node) == 1
    output = run(model)
    assert np.linalg.norm(output - expected) < 0.03 * np.linalg.norm(expected)
    assert not np.array_equal(output, expected)


def test_what_must_stay_exact_and_what_is_no_product_stay() -> None:
    model = network()
    assert with_int8_matmul(model, exact=["second", "large"]) == 1
    assert [node.name for node in model.graph.node if node.op_type in ("Conv", "MatMul")] == ["second", "large"]
    model = network(size=3)
    assert with_int8_matmul(model) == 2
    assert [node.name for node in model.graph.node if node.op_type == "Conv"] == ["first"]


def test_activations_that_are_alike_get_exact_results() -> None:
    weights = np.random.default_rng(9).normal(size=(768, 500)).astype(np.float32)
    cut, scales = cut_weights(weights)
    assert np.all(np.abs((cut * scales - weights).sum(axis=0)) <= 0.51 * scales)
