"""Principals, and rights of documents."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.access import Allowed, of_site, principal
from schemas.rights import Rights

GROUPS = st.sampled_from(["everyone", "group:service", "group:Plant 4/Lyon", "user:4711", "user:a@b.de"])
RIGHTS = st.dictionaries(st.integers(0, 30).map(lambda number: f"{number:064x}"), st.frozensets(GROUPS))


@pytest.mark.parametrize("text", ["everyone", "group:service", "user:4711", "group:CN=Service,OU=Groups", "group:Zürich 4"])
def test_a_principal_is_a_group_a_user_or_everyone(text: str) -> None:
    assert principal(text) == text


@pytest.mark.parametrize(
    "text", ["", "service", "group:", "group: a", "Everyone", "group:a;b", "role:x", "group:a\n", "user:" + "x" * 201]
)
def test_what_names_nobody_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names nobody"):
        principal(text)


def test_one_name_has_one_spelling() -> None:
    assert principal("group:Zu\u0308rich") == "group:Zürich"


def test_a_site_names_groups_and_leaves_users() -> None:
    assert of_site(["group:members", "user:1", "everyone"], "lyon") == {"group:lyon/members", "user:1", "everyone"}
    assert of_site(["group:members"], None) == {"group:members"}


@given(RIGHTS)
def test_a_table_keeps_rights_whatever_their_order(sets: dict[str, frozenset[str]]) -> None:
    rights = Rights(sets)
    table = rights.table()
    assert Rights(dict(reversed(sets.items()))).table().equals(table)
    assert dict(Rights.of_table(table)) == dict(rights) == sets
    column = rights.column(sets)
    assert dict(Rights.of_column(pa.chunked_array([[*sets]], pa.string()), pa.chunked_array([column]))) == sets


@given(RIGHTS, RIGHTS, st.frozensets(GROUPS))
def test_rows_and_changed_documents_give_what_a_reader_may_see(
    before: dict[str, frozenset[str]], now: dict[str, frozenset[str]], mine: frozenset[str]
) -> None:
    version = [*before]
    rights = Rights(now)
    expected = {doc_id for doc_id in version if not now.get(doc_id, frozenset()).isdisjoint(mine | {"everyone"})}
    assert {doc_id for doc_id in version if rights.allows(doc_id, mine)} == expected
    for rows in (Rights(before), None):
        allowed = rights.seen_by(mine, rows, version)
        by_row = {doc_id for doc_id in version if rows and not before[doc_id].isdisjoint(allowed.principals)}
        assert by_row - {*allowed.changed} | {*allowed.allowed} == expected
    assert rights.changed_since(Rights(before)) == sorted(
        doc_id for doc_id in before.keys() | now.keys() if before.get(doc_id, frozenset()) != now.get(doc_id, frozenset())
    )


def test_an_empty_set_is_nobody() -> None:
    rights = Rights({"a": frozenset()})
    assert not rights.allows("a", frozenset({"group:a"}))
    assert not Rights({}).allows("a", frozenset({"everyone"}))
    assert rights.seen_by(frozenset(), Rights({"a": frozenset({"everyone"})}), ["a"]) == Allowed(("everyone",), ("a",), ())
