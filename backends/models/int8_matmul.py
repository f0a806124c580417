"""Quantise a network's 1×1 convolutions and large matmuls to int8.

Scales of activations are computed per picture; weights are bounded so that every processor gets the same sums
(docs/decisions/0009).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

PRODUCT, DOMAIN = "DynamicQuantizeMatMul", "com.microsoft"
LEAST_CHANNELS = 96
"""With fewer channels, int8 isn't faster than fp32."""
LARGE_WEIGHTS = 1_000_000
"""Minimum number of weights of a matmul to be quantised: that of the output classes."""
PAIR_LIMIT = 128
"""Maximum sum of two neighbouring weights: processors without VNNI add two products, each with up to 255, in 16 bits."""

TO_ROWS, TO_CHANNELS = (0, 2, 3, 1), (0, 3, 1, 2)
"""Permutations of an image's axes: channels last, and back."""


def with_int8_matmul(model: "ModelProto", exact: Collection[str] = ()) -> int:
    """Replace a graph's 1×1 convolutions and large matmuls by int8 matmuls, in place, except the convolutions in ``exact``.

    Returns:
        The number of replacements.
    """
    from onnx import helper

    _drop_identities(model.graph)
    graph = _Graph(model.graph)
    nodes = [
        replacement for node in model.graph.node for replacement in ([node] if node.name in exact else graph.replaced(node))
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    tensors = [tensor for tensor in [*model.graph.initializer, *graph.made] if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return sum(node.op_type == PRODUCT for node in nodes)


def cut_weights(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise weights, shape ``(inputs, outputs)``, to int8 with a scale a column.

    Neighbours in a column, paired from its top, add to at most ``PAIR_LIMIT``, so that their products fit 16 bits. A
    column's sum is kept up to half a step: most activations after a Gelu are near its minimum, so an error of the sum would
    be added to every result.
    """
    paired = np.concatenate([weights, np.zeros((len(weights) % 2, weights.shape[1]), np.float32)])
    largest = np.maximum(np.abs(weights).max(axis=0), np.abs(paired[::2] + paired[1::2]).max(axis=0))
    # Rounding, and what is moved for the sum, add less than 1 to each of the two.
    scales = (largest / (PAIR_LIMIT - 2)).astype(np.float32)
    scales[scales == 0] = 1
    steps = weights / scales
    cut = np.round(steps)
    missing = np.round((steps - cut).sum(axis=0))
    rank = (steps - cut).argsort(axis=0).argsort(axis=0)
    cut += rank >= len(weights) - missing
    cut -= rank < -missing
    return cut.astype(np.int8), scales


def _drop_identities(graph: "GraphProto") -> None:
    ends = {end.name for end in graph.output}
    same: dict[str, str] = {}
    remaining_nodes = []
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = same.get(name, name)
        if node.op_type == "Identity" and node.output[0] not in ends:
            same[node.output[0]] = node.input[0]
        else:
            remaining_nodes.append(node)
    del graph.node[:]
    graph.node.extend(remaining_nodes)


class _Graph:
    def __init__(self, graph: "GraphProto") -> None:
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._makers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self._readers[name].append(node)
        self._absorbed: set[str] = set()
        self._products: set[str] = set()
        self.made: list[TensorProto] = []

    def replaced(self, node: "NodeProto") -> Iterator["NodeProto"]:
        """Yield a node's replacement: itself, or an int8 matmul."""
        from onnx import helper, numpy_helper

        if node.output[0] in self._absorbed:
            return
        weights = numpy_helper.to_array(self._tensors[node.input[1]]) if self._has_weights(node) else None
        if weights is not None and node.op_type == "Conv" and self._is_product(node, weights):
            rows, product = f"{node.name}.rows", f"{node.name}.product"
            result, bias = self._with_bias(node)
            self._products.add(result)
            columns = np.ascontiguousarray(weights[:, :, 0, 0].T)
            yield helper.make_node("Transpose", [node.input[0]], [rows], perm=TO_ROWS)
            yield self._product(node.name, rows, columns, product, bias)
            yield helper.make_node("Transpose", [product], [result], perm=TO_CHANNELS)
        elif weights is not None and node.op_type == "MatMul" and weights.ndim == 2 and weights.size > LARGE_WEIGHTS:
            yield self._product(node.name, node.input[0], weights, *self._with_bias(node))
        elif node.op_type == "Add" and weights is None and not self._products.isdisjoint(node.input):
            # Added as rows, what goes around products is transposed once, and not for each of them.
            summands = [f"{node.name}.rows.{number}" for number in range(2)]
            for name, summand in zip(node.input, summands, strict=True):
                yield helper.make_node("Transpose", [name], [summand], perm=TO_ROWS)
            yield helper.make_node("Add", summands, [f"{node.name}.sum"])
            yield helper.make_node("Transpose", [f"{node.name}.sum"], [node.output[0]], perm=TO_CHANNELS)
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
        maker = self._makers.get(node.input[0])
        return maker is not None and maker.op_type in ("GlobalAveragePool", "ReduceMean")

    def _with_bias(self, node: "NodeProto") -> tuple[str, str]:
        """Return the name of a product with its bias added, and the bias; "" without one."""
        from onnx import numpy_helper

        if len(node.input) > 2:
            return node.output[0], node.input[2]
        readers = self._readers[node.output[0]]
        if len(readers) == 1 and readers[0].op_type == "Add":
            (added,) = [name for name in readers[0].input if name != node.output[0]]
            maker = self._makers.get(added)
            bias = maker.input[0] if maker is not None and maker.op_type == "Reshape" else added
            values = numpy_helper.to_array(self._tensors[bias]) if bias in self._tensors else np.zeros(0)
            if values.size > 1 and values.size == max(values.shape):
                self._absorbed.add(readers[0].output[0])
                self.made.append(numpy_helper.from_array(values.reshape(-1), f"{node.name}.bias"))
                return readers[0].output[0], f"{node.name}.bias"
        return node.output[0], ""

    def _product(self, name: str, rows: str, weights: NDArray[np.float32], result: str, bias: str) -> "NodeProto":
        from onnx import helper, numpy_helper

        cut, scales = cut_weights(weights)
        self.made += [numpy_helper.from_array(cut, f"{name}.weights"), numpy_helper.from_array(scales, f"{name}.scales")]
        inputs = [rows, f"{name}.weights", f"{name}.scales", *(["", bias] if bias else [])]
        return helper.make_node(PRODUCT, inputs, [result], domain=DOMAIN)
