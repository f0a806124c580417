"""The large products of a network in 8 bits, made from its packaged fp32 weights when it is loaded.

A convolution of 1 by 1 is a product of matrices. Activations get 8 bits by the range that they have in the picture at hand, so
nothing is measured beforehand; weights are cut so that every processor finds the same sums (docs/decisions/0042).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

DOMAIN = "com.microsoft"
LEAST_CHANNELS = 96
"""With fewer, a product takes as long in 8 bits as in 32, its activations being cut first."""
LARGE_WEIGHTS = 1_000_000
"""Weights that a product of matrices has at least to be cut: those of the characters at the end of a reader of lines."""
PAIR_LIMIT = 128
"""Largest sum of two neighbouring weights: processors without VNNI add two products, each with up to 255, in 16 bits."""


def with_int8_products(model: "ModelProto", exact: Collection[str] = ()) -> int:
    """Put products of 8 bits in the place of a graph's convolutions of 1 by 1, and of its products by large weights.

    Args:
        model: An ONNX graph; changed in place.
        exact: Names of convolutions that stay as they are, because the result is sensitive to them.

    Returns:
        How many products were replaced.
    """
    from onnx import helper

    graph = _Graph(model.graph)
    nodes = [new for node in model.graph.node for new in ([node] if node.name in exact else graph.replaced(node))]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*tensors, *graph.made])
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return len(graph.made) // 2


def cut_weights(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return weights in 8 bits, and the scale of each column.

    No weight exceeds ``PAIR_LIMIT``, nor do two that are neighbours in a column, taken from its top in pairs: so the sum of
    their products fits 16 bits. Weights of 7 bits would too, but be coarser.

    Args:
        weights: Shape ``(inputs, outputs)``.
    """
    sizes = np.abs(weights)
    sizes = np.concatenate([sizes, np.zeros((len(sizes) % 2, sizes.shape[1]), np.float32)])
    # Rounding adds up to a half to each of the two.
    scales = (sizes[::2] + sizes[1::2]).max(axis=0) / (PAIR_LIMIT - 1)
    scales[scales == 0] = 1
    return np.round(weights / scales).astype(np.int8), scales.astype(np.float32)


class _Graph:
    def __init__(self, graph: "GraphProto") -> None:
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._makers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self._readers[name].append(node)
        self._absorbed: set[str] = set()
        self.made: list[TensorProto] = []

    def replaced(self, node: "NodeProto") -> Iterator["NodeProto"]:
        """Yield what takes the place of a node: itself, or a product in 8 bits."""
        from onnx import helper, numpy_helper

        if node.output[0] in self._absorbed:
            return
        weights = numpy_helper.to_array(self._tensors[node.input[1]]) if self._has_weights(node) else None
        if weights is not None and node.op_type == "Conv" and self._is_product(node, weights):
            yield helper.make_node("Transpose", [node.input[0]], [f"{node.name}.rows"], perm=[0, 2, 3, 1])
            result, bias = self._with_bias(node)
            columns = np.ascontiguousarray(weights[:, :, 0, 0].T)
            yield self._product(node.name, f"{node.name}.rows", columns, f"{node.name}.product", bias)
            yield helper.make_node("Transpose", [f"{node.name}.product"], [result], perm=[0, 3, 1, 2])
        elif weights is not None and node.op_type == "MatMul" and weights.ndim == 2 and weights.size > LARGE_WEIGHTS:
            yield self._product(node.name, node.input[0], weights, *self._with_bias(node))
        else:
            yield node

    def _has_weights(self, node: "NodeProto") -> bool:
        return len(node.input) > 1 and node.input[1] in self._tensors

    def _is_product(self, node: "NodeProto", weights: NDArray[np.float32]) -> bool:
        from onnx import helper

        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        plain = attributes.get("group", 1) == 1 and set(attributes.get("strides", [1])) == {1}
        return (
            plain and weights.shape[2:] == (1, 1) and min(weights.shape[:2]) >= LEAST_CHANNELS and not self._is_pooled(node)
        )

    def _is_pooled(self, node: "NodeProto") -> bool:
        """Tell a convolution of one pixel, which weighs channels, from those of a picture."""
        maker = self._makers.get(node.input[0])
        while maker is not None and maker.op_type == "Identity":
            maker = self._makers.get(maker.input[0])
        return maker is not None and maker.op_type in ("GlobalAveragePool", "ReduceMean")

    def _with_bias(self, node: "NodeProto") -> tuple[str, str]:
        """Return what a product is called once its bias is added, and the bias; "" without one."""
        if len(node.input) > 2:
            return node.output[0], node.input[2]
        readers = self._readers[node.output[0]]
        if len(readers) == 1 and readers[0].op_type == "Add":
            (added,) = [name for name in readers[0].input if name != node.output[0]]
            maker = self._makers.get(added)
            bias = maker.input[0] if maker is not None and maker.op_type == "Reshape" else added
            if bias in self._tensors and len(self._tensors[bias].dims) == 1:
                self._absorbed.add(readers[0].output[0])
                return readers[0].output[0], bias
        return node.output[0], ""

    def _product(self, name: str, rows: str, weights: NDArray[np.float32], result: str, bias: str) -> "NodeProto":
        from onnx import helper, numpy_helper

        cut, scales = cut_weights(weights)
        self.made += [numpy_helper.from_array(cut, f"{name}.weights"), numpy_helper.from_array(scales, f"{name}.scales")]
        inputs = [rows, f"{name}.weights", f"{name}.scales", *(["", bias] if bias else [])]
        return helper.make_node("DynamicQuantizeMatMul", inputs, [result], domain=DOMAIN)
