"""OCR by RapidOCR with the PP-OCRv6 models in its package; nothing is downloaded.

Settings for upright text in screenshots and charts: no classifier of lines, no enlarging, lines recognised one by one. A page on
its side or upside down is turned first.
0.6 CPU-seconds a figure instead of 1.4 by default, with equal results (docs/decisions/0008). Lines are recognised by int8
matmuls (docs/decisions/0009).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.models.int8_matmul import with_int8_matmul
from backends.models.packaged import packaged_file
from backends.models.page_orientation import PageOrientation, box_as_given
from backends.models.pictures import decode, rejecting_engine_errors
from schemas.documents import RecognisedLine
from schemas.models import Model, ModelName
from schemas.ports import Recogniser
from schemas.versions import ModelCard

LINE_HEIGHT_PX = 48
LEAST_WIDTH_PX = 96
"""Minimum width; narrower lines are padded."""

Pixels = NDArray[np.uint8]

DETECTOR = ("PP-OCRv6_det_small.onnx", "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f")
READER = ("PP-OCRv6_rec_small.onnx", "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884")
SETTINGS_VERSION = "4"
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


class RapidOcr:
    """A ``Recogniser``; takes about 0.9 GB of memory.

    Args:
        threads: Of the engine; one, because several recognisers run in parallel.
        parameters: Settings of the package, for benchmarks.
        int8: Recognise lines by int8 matmuls; benchmarks compare both.

    Raises:
        UserError: rapidocr is not installed.
        ContractError: The models don't have the pinned digests.
    """

    def __init__(self, threads: int = 1, parameters: Mapping[str, object] = PARAMETERS, *, int8: bool = True) -> None:
        self.name = CARD.name
        self.revision = CARD.revision
        wanted_by = "captions.ocr: 'rapidocr'"
        self._orientation = PageOrientation(threads, wanted_by)
        detector, reader = (packaged_file("rapidocr", f"models/{name}", pin, wanted_by) for name, pin in (DETECTOR, READER))

        import cv2
        from rapidocr import RapidOCR

        cv2.setNumThreads(threads)
        # A path leaves the package nothing to look for, and so nothing to download.
        self._engine: Any = RapidOCR(
            params={
                **parameters,
                "Det.model_path": str(detector),
                "Rec.model_path": str(reader),
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": threads,
            }
        )
        if int8:
            # The package loads a stage of its own if there is none.
            self._engine.text_rec = _Stage(LineReader(reader, threads, EXACT))

    def recognise(self, picture: bytes) -> list[RecognisedLine]:
        """Return the lines of an encoded picture, top to bottom, then left to right, in pixels of the given picture.

        A page that is turned is read as if it were upright; boxes are in the picture as given.

        A picture larger than ``LARGEST_SIDE_PX`` is scaled down; one with a side below ``LEAST_SIDE_PX`` has no legible
        words.

        Raises:
            BadInputError: The picture can't be decoded, or the engine fails on it.
        """
        pixels, scale = decode(picture, LARGEST_SIDE_PX)
        if min(pixels.shape[:2]) * scale < LEAST_SIDE_PX:
            return []
        with rejecting_engine_errors("RapidOCR"):
            turn = self._orientation.turn(pixels)
            ocr_output = self._engine(np.ascontiguousarray(np.rot90(pixels, turn // 90)))
        if ocr_output.boxes is None or ocr_output.txts is None:
            return []
        lines = zip(ocr_output.boxes, ocr_output.txts, ocr_output.scores, strict=True)
        return [
            RecognisedLine(box_as_given(box, turn, pixels.shape, scale), text.strip(), float(score), turn)
            for box, text, score in lines
            if _has_words(text)
        ]


def model(_named: ModelName) -> Model[Recogniser]:
    """Offer RapidOCR to the registry."""
    return Model(card=lambda: CARD, load=lambda _batch: RapidOcr())


class _Stage:
    def __init__(self, reader: LineReader) -> None:
        self._reader = reader

    def __call__(self, rec_input: Any) -> Any:
        from rapidocr.ch_ppocr_rec import TextRecOutput

        texts, scores = zip(*self._reader.read(rec_input.img), strict=True)
        return TextRecOutput(imgs=rec_input.img, txts=texts, scores=scores, word_results=(None,) * len(texts), elapse=0.0)


def _has_words(text: str) -> bool:
    """Return whether a text has words; icons, arrows and check boxes are recognised as symbols."""
    return any(character.isalnum() for character in text)
