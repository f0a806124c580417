"""Expectations on rows of evidence, as a Great Expectations suite with Data Docs.

Importing Great Expectations takes ten seconds, so only the function does. Its context is in memory; only the static site
stays, which loads its styles from public CDNs.
"""

import copy
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.evidence import EVIDENCE
from schemas.filters import Modality
from schemas.gates import (
    DUPLICATES,
    FEWEST_PICTURES,
    LONG_TEXTS,
    OF_ROWS,
    OUR_FAULT,
    PICTURES_BY_TEXT,
    Bounds,
    Gate,
    GateResult,
    GateVerdict,
    Violation,
    describe_violations,
)
from schemas.tags import is_disarmed

_NORM_TOLERANCE = 1e-3
_LARGEST_PAGE_PT = 100_000
_DERIVED = (
    *("left", "top", "width", "height", "n_sources", "n_regions", "n_tokens"),
    *("named", "worded", "tag_free", "shares_id", "repeated"),
)


Norms = Mapping[str, Sequence[float] | NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class RowFacts:
    """Derived columns of rows.

    ``norms`` are lengths of vectors by space, 1 without one; ``shares_id``: another row of the version has its id;
    ``repeated``: an earlier row has its words.
    """

    n_tokens: Sequence[int] | NDArray[np.int32]
    norms: Norms
    shares_id: Sequence[bool] | NDArray[np.bool_]
    repeated: Sequence[bool] | NDArray[np.bool_]


@dataclass(frozen=True)
class RowBatch:
    """Rows of evidence with their derived columns."""

    evidence: pa.Table
    facts: RowFacts


@dataclass(frozen=True)
class UnchangedRows:
    """Rows of the version that an earlier one validated: their number, and how many of them a gate allows to break its rule."""

    rows: int
    broken: Mapping[Gate, int]


class RowSuite:
    """The expectations on rows of evidence; ``gates`` are shares of rows that may be too long, or repeat others."""

    def __init__(self, max_tokens: int, gates: Bounds) -> None:
        self._limits = max_tokens, gates

    @cached_property
    def _validator(self) -> "_Validator":
        return _Validator(None)

    def _prepared(self, batch: RowBatch) -> tuple[Any, list[Any], bool]:
        """Return rows as a pandas frame, their rules, and whether they have all columns."""
        frame = batch.evidence.to_pandas()
        complete = set(EVIDENCE.names) <= set(frame.columns)
        if complete:
            _derive(frame, batch)
        return frame, _rules(*self._limits, list(batch.facts.norms), complete=complete), complete

    def validate(self, batch: RowBatch) -> Any:
        """Return the results of rows as Great Expectations summarises them, which can be pickled."""
        validator, (frame, rules, complete) = self._validator, self._prepared(batch)
        keys = ["evidence_id"] if complete else []
        how = {"result_format": "SUMMARY", "unexpected_index_column_names": keys}
        validation = validator.validated("evidence", frame, rules, how)
        results = {result.expectation_config.meta["rule"]: result for result in validation.results}
        validation.results = [results[rule.description] for rule in rules]
        return validation

    def violations(self, batch: RowBatch, refused: Collection[str]) -> dict[str, list[Violation]]:
        """Return the rows that break some rules, by the rule's description."""
        validator, (frame, rules, _) = self._validator, self._prepared(batch)
        rules = [rule for rule in rules if rule.description in refused]
        validation = validator.validated("evidence", frame, rules, {"result_format": "COMPLETE"})
        return {result.expectation_config.meta["rule"]: _violations(batch, result) for result in validation.results}


class _Validator:
    """A context of Great Expectations in memory; Data Docs go to ``docs``."""

    def __init__(self, docs: Path | None) -> None:
        self._gx = _great_expectations()
        self.context = self._gx.get_context(mode="ephemeral", project_config=_configuration(docs))
        self._source = self.context.data_sources.add_pandas("version")

    def validated(self, name: str, frame: Any, rules: Sequence[Any], result_format: dict[str, Any]) -> Any:
        suite = self._gx.ExpectationSuite(name=name, expectations=[copy.copy(rule) for rule in rules])
        if name not in self._source.get_asset_names():
            self._source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("rows")
        rows = self._source.get_asset(name).get_batch_definition("rows")
        return rows.get_batch(batch_parameters={"dataframe": frame}).validate(suite, result_format=result_format)


def expect_evidence(
    validations: Iterable[Any],
    violations: Callable[[Collection[str]], Iterable[Mapping[str, Sequence[Violation]]]],
    names: Mapping[str, str],
    *,
    max_tokens: int,
    gates: Bounds,
    by_text: Sequence[tuple[str, Mapping[int, bool]]] = (),
    unknown: Sequence[str] = (),
    docs: Path | None = None,
    unchanged: UnchangedRows | None = None,
) -> list[GateVerdict]:
    """Judge the rows of a version, validated in batches whose results are joined; return a verdict a rule.

    ``value`` of a verdict is the share of rows that break the rule, ``bound`` the allowed share; both are None for the
    columns.

    Args:
        validations: What ``RowSuite.validate`` returned of each batch, in order; at least one.
        violations: Returns what ``RowSuite.violations`` returns of each batch for some rules; called if rows break any.
        names: A source of each document, by its id.
        max_tokens: Maximum tokens of a text.
        gates: Shares of rows that may be too long, or repeat others.
        by_text: For ``docs``: sources of documents and, of their uncaptioned pictures, whether they are read next to text.
        unknown: For ``docs``: of each document "", or its source and language if the text model doesn't know it.
        docs: Empty folder for the Data Docs, which start at ``index.html``; None for none.
        unchanged: The rows of the version that aren't in ``batches``.
    """
    joined = _Joined()
    for validation in validations:
        joined.add(validation)
    gated = _gated_rules(max_tokens)
    if unchanged is not None and unchanged.rows:
        joined.count(unchanged.rows, {rule: unchanged.broken.get(gate, 0) for rule, gate in gated.items()})
    if docs is not None:
        validator, pictures, languages = _Validator(docs), _Joined(), _Joined()
        pictures.add(validator.validated("pictures", *_pictures(by_text, gates), {"result_format": "SUMMARY"}))
        description = "a document is in a language that the text model knows"
        frame_and_rules = _frame_and_rule("in_a_language_that_the_text_model_does_not_know", description, unknown)
        languages.add(validator.validated("languages", *frame_and_rules, {"result_format": "SUMMARY"}))
        _write_docs(validator.context, {"evidence": joined, "pictures": pictures, "languages": languages}, docs)
    # Summaries list only some of the rows that break a rule.
    broken: dict[str, list[Violation]] = {rule: [] for rule in joined.results if joined.refuses(rule)}
    for violations_by_rule in violations(broken) if broken else ():
        for rule, rule_violations in violations_by_rule.items():
            broken[rule] += rule_violations
    return [
        _verdict(rule, gated.get(rule), gates, result, broken.get(rule, []), names)
        for rule, result in joined.results.items()
    ]


def _great_expectations() -> Any:
    # Must be set before the import.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        # It imports deprecated modules.
        warnings.simplefilter("ignore")
        import great_expectations

    return great_expectations


def _violations(batch: RowBatch, result: Any) -> list[Violation]:
    row_indices = pa.array(result.result.get("unexpected_index_list") or [], pa.int64())
    rows = batch.evidence.select(["doc_id", "page"]).take(row_indices)
    return [Violation(row["doc_id"], row["page"], "a row breaks it") for row in rows.to_pylist()]


class _Joined:
    """Results of expectations in batches, joined as if they were one."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self._first_validation: Any = None

    def add(self, validation: Any) -> None:
        self._first_validation = self._first_validation or validation
        for result in validation.results:
            rule = result.expectation_config.meta["rule"]
            first = self.results.setdefault(rule, result)
            if first is not result:
                self.results[rule] = _joined_result(first, result)

    def count(self, rows: int, broken: Mapping[str, int]) -> None:
        """Add rows that were validated before, of which some break rules."""
        for rule, result in self.results.items():
            earlier = copy.copy(result)
            earlier.result = {"element_count": rows, "unexpected_count": broken.get(rule, 0), "missing_count": 0}
            if "element_count" in result.result:
                self.results[rule] = _joined_result(result, earlier)

    def refuses(self, rule: str) -> bool:
        return not self.results[rule].success and "element_count" in self.results[rule].result

    def whole(self) -> Any:
        results = list(self.results.values())
        passed = sum(bool(result.success) for result in results)
        joined = copy.copy(self._first_validation)
        joined.results, joined.success = results, passed == len(results)
        joined.statistics = {
            "evaluated_expectations": len(results),
            "successful_expectations": passed,
            "unsuccessful_expectations": len(results) - passed,
            "success_percent": 100 * passed / max(len(results), 1),
        }
        return joined


_SHOWN = 20
"""Maximum number of unexpected values on the site."""


def _joined_result(first: Any, second: Any) -> Any:
    if "element_count" not in first.result or "element_count" not in second.result:
        # Results without counts are about columns: the first failure stands for all batches.
        return second if first.success else first
    joined = copy.copy(first)
    counts = {name: first.result[name] + second.result[name] for name in _COUNTS if name in first.result}
    counts |= {name: [*first.result.get(name, []), *second.result.get(name, [])][:_SHOWN] for name in _LISTS}
    rows, broken, missing = counts["element_count"], counts["unexpected_count"], counts.get("missing_count", 0)
    # As Great Expectations counts, a missing value neither keeps nor breaks a rule.
    share, total = broken / max(rows - missing, 1), broken / max(rows, 1)
    counts |= {"unexpected_percent": 100 * share}
    if "missing_count" in counts:
        counts |= {"missing_percent": 100 * missing / max(rows, 1), "unexpected_percent_total": 100 * total}
        counts |= {"unexpected_percent_nonmissing": 100 * share}
    joined.result = {**first.result, **counts}
    joined.success = 1 - share >= first.expectation_config.kwargs.get("mostly", 1.0)
    return joined


_COUNTS = ("element_count", "unexpected_count", "missing_count")
_LISTS = ("partial_unexpected_list", "partial_unexpected_counts", "partial_unexpected_index_list")


def _write_docs(context: Any, joined_by_suite: Mapping[str, _Joined], docs: Path) -> None:
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    for name, joined in joined_by_suite.items():
        suite = ExpectationSuiteIdentifier(name=name)
        key = ValidationResultIdentifier(suite, RunIdentifier(run_name="check"), batch_identifier="rows")
        context.validation_results_store.set(key, joined.whole())
    context.build_data_docs()
    # Unused animations of a tutorial are 3 of the site's 4 MB.
    for animation in (docs / "static" / "images").glob("*.gif"):
        animation.unlink()


def _pictures(by_text: Sequence[tuple[str, Mapping[int, bool]]], gates: Bounds) -> tuple[Any, list[Any]]:
    """Return a row an uncaptioned picture, its source if it breaks the rule; of a few pictures all may."""
    sources_read_away = ["" if answer else source for source, answers in by_text for answer in answers.values()]
    least_share = gates.of(PICTURES_BY_TEXT) if len(sources_read_away) >= FEWEST_PICTURES else 0.0
    return _frame_and_rule(
        "read_away_from_its_text",
        "a picture without a caption is read with text next to it",
        sources_read_away,
        least_share,
    )


def _frame_and_rule(
    column: str, description: str, values: Sequence[str], least_share: float = 1.0
) -> tuple[Any, list[Any]]:
    """Return a column and the rule that its values are ""; the site lists the others."""
    from great_expectations import expectations as expect

    expectation = expect.ExpectColumnValuesToBeInSet(column=column, value_set=[""], mostly=least_share)
    frame = pa.table({column: pa.array(values, pa.string())}).to_pandas()
    return frame, [_rule(description, expectation)]


def _rule(description: str, expectation: Any) -> Any:
    """Return an expectation that its results name by its description."""
    expectation.meta, expectation.description = {"rule": description}, description
    return expectation


def _gated_rules(max_tokens: int) -> dict[str, Gate]:
    """Return the gates that allow a share of rows to break a rule, by its description."""
    return {gate.name.format(tokens=max_tokens).removeprefix(OF_ROWS): gate for gate in (LONG_TEXTS, DUPLICATES)}


def _derive(frame: Any, batch: RowBatch) -> None:
    corners = _numbers([corner for bbox in frame["bbox"] for corner in bbox]).reshape(-1, 4)
    is_text = frame["modality"] == Modality.TEXT
    is_picture = frame["modality"].isin([Modality.FIGURE, Modality.PAGE])
    frame["left"], frame["top"] = corners[:, 0], corners[:, 1]
    frame["width"], frame["height"] = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
    frame["n_sources"] = frame["sources"].map(len)
    frame["n_regions"] = frame["regions"].map(len)
    frame["n_tokens"] = np.asarray(batch.facts.n_tokens, int)
    frame["named"] = frame["figure_id"].notna() == is_picture
    # A run of text may be no more than the figures that stand in it.
    spoken = frame["text"].where(~is_text, frame["tagged_text"])
    frame["worded"] = spoken.map(lambda words: bool(words and words.strip()))
    frame["tag_free"] = frame["text"].map(lambda words: words is None or is_disarmed(words))
    frame["shares_id"] = np.asarray(batch.facts.shares_id, bool)
    frame["repeated"] = np.asarray(batch.facts.repeated, bool)
    for space, lengths in batch.facts.norms.items():
        frame[_norm(space)] = _numbers(lengths)
    # Lists are replaced by whether they exist: the suite pickles the frame.
    for name in (field.name for field in EVIDENCE if pa.types.is_nested(field.type)):
        frame[name] = frame[name].notna().replace(False, None)


def _numbers(values: Sequence[float] | NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return numbers, infinity in place of NaN, which Great Expectations would leave out as missing."""
    numbers: NDArray[np.floating[Any]] = np.array(values, float)
    numbers[np.isnan(numbers)] = np.inf
    return numbers


def _norm(space: str) -> str:
    return f"norm_{space}"


def _rules(max_tokens: int, gates: Bounds, spaces: Sequence[str], *, complete: bool) -> list[Any]:
    from great_expectations import expectations as expect

    columns = [*EVIDENCE.names, *_DERIVED, *map(_norm, spaces)] if complete else EVIDENCE.names
    rules = {"evidence has the columns of its schema": expect.ExpectTableColumnsToMatchOrderedList(column_list=columns)}
    if complete:
        required = [field.name for field in EVIDENCE if not field.nullable]
        rules |= {f"{name} is never missing": expect.ExpectColumnValuesToNotBeNull(column=name) for name in required}
        page_pt = {"min_value": -_LARGEST_PAGE_PT, "max_value": _LARGEST_PAGE_PT}
        length_pt = {"min_value": 0, "max_value": _LARGEST_PAGE_PT}
        unit_norm = {"min_value": 1 - _NORM_TOLERANCE, "max_value": 1 + _NORM_TOLERANCE}
        between = expect.ExpectColumnValuesToBeBetween
        among = expect.ExpectColumnValuesToBeInSet
        rules |= {
            "evidence_id is unique": among(column="shares_id", value_set=[False]),
            "doc_id is a SHA-256": expect.ExpectColumnValuesToMatchRegex(column="doc_id", regex="^[0-9a-f]{64}$"),
            "modality is a known one": among(column="modality", value_set=[modality.value for modality in Modality]),
            "page counts from 1": between(column="page", min_value=1),
            "order counts from 0": between(column="order", min_value=0),
            "a box is where a page can be, from the left": between(column="left", **page_pt),
            "a box is where a page can be, from the top": between(column="top", **page_pt),
            "a box has a width": between(column="width", **length_pt),
            "a box has a height": between(column="height", **length_pt),
            "a row has a source": between(column="n_sources", min_value=1),
            "a row has a region": between(column="n_regions", min_value=1),
            "rows of figures and pages, and they alone, name their picture": among(column="named", value_set=[True]),
            "a row has words or tags": among(column="worded", value_set=[True]),
            "text holds no tag and no placeholder": among(column="tag_free", value_set=[True]),
        }
        rules |= {f"a vector {space} has length 1": between(column=_norm(space), **unit_norm) for space in spaces}
        long, repeated = _gated_rules(max_tokens)
        rules[long] = between(column="n_tokens", max_value=max_tokens, mostly=1 - gates.of(LONG_TEXTS))
        rules[repeated] = among(column="repeated", value_set=[False], mostly=1 - gates.of(DUPLICATES))
    return [_rule(description, expectation) for description, expectation in rules.items()]


def _verdict(
    rule: str,
    allowing_gate: Gate | None,
    gates: Bounds,
    result: Any,
    violations: Sequence[Violation],
    names: Mapping[str, str],
) -> GateVerdict:
    """Return the verdict on a rule; ``allowing_gate`` allows a share of rows to break it, None allows none."""
    counts = result.result
    broken, rows = counts.get("unexpected_count"), counts.get("element_count")
    message, share = rule, gates.of(allowing_gate) if allowing_gate else 0.0
    if rows is None and not result.success:
        reason = counts.get("details") or _reason(result.exception_info)
        message = f"it isn't so ({reason}); {OUR_FAULT}"
    elif broken:
        allowed = f" ({share:.0%} may: {allowing_gate.option})" if allowing_gate else ""
        message = f"not so in {broken} of {rows} rows{allowed}"
    if violations:
        remedy = allowing_gate.remedy.format(ease=allowing_gate.ease) if allowing_gate else OUR_FAULT
        message = f"{message}: {describe_violations(violations, names)}; {remedy}"
    gate = GateResult(
        gate=f"{OF_ROWS}{rule}",
        passed=bool(result.success),
        value=None if rows is None else (broken or 0) / max(rows, 1),
        bound=None if rows is None else share,
        message=message,
    )
    return GateVerdict(gate, () if allowing_gate else tuple(violations))


def _reason(exceptions: Any) -> str:
    raised = [exceptions] if "exception_message" in exceptions else list(exceptions.values())
    return "; ".join(sorted({str(entry["exception_message"]) for entry in raised}))


def _configuration(docs: Path | None) -> Any:
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs and docs.absolute())},
    }
    return DataContextConfig(
        # The default site is a temporary folder that is never removed.
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        data_docs_sites={} if docs is None else {"quality": site},
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
