"""The layout model that PyMuPDF carries: the blocks of a page, and the grids of its tables."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from schemas.documents import LayoutLabel, PageRegion
from schemas.geometry import BBox

if TYPE_CHECKING:
    import pymupdf


def page_regions(page: "pymupdf.Page", rotation: int) -> list[PageRegion] | None:
    """Return the blocks of a page; None if the model fails on it.

    The model sees the page as its reader does. Afterwards a rotated page is upright, with its contents turned.

    Args:
        page: The page, whose rotation was set to 0.
        rotation: The rotation it had, in degrees.
    """
    import pymupdf

    back = pymupdf.Matrix(1, 1)
    if rotation:
        page.set_rotation(rotation)
        back = page.derotation_matrix
        page.remove_rotation()
    try:
        groups = _model().predict(page, return_raw=True) or []
    except Exception:  # noqa: BLE001  whatever the model fails on, rules read the page
        return None
    return [_region(group, back) for group in groups]


@cache
def _model() -> Any:
    """Load the model, in this process, with one thread: processes share the cores already.

    PyMuPDF passes no number of threads on. ONNX Runtime starts one a core, and their waiting is 40 % of the CPU time of a page.
    """
    import onnxruntime
    from pymupdf.layout import DocumentLayoutAnalyzer

    def options_of_one_thread() -> "onnxruntime.SessionOptions":
        options = default_options()
        options.intra_op_num_threads = 1
        return options

    default_options = onnxruntime.SessionOptions
    onnxruntime.SessionOptions = options_of_one_thread
    try:
        return DocumentLayoutAnalyzer.get_model()
    finally:
        onnxruntime.SessionOptions = default_options


def _region(group: dict[str, Any], back: "pymupdf.Matrix") -> PageRegion:
    grid = group.get("table_grid")
    x0, y0, _, _ = group["group_bbox"]
    return PageRegion(
        _box(group["group_bbox"], back),
        LayoutLabel(group["class_name"]),
        tuple(_box(box, back) for box in group["bboxes"]),
        () if grid is None else tuple(float(y0 + at) for at in grid.h_lines),
        () if grid is None else tuple(float(x0 + at) for at in grid.v_lines),
    )


def _box(sides: Sequence[float], back: "pymupdf.Matrix") -> BBox:
    import pymupdf

    return BBox(*(pymupdf.Rect(*sides[:4]) * back)).rounded()
