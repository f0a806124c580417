"""What a command that people wait for leaves unloaded."""

import subprocess
import sys


def test_pyarrow_works_without_pandas_until_somebody_asks_for_it() -> None:
    script = """if True:
        import sys
        from cli.start import leave_pandas_out
        leave_pandas_out()
        import pyarrow as pa, pyarrow.compute, pyarrow.dataset, pyarrow.parquet
        table = pa.table({"a": [1, 2]})
        assert table.filter(pa.compute.greater(table["a"], 1)).to_pylist() == [{"a": 2}]
        assert "pandas" not in sys.modules
        assert table.to_pandas()["a"].tolist() == [1, 2]
        import pandas
        assert pa.array(pandas.Series([1.0, None]), from_pandas=True).null_count == 1
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
