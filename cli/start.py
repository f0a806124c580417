"""What a process of the command loads before its command runs."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class _Absent(importlib.abc.MetaPathFinder):
    """Makes a package look as if it weren't installed."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == self._package:
            raise ModuleNotFoundError(f"{fullname} is left out here", name=fullname)
        return None


def leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, a second of CPU, to look whether it is there.

    It looks once, at the first value that it is given, and works without. Whoever asks for pandas later gets it.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    absent = _Absent("pandas")
    sys.meta_path.insert(0, absent)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(absent)
