"""The plugin as Airflow finds it."""

import os
import subprocess
import sys
from pathlib import Path

_FIND = """
from importlib.metadata import distributions
print([point.value for found in distributions() for point in found.entry_points if point.group == "airflow.plugins"
       and point.name == "inset"])
"""


def test_it_is_found_once_where_the_sources_are_on_the_path_too(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.run(
        [sys.executable, "-c", _FIND], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert process.stdout == "['plugins.pages.plugin:InsetPlugin']\n", "else: make install, which removes inset.egg-info"
