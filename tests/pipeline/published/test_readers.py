"""Readers look for new rights from time to time; without rights nothing is shown."""

from pathlib import Path

import pytest

from backends.stores.object_store import FolderStore
from pipeline.published.readers import RIGHTS_S, RightsReader
from pipeline.records.access import CURRENT, apply_rights
from schemas.errors import TransientError
from schemas.rights import Rights

GROUP = frozenset({"group:a"})


def test_rights_are_looked_for_every_ten_seconds_and_kept_meanwhile(tmp_path: Path) -> None:
    store, now = FolderStore(tmp_path), [0.0]
    current = RightsReader(store, clock=lambda: now[0])
    with pytest.raises(TransientError):
        current()
    apply_rights(store, lambda _: Rights({"a" * 64: GROUP}))
    before = current()
    assert before.allows("a" * 64, GROUP)
    apply_rights(store, lambda _: Rights({"a" * 64: frozenset()}))
    now[0] = RIGHTS_S - 1
    assert current() is before
    now[0] = RIGHTS_S
    assert not current().allows("a" * 64, GROUP)
    unchanged = current()
    now[0] = 2 * RIGHTS_S
    assert current() is unchanged, "nothing is read again"
    store.delete(CURRENT)
    now[0] = 3 * RIGHTS_S
    for _ in range(2):
        with pytest.raises(TransientError):
            current()


def test_a_list_of_documents_is_judged_as_each_of_them() -> None:
    rights = Rights({letter * 64: GROUP if letter in "ac" else frozenset({"everyone"}) for letter in "abcd"})
    doc_ids = [letter * 64 for letter in "dxbac"] + ["a" * 65, "a" * 63, ""]
    for principals in (GROUP, frozenset[str]()):
        assert [*rights.which(doc_ids, principals)] == [rights.allows(doc_id, principals) for doc_id in doc_ids]
    assert [*Rights({}).which(doc_ids, GROUP)] == [False] * len(doc_ids)
    assert [*rights.which([], GROUP)] == []
