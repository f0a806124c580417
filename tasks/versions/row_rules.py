"""The rules of each row of evidence, as Arrow expressions, and what is known of a row only beside others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from schemas.evidence import EVIDENCE
from schemas.filters import Modality
from schemas.gates import (
    DUPLICATES,
    LONG_TEXTS,
    OF_ROWS,
    OUR_FAULT,
    Bounds,
    Gate,
    GateResult,
    GateVerdict,
    RuleCount,
    Violation,
    describe_violations,
)
from schemas.tags import is_disarmed
from tasks.enriching.spaces import NORM_TOLERANCE

_LARGEST_PAGE_PT = 100_000

COLUMNS = "evidence has the columns of its schema"
UNIQUE = "evidence_id is unique"
REPEATED = DUPLICATES.name.removeprefix(OF_ROWS)

BrokenRows = dict[str, NDArray[np.int64]]
"""Indices of the rows that break a rule, ascending, by the rule."""


def long_texts(max_tokens: int) -> str:
    """Return the rule of rows whose text is too long."""
    return LONG_TEXTS.name.format(tokens=max_tokens).removeprefix(OF_ROWS)


def length_of(space: str) -> str:
    """Return the rule of the vectors of a space."""
    return f"a vector {space} has length 1"


def rules(spaces: Iterable[str], max_tokens: int) -> list[str]:
    """Return all rules, in the order of reports."""
    vectors = map(length_of, spaces)
    return [COLUMNS, *_COMPLETE, UNIQUE, *_OWN, *vectors, long_texts(max_tokens), REPEATED]


def broken_rows(rows: pa.Table, n_tokens: Sequence[int] | NDArray[np.int32], max_tokens: int) -> BrokenRows:
    """Return the rows that break the rules on a row alone; ``n_tokens`` are the tokens of each row's text."""
    if rows.column_names != EVIDENCE.names:
        return {COLUMNS: np.arange(rows.num_rows)}
    texts = rows.column("text").to_pylist()
    derived = {
        "n_tokens": pa.array(n_tokens, pa.int32()),
        "disarmed": pa.array([text is None or is_disarmed(text) for text in texts], pa.bool_()),
    }
    table = pa.table([*rows.columns, *derived.values()], names=[*rows.column_names, *derived])
    expressions = {**_COMPLETE, **_OWN, long_texts(max_tokens): pc.field("n_tokens") <= pc.scalar(max_tokens)}
    breaks = ds.dataset(table).to_table(columns={rule: ~expression for rule, expression in expressions.items()})
    # A rule on a missing value is null, which isn't counted: the value breaks the rule that it is never missing.
    return {rule: np.asarray(pc.indices_nonzero(breaks.column(rule)), np.int64) for rule in expressions}


def rows_off(column: "pa.Array[Any]") -> NDArray[np.int64]:
    """Return the rows with a vector whose length isn't 1 or that holds NaN; each has a vector, a list of them, or null."""
    if isinstance(column.type, pa.FixedSizeListType):
        rows: Any = np.flatnonzero(np.asarray(column.is_valid()))
    else:
        rows, column = np.asarray(pc.list_parent_indices(column)), pc.list_flatten(column)
    dimension = cast("pa.FixedSizeListType[Any, Any]", column.type).list_size
    values = np.asarray(pc.list_flatten(column), np.float32).reshape(-1, dimension)
    is_off = ~(np.abs(np.linalg.norm(values, axis=1) - 1) <= NORM_TOLERANCE)
    return np.unique(np.asarray(rows, np.int64)[is_off])


def _within(value: pc.Expression, low_pt: float) -> pc.Expression:
    return (value >= pc.scalar(low_pt)) & (value <= pc.scalar(_LARGEST_PAGE_PT))


_LEFT, _TOP, _RIGHT, _BOTTOM = (pc.list_element(pc.field("bbox"), corner) for corner in range(4))
_MODALITY = pc.field("modality")
_PICTURES = pa.array([str(Modality.FIGURE), str(Modality.PAGE)])
# A run of text may be no more than the figures that stand in it.
_SPOKEN = pc.if_else(pc.scalar(str(Modality.TEXT)) == _MODALITY, pc.field("tagged_text"), pc.field("text"))

