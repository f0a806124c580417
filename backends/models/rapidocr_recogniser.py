"""OCR by RapidOCR with the PP-OCRv6 models in its package; nothing is downloaded.

Settings for upright text in screenshots and charts: no classifier of lines, no enlarging, lines recognised one by one. A page on
its side or upside down is turned first. 0.5 CPU-seconds a figure, with the results of slower settings (docs/decisions/0008).

Lines are recognised by int8 matmuls in place of 1×1 convolutions and large matmuls. Scales of activations are computed per
picture; weights are bounded so that every processor gets the same sums (docs/decisions/0009).
"""

import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from backends.models.files import packaged_file
from backends.models.page_orientation import PageOrientation, box_as_given
from backends.models.pictures import decode, rejecting_engine_errors
from schemas.documents import RecognisedLine
from schemas.versions import ModelCard

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

LINE_HEIGHT_PX = 48
LEAST_WIDTH_PX = 96
"""Minimum width; narrower lines are padded."""

DETECTOR = ("PP-OCRv6_det_small.onnx", "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f")
READER = ("PP-OCRv6_rec_small.onnx", "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884")
SETTINGS_VERSION = "5"
"""Part of the revision: raise it with any change below, or in ``page_orientation.py``, that may change results."""

CARD = ModelCard(name="rapidocr", revision=f"{DETECTOR[1][:8]}-{READER[1][:8]}-{SETTINGS_VERSION}")

LEAST_SIDE_PX = 12
LARGEST_SIDE_PX = 2000

PARAMETERS: Mapping[str, object] = {
    "Global.use_cls": False,
    "Global.log_level": "error",
    "Det.limit_type": "max",
    "Det.limit_side_len": 1280,
    "Rec.rec_batch_num": 1,
    "Rec.rec_img_shape": [3, LINE_HEIGHT_PX, LEAST_WIDTH_PX],
    "EngineConfig.onnxruntime.enable_cpu_mem_arena": True,
}
"""Overrides of the package's configuration."""

EXACT = ("Conv.45",)
"""Convolutions that stay in fp32: int8 would change results most here."""


class RapidOcr:
    """Reads words in pictures; takes about 0.9 GB of memory. One thread, because several recognisers run in parallel.

    Benchmarks set ``parameters`` of the package, and compare with lines recognised without ``int8``.

    Raises:
        UserError: rapidocr is not installed.
        ContractError: The models don't have the pinned digests.
    """

    def __init__(self, threads: int = 1, parameters: Mapping[str, object] = PARAMETERS, *, int8: bool = True) -> None:
        wanted_by = "captions.ocr: 'rapidocr'"
        self._orientation = PageOrientation(threads, wanted_by)
        detector, reader = (packaged_file("rapidocr", f"models/{name}", pin, wanted_by) for name, pin in (DETECTOR, READER))

        import cv2
        from rapidocr import RapidOCR

        cv2.setNumThreads(threads)
        with tempfile.TemporaryDirectory(prefix="inset-ocr-") as folder:
            # Paths leave the package nothing to look for, and so nothing to download.
            self._engine: Any = RapidOCR(
                params={
                    **parameters,
                    "Det.model_path": _fast_network(detector, Path(folder), int8=False),
                    "Rec.model_path": _fast_network(reader, Path(folder), int8=int8),
                    "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                    "EngineConfig.onnxruntime.inter_op_num_threads": threads,
                }
            )
            # The package loads a network when it is first used, and keeps what it is asked for until it is asked anew.
            blank = np.full((LINE_HEIGHT_PX, LEAST_WIDTH_PX, 3), 255, np.uint8)
            for use_det in (False, True):
                self._engine(blank, use_det=use_det, use_rec=not use_det, use_cls=False)

    def recognise(self, picture: bytes) -> list[RecognisedLine]:
        """Return the lines of an encoded picture, top to bottom, then left to right, in pixels of the given picture.

        A page that is turned is read as if it were upright. A picture larger than ``LARGEST_SIDE_PX`` is scaled down; one
        with a side below ``LEAST_SIDE_PX`` has no legible words.

        Raises:
            BadInputError: The picture can't be decoded, or the engine fails on it.
        """
        pixels, scale = decode(picture, LARGEST_SIDE_PX)
        if min(pixels.shape[:2]) * scale < LEAST_SIDE_PX:
            return []
        with rejecting_engine_errors("RapidOCR"):
            turn = self._orientation.turn(pixels)
            ocr_output = self._engine(np.ascontiguousarray(np.rot90(pixels, turn // 90)), use_det=True, use_rec=True)
        if ocr_output.boxes is None or ocr_output.txts is None:
            return []
        lines = zip(ocr_output.boxes, ocr_output.txts, ocr_output.scores, strict=True)
        return [
            RecognisedLine(box_as_given(box, turn, pixels.shape, scale), text.strip(), float(score), turn)
            for box, text, score in lines
            if any(character.isalnum() for character in text)  # icons, arrows and check boxes are recognised as symbols
        ]


def _fast_network(file: Path, folder: Path, *, int8: bool) -> str:
    """Store a network without subnormal weights, of which the detector has 256,000; return its path.

    They change no result, but a processor that adds them takes 0.69 instead of 0.23 CPU-seconds to detect the lines of a slide.
    """
    import onnx

    network = onnx.load(file)
    for tensor in network.graph.initializer:
        weights = onnx.numpy_helper.to_array(tensor)
        if weights.dtype == np.float32:
            normal = np.where(np.abs(weights) < np.finfo(np.float32).tiny, np.float32(0), weights)
            tensor.CopyFrom(onnx.numpy_helper.from_array(normal, tensor.name))
    if int8:
        with_int8_matmul(network, EXACT)
    onnx.save(network, folder / file.name)
    return str(folder / file.name)


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
    """Replace a graph's 1×1 convolutions, except those in ``exact``, and large matmuls by int8 matmuls; return how many."""
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
    # The values that rounding changed most move by one step, until the sum of their column is right.
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
        self.made: list[TensorProto] = []

    def replaced(self, node: "NodeProto") -> Iterator["NodeProto"]:
        """Yield a node's replacement: itself, or an int8 matmul."""
        from onnx import helper, numpy_helper

        if node.output[0] in self._absorbed:
            return
        has_weights = len(node.input) > 1 and node.input[1] in self._tensors
        weights = numpy_helper.to_array(self._tensors[node.input[1]]) if has_weights else None
        if weights is not None and node.op_type == "Conv" and self._is_product(node, weights):
            rows, product = f"{node.name}.rows", f"{node.name}.product"
            result, bias = self._with_bias(node)
            columns = np.ascontiguousarray(weights[:, :, 0, 0].T)
            yield helper.make_node("Transpose", [node.input[0]], [rows], perm=TO_ROWS)
            yield self._product(node.name, rows, columns, product, bias)
            yield helper.make_node("Transpose", [product], [result], perm=TO_CHANNELS)
        elif weights is not None and node.op_type == "MatMul" and weights.ndim == 2 and weights.size > LARGE_WEIGHTS:
            yield self._product(node.name, node.input[0], weights, *self._with_bias(node))
        else:
            yield node

    def _is_product(self, node: "NodeProto", weights: NDArray[np.float32]) -> bool:
        from onnx import helper

        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        plain = attributes.get("group", 1) == 1 and set(attributes.get("strides", [1])) == {1}
        maker = self._makers.get(node.input[0])
        pooled = maker is not None and maker.op_type in ("GlobalAveragePool", "ReduceMean")
        return plain and weights.shape[2:] == (1, 1) and min(weights.shape[:2]) >= LEAST_CHANNELS and not pooled

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
