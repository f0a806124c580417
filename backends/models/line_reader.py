"""Recognition of text lines by a CTC network in int8, one line at a time, in place of RapidOCR's own stage."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.models.int8_matmul import with_int8_matmul

LINE_HEIGHT_PX = 48
LEAST_WIDTH_PX = 96
"""Minimum width; narrower lines are padded."""

Pixels = NDArray[np.uint8]


class LineReader:
    """The recogniser of text lines.

    Args:
        file: The network, with its characters in the metadata ``character``.
        threads: Of onnxruntime.
        exact: Names of the convolutions that stay in fp32.
    """

    def __init__(self, file: Path, threads: int, exact: Collection[str]) -> None:
        import onnx
        import onnxruntime

        network = onnx.load(file)
        # A softmax is the last node: what is read needs it at few steps, and there it is taken of what comes before.
        network.graph.output[0].name = network.graph.node.pop().input[0]
        with_int8_matmul(network, exact)
        (characters,) = [entry.value for entry in network.metadata_props if entry.key == "character"]
        # The first class separates characters, the last is white space.
        self._characters = ["", *characters.splitlines(), " "]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        self._session: Any = onnxruntime.InferenceSession(
            network.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._input = self._session.get_inputs()[0].name

    def read(self, lines: Sequence[Pixels]) -> list[tuple[str, float]]:
        """Return the characters of each line and the mean of their probabilities, 0 for none; lines are independent.

        Args:
            lines: Pixels of upright lines, shape ``(height, width, 3)``, BGR.
        """
        return [self._decoded(self._session.run(None, {self._input: _scaled(line)})[0][0]) for line in lines]

    def _decoded(self, logits: NDArray[np.float32]) -> tuple[str, float]:
        classes = logits.argmax(axis=1)
        is_first_step = classes != 0
        is_first_step[1:] &= classes[1:] != classes[:-1]
        (steps,) = is_first_step.nonzero()
        if not steps.size:
            return "", 0.0
        read = [(step, classes[step]) for step in steps]
        # A step at a time stays in the cache.
        probabilities = [1 / np.exp(logits[step] - logits[step, class_index]).sum() for step, class_index in read]
        return "".join(self._characters[class_index] for _, class_index in read), round(float(np.mean(probabilities)), 5)


def _scaled(line: Pixels) -> NDArray[np.float32]:
    """Return a line scaled to the network's height, its ratio kept, padded with grey."""
    import cv2

    height, width = line.shape[:2]
    ratio = width / height
    padded = int(LINE_HEIGHT_PX * max(ratio, LEAST_WIDTH_PX / LINE_HEIGHT_PX))
    filled = min(padded, math.ceil(LINE_HEIGHT_PX * ratio))
    scaled = np.zeros((1, 3, LINE_HEIGHT_PX, padded), np.float32)
    levels = scaled[0, :, :, :filled]
    np.divide(cv2.resize(line, (filled, LINE_HEIGHT_PX)).transpose(2, 0, 1), np.float32(127.5), out=levels)
    levels -= 1
    return scaled
