"""Whatever is stored is found out where it isn't what was written."""

import io
import json
from random import Random

import pyarrow as pa
import pytest
from PIL import Image

from backends.stores.objects import sealed, unsealed
from schemas.ids import figure_id, sha256
from schemas.parquet import from_parquet, to_parquet

TABLE = pa.table(
    {
        "id": [f"row {number}" for number in range(40)],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array([number / 7 for number in range(160)], pa.float32()), 4),
    }
)


def _picture() -> tuple[str, bytes]:
    image = Image.frombytes("L", (24, 16), Random(0).randbytes(24 * 16)).convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return f"figures/{figure_id(24, 16, image.tobytes())}.png", buffer.getvalue()


def _objects() -> dict[str, bytes]:
    pdf = b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\ntrailer\n%%EOF\n"
    name, picture = _picture()
    return {
        "LIVE": b'{"version":"20260101T000000Z-00000000","held":false,"fence":4}',
        "LEASE": b'{"run_id":"one","fence":3}',
        "versions/v/manifest.json": json.dumps({"rows": 71, "ledger": "0" * 64}, indent=1).encode(),
        "versions/v/tagged.json": b"{}",
        "versions/v/evidence/part-00001-of-00001.parquet": to_parquet(TABLE),
        f"documents/{sha256(pdf)}.pdf": pdf,
        f"tagged/{'0' * 64}/0123.pdf": pdf,
        name: picture,
    }


OBJECTS = _objects()


def _meaning(name: str, data: bytes) -> object:
    """Return what a reader takes an object for."""
    if name.endswith(".parquet"):
        return from_parquet(data).select(TABLE.column_names).cast(TABLE.schema).to_pylist()
    return json.loads(data) if data[:1] == b"{" else Image.open(io.BytesIO(data)).tobytes() if data[:1] == b"\x89" else data


@pytest.mark.parametrize("name", OBJECTS)
def test_what_is_sealed_is_unsealed(name: str) -> None:
    stored = sealed(name, OBJECTS[name])
    assert _meaning(name, unsealed(name, stored)) == _meaning(name, OBJECTS[name])


@pytest.mark.parametrize("name", OBJECTS)
def test_no_turned_bit_is_read_as_another_value(name: str) -> None:
    stored = sealed(name, OBJECTS[name])
    before = _meaning(name, OBJECTS[name])
    detected = 0
    for bit in range(0, len(stored) * 8, max(1, len(stored) * 8 // 4000)):
        turned = bytearray(stored)
        turned[bit // 8] ^= 1 << bit % 8
        try:
            after = _meaning(name, unsealed(name, bytes(turned)))
        except (ValueError, KeyError, pa.ArrowException):
            detected += 1
        else:
            assert after == before, f"bit {bit}"
    assert detected > 0.9 * min(4000, len(stored) * 8)


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("share", [0, 0.3, 0.5, 0.99])
def test_nothing_that_is_cut_is_whole(name: str, share: float) -> None:
    stored = sealed(name, OBJECTS[name])
    with pytest.raises(ValueError, match=r"empty|cut short|isn't what was written|can't be decoded|JSON|Expecting"):
        _meaning(name, unsealed(name, stored[: int(len(stored) * share)]))


def test_every_bit_of_a_parquet_file_counts() -> None:
    data = to_parquet(TABLE)
    for bit in range(len(data) * 8):
        turned = bytearray(data)
        turned[bit // 8] ^= 1 << bit % 8
        try:
            rows = _meaning("a.parquet", unsealed("a.parquet", bytes(turned)))
        except (ValueError, KeyError, pa.ArrowException):
            continue
        assert rows == TABLE.to_pylist(), f"bit {bit}"


def test_parts_of_rows_are_named_by_their_bytes() -> None:
    data = to_parquet(TABLE)
    name = f"rows/{sha256(data)}.parquet"
    assert unsealed(name, data) == data
    with pytest.raises(ValueError, match="another digest"):
        unsealed(name, data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])


def test_a_stored_json_object_is_still_one() -> None:
    assert json.loads(sealed("LIVE", OBJECTS["LIVE"]))["version"] == "20260101T000000Z-00000000"
    assert set(json.loads(sealed("versions/v/tagged.json", b"{}"))) == {"sha256"}
