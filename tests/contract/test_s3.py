"""What only S3 can get wrong: parts, broken replies, and races with oneself."""

import hashlib
import os
from collections.abc import Iterator

import pytest

from backends.stores.object_store import open_store
from backends.stores.s3_store import s3_client, s3_errors
from backends.stores.sources import open_source
from schemas.errors import BadInputError, FailureCode, InsetError, TransientError, UserError
from schemas.ports import ObjectStore
from tests.s3_server import Fault, FaultyNetwork

MEBIBYTE = 1 << 20


@pytest.fixture
def network(s3_endpoint: str, s3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyNetwork]:
    network = FaultyNetwork(s3_endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", network.url)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)  # between the client's retries
    yield network
    network.close()


@pytest.fixture
def store(network: FaultyNetwork, s3_bucket: str) -> ObjectStore:
    return open_store(f"s3://{s3_bucket}/store")


def test_a_large_object_travels_in_parts(store: ObjectStore, s3_bucket: str) -> None:
    data = os.urandom(20 * MEBIBYTE)
    store.put("documents/large.pdf", data)
    assert store.get("documents/large.pdf") == data
    head = s3_client().head_object(Bucket=s3_bucket, Key="store/documents/large.pdf")
    assert head["ETag"].strip('"').endswith("-3"), "three parts of 8 MiB at most"


def test_a_part_that_meets_a_busy_server_is_sent_again(network: FaultyNetwork, store: ObjectStore) -> None:
    data = os.urandom(20 * MEBIBYTE)
    network.breaks("PUT", "busy", "lost", "busy")
    store.put("documents/large.pdf", data)
    assert store.get("documents/large.pdf") == data
    assert not network.faults["PUT"]


def test_what_is_written_carries_a_checksum_that_the_server_keeps(store: ObjectStore, s3_bucket: str) -> None:
    store.put("a", b"pixels")
    head = s3_client().head_object(Bucket=s3_bucket, Key="store/a", ChecksumMode="ENABLED")
    assert head.get("ChecksumCRC32")


@pytest.mark.parametrize("fault", ["busy", "cut", "flipped", "lost"])
def test_a_reply_that_breaks_on_its_way_is_asked_for_again(
    network: FaultyNetwork, store: ObjectStore, fault: Fault
) -> None:
    data = os.urandom(MEBIBYTE)
    store.put("figures/a.png", data)
    network.breaks("GET", fault, fault)
    assert store.get("figures/a.png") == data
    assert not network.faults["GET"]


def test_a_source_is_read_through_broken_replies_too(network: FaultyNetwork, store: ObjectStore, s3_bucket: str) -> None:
    store.put("a.pdf", b"%PDF-1.7 and so on")
    network.breaks("GET", "busy")
    source = open_source(f"s3://{s3_bucket}/store")
    assert [file.source for file in source.files()] == ["a.pdf"]
    network.breaks("GET", "cut", "flipped")
    assert source.read("a.pdf") == b"%PDF-1.7 and so on"


@pytest.mark.parametrize(
    ("faults", "error"),
    [(["denied"], UserError), (["cut"] * 9, TransientError), (["tokenless"], TransientError)],
    ids=["denied", "cut", "without the next page's name"],
)
@pytest.mark.parametrize("pages_before", [0, 1])
def test_a_listing_that_is_not_whole_is_none(
    network: FaultyNetwork,
    store: ObjectStore,
    s3_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    faults: list[Fault],
    error: type[InsetError],
    pages_before: int,
) -> None:
    monkeypatch.setattr("backends.stores.s3_store.LISTED_AT_ONCE", 2)
    for name in "abcdef":
        store.put(f"{name}.pdf", b"%PDF")
    source = open_source(f"s3://{s3_bucket}/store")
    assert len(source.files()) == 6
    whole_pages: list[Fault] = ["whole"] * pages_before
    network.breaks("GET", *whole_pages, *faults)
    with pytest.raises(error, match=s3_bucket):
        source.files()


def test_an_object_that_may_not_be_read_costs_itself(network: FaultyNetwork, store: ObjectStore, s3_bucket: str) -> None:
    store.put("a.pdf", b"%PDF-1.7 and so on")
    source = open_source(f"s3://{s3_bucket}/store")
    for ask in (source.digest, source.read):
        network.breaks("GET", "denied")
        with pytest.raises(BadInputError, match="S3 refuses the object") as caught:
            ask("a.pdf")
        assert caught.value.code is FailureCode.SOURCE_UNREADABLE
    network.breaks("GET", "cut", "flipped")
    assert source.digest("a.pdf")[0] == hashlib.sha256(b"%PDF-1.7 and so on").hexdigest()
    with pytest.raises(FileNotFoundError):
        source.digest("b.pdf")


def test_an_endpoint_s_password_is_not_shown() -> None:
    from botocore.exceptions import EndpointConnectionError

    with pytest.raises(TransientError, match="can't be reached") as caught, s3_errors("s3://b", "a.pdf"):
        raise EndpointConnectionError(endpoint_url="http://joe:hunter2@host:9000/b?X-Amz-Signature=hunter2")
    assert "hunter2" not in caught.value.message
    assert "host:9000/b" in caught.value.message


def test_a_reply_that_never_comes_whole_is_worth_another_try_later(network: FaultyNetwork, store: ObjectStore) -> None:
    store.put("a", b"pixels")
    network.breaks("GET", "cut", "cut", "cut", "cut", "cut", "cut", "cut", "cut")
    with pytest.raises(TransientError, match="trying again may help"):
        store.get("a")


def test_a_swap_whose_answer_got_lost_is_won(network: FaultyNetwork, store: ObjectStore) -> None:
    network.breaks("PUT", "lost")
    assert store.swap("LIVE", b'{"n":1}', None)
    current = store.read_mutable("LIVE")
    assert current is not None
    network.breaks("PUT", "lost")
    assert store.swap("LIVE", b'{"n":2}', current[1])
    network.breaks("PUT", "busy")
    assert not store.swap("LIVE", b'{"n":3}', current[1]), "somebody else's is there"
    assert store.get("LIVE") == b'{"n":2}'


def test_an_absent_bucket_is_the_user_s_mistake(network: FaultyNetwork) -> None:
    with pytest.raises(UserError, match="s3://nobody-s-bucket"):
        open_store("s3://nobody-s-bucket/store").put("a", b"1")
