"""The file of corrections that a corpus file names."""

from pathlib import Path

import pytest

from pipeline.corpus.workspace import read_corrections
from schemas.errors import UserError
from schemas.tags import TagTemplate

TEMPLATE = TagTemplate()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.yaml", "captions.corrections: there is no file"),
        ("folder.yaml", "is not a file"),
        ("latin.yaml", "not UTF-8"),
        ("wrong.yaml", r"wrong.yaml: line 2: 'here' names no figure"),
        ("large.yaml", "more than 16 MiB"),
    ],
)
def test_a_mistake_names_the_file(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "latin.yaml").write_bytes("12345678: Détail".encode("latin-1"))
    (tmp_path / "wrong.yaml").write_text("12345678: a\nhere: b\n")
    (tmp_path / "large.yaml").write_bytes(b"a" * (16 << 20) + b"b")
    with pytest.raises(UserError, match=says):
        read_corrections(str(tmp_path / name), TEMPLATE)


def test_it_may_lie_in_a_bucket(s3_bucket: str) -> None:
    from backends.stores.s3_store import s3_client

    s3_client().put_object(Bucket=s3_bucket, Key="notes/ours.yaml", Body=b"12345678: The pump")
    assert read_corrections(f"s3://{s3_bucket}/notes/ours.yaml", TEMPLATE).texts == {"12345678": "The pump"}
    with pytest.raises(UserError, match="there is no file s3://"):
        read_corrections(f"s3://{s3_bucket}/notes/none.yaml", TEMPLATE)