_COMPLETE = {f"{field.name} is never missing": pc.field(field.name).is_valid() for field in EVIDENCE if not field.nullable}
_OWN = {
    "doc_id is a SHA-256": pc.match_substring_regex(pc.field("doc_id"), pattern="^[0-9a-f]{64}$"),
    "modality is a known one": _MODALITY.isin(pa.array([str(modality) for modality in Modality])),
    "page counts from 1": pc.field("page") >= pc.scalar(1),
    "order counts from 0": pc.field("order") >= pc.scalar(0),
    "a box is where a page can be, from the left": _within(_LEFT, -_LARGEST_PAGE_PT),
    "a box is where a page can be, from the top": _within(_TOP, -_LARGEST_PAGE_PT),
    "a box has a width": _within(_RIGHT - _LEFT, 0),
    "a box has a height": _within(_BOTTOM - _TOP, 0),
    "a row has a source": pc.list_value_length(pc.field("sources")) >= pc.scalar(1),
    "a row has a region": pc.list_value_length(pc.field("regions")) >= pc.scalar(1),
    "rows of figures and pages, and they alone, name their picture": _MODALITY.isin(_PICTURES)
    == pc.field("figure_id").is_valid(),
    "a row has words or tags": pc.utf8_length(pc.utf8_trim_whitespace(_SPOKEN)) > pc.scalar(0),
    "text holds no tag and no placeholder": pc.field("disarmed"),
}


def row_counts(
    broken: BrokenRows,
    rows: int,
    unchanged: Mapping[Gate, int],
    page_names: Callable[[NDArray[np.int64]], list[str]],
    spaces: Iterable[str],
    *,
    max_tokens: int,
    gates: Bounds,
) -> list[RuleCount]:
    """Count the rows of a version that break each rule.

    Args:
        broken: The changed rows that break rules.
        rows: Number of all rows.
        unchanged: How many rows that an earlier version validated break the rule of a gate.
        page_names: Returns the page that each of some changed rows is on.
        spaces: Names of the vector spaces.
        max_tokens: Maximum tokens of a text.
        gates: Shares of rows that may be too long, or repeat others.
    """
    gated, counts = _gated(max_tokens), list[RuleCount]()
    for rule in rules(spaces, max_tokens):
        gate, broken_indices = gated.get(rule), broken.get(rule, np.empty(0, np.int64))
        count = len(broken_indices) + (unchanged.get(gate, 0) if gate else 0)
        examples = page_names(broken_indices[: RuleCount.SHOWN])
        counts.append(RuleCount(rule, rows, count, gates.of(gate) if gate else 0.0, examples))
    return counts


def row_verdict(
    count: RuleCount, violations: Sequence[Violation], max_tokens: int, names: Mapping[str, str], *, passed: bool
) -> GateVerdict:
    """Return the verdict on a rule; ``value`` is the share of rows that break it, ``bound`` the allowed share."""
    gate, message = _gated(max_tokens).get(count.rule), count.rule
    if count.broken:
        allowed = f" ({count.allowed:.0%} may: {gate.option})" if gate else ""
        message = f"not so in {count.broken} of {count.rows} rows{allowed}"
    if violations and not passed:
        remedy = gate.remedy.format(ease=gate.ease) if gate else OUR_FAULT
        message = f"{message}: {describe_violations(violations, names)}; {remedy}"
    result = GateResult(
        gate=f"{OF_ROWS}{count.rule}", passed=passed, value=count.share, bound=count.allowed, message=message
    )
    return GateVerdict(result, () if gate or passed else tuple(violations))


def _gated(max_tokens: int) -> dict[str, Gate]:
    """Return the gates that allow a share of rows to break a rule."""
    return {long_texts(max_tokens): LONG_TEXTS, REPEATED: DUPLICATES}
