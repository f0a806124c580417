"""What rows of evidence must look like, as a Great Expectations suite, with Data Docs for people.

Importing Great Expectations takes ten seconds and more, so only the function does. Its context lives in memory: nothing of
it stays but the static site, whose pages take their styles from public CDNs.
"""

import copy
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.evidence import EVIDENCE, Modality
from schemas.gates import DUPLICATES, LONG_TEXTS, PICTURES_BY_TEXT, Bounds, Gate
from schemas.laws import FEWEST_PICTURES, OUR_FAULT, Offence, Verdict, in_words
from schemas.tags import is_disarmed
from schemas.versions import GateResult

_NORM_TOLERANCE = 1e-3
_LARGEST_PAGE_PT = 100_000
_ROWS = "rows: "
"""What the name of every gate here begins with."""
_DERIVED = (
    *("left", "top", "width", "height", "n_sources", "n_regions", "n_tokens"),
    *("named", "worded", "tag_free", "repeated"),
)


Norms = Mapping[str, Sequence[float] | NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class _Rule:
    """An expectation with the words that people read; ``gate`` allows a share of rows to break it, None allows none."""

    says: str
    expectation: Any
    gate: Gate | None = None
    share: float = 0.0


def expect_evidence(
    evidence: pa.Table,
    names: Mapping[str, str],
    *,
    n_tokens: Sequence[int],
    norms: Norms,
    max_tokens: int,
    gates: Bounds,
    by_text: Sequence[tuple[str, Mapping[int, bool]]] = (),
    docs: Path | None = None,
) -> list[Verdict]:
    """Validate rows of evidence.

    Args:
        evidence: The rows of a version.
        names: A source of each document, by its id.
        n_tokens: Tokens of each row's text, in the order of the rows.
        norms: Length of each row's vector, in the order of the rows, by space; 1 where a row has none there.
        max_tokens: Tokens a text is meant to hold.
        gates: The shares of rows that may be too long, and that may repeat others.
        by_text: Sources of documents, and of their pictures without a caption, by placement, whether they are read with text
            next to them: ``docs`` show them beside the rows; the gate on them is another's.
        docs: Empty folder for the Data Docs, a static site that starts at ``index.html``; None for none.

    Returns:
        A verdict a rule: ``value`` is the share of rows that break it, ``bound`` what is allowed, 0 but for the shares of
        ``gates``; for the columns both are None. Rows that may not break a rule are offences of their documents.
    """
    # Read when the package is imported.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        # Its modules import deprecated ones of the standard library and of marshmallow.
        warnings.simplefilter("ignore")
        import great_expectations as gx
        from great_expectations.checkpoint import UpdateDataDocsAction

    frame = evidence.to_pandas()
    complete = set(EVIDENCE.names) <= set(frame.columns)
    if complete:
        _derive(frame, n_tokens, norms)
    rules = _rules(max_tokens, gates, list(norms), complete=complete)

    context = gx.get_context(mode="ephemeral", project_config=_configuration(docs))
    source = context.data_sources.add_pandas("version")

    def validated(name: str, frame: Any, rules: Sequence[_Rule], keys: Sequence[str]) -> tuple[Any, dict[str, Any]]:
        asset = source.add_dataframe_asset(name)
        suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=[rule.expectation for rule in rules]))
        batches = asset.add_batch_definition_whole_dataframe("rows")
        definition = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batches, suite=suite))
        checkpoint = gx.Checkpoint(
            name=name,
            validation_definitions=[definition],
            actions=[] if docs is None else [UpdateDataDocsAction(name="docs")],
            result_format={"result_format": "SUMMARY", "unexpected_index_column_names": list(keys)},
        )
        outcome = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
        (found,) = outcome.run_results.values()
        return asset, {result.expectation_config.meta["rule"]: result for result in found.results}

    asset, results = validated("evidence", frame, rules, ["evidence_id"] if complete else [])
    if docs is not None:
        validated("pictures", *_pictures(by_text, gates), [])
        _drop_tutorial(docs)
    refused = [rule for rule in rules if not results[rule.says].success and "element_count" in results[rule.says].result]
    broken = _broken_rows(gx, asset, frame, refused) if refused else {}
    return [_verdict(rule, results[rule.says], broken.get(rule.says, []), evidence, names) for rule in rules]


def _pictures(by_text: Sequence[tuple[str, Mapping[int, bool]]], gates: Bounds) -> tuple[Any, list[_Rule]]:
    """Return a row a picture without a caption, and what is expected of them; of a few that is nothing, as of their gate."""
    from great_expectations import expectations as expect

    # The site lists values that aren't expected, so that is the source.
    away = ["" if answer else source for source, found in by_text for answer in found.values()]
    least = gates.of(PICTURES_BY_TEXT) if len(away) >= FEWEST_PICTURES else 0.0
    column = "read_away_from_its_text"
    says = "a picture without a caption is read with text next to it"
    expectation = expect.ExpectColumnValuesToBeInSet(column=column, value_set=[""], mostly=least)
    expectation.meta, expectation.description = {"rule": says}, says
    return pa.table({column: pa.array(away, pa.string())}).to_pandas(), [_Rule(says, expectation)]


def _broken_rows(gx: Any, asset: Any, frame: Any, rules: Sequence[_Rule]) -> dict[str, list[int]]:
    """Return the places of all rows that break each rule. The first look has but a few, since sites show what it has."""
    suite = gx.ExpectationSuite(name="broken", expectations=[copy.copy(rule.expectation) for rule in rules])
    batch = asset.get_batch_definition("rows").get_batch(batch_parameters={"dataframe": frame})
    found = batch.validate(suite, result_format="COMPLETE")
    return {
        result.expectation_config.meta["rule"]: list(result.result.get("unexpected_index_list") or [])
        for result in found.results
    }


def _derive(frame: Any, n_tokens: Sequence[int], norms: Norms) -> None:
    """Add to a pandas frame columns of plain numbers and truths, which is what expectations can be put on."""
    corners = np.array(frame["bbox"].tolist(), float).reshape(-1, 4)
    is_text, is_figure = frame["modality"] == Modality.TEXT, frame["modality"] == Modality.FIGURE
    frame["left"], frame["top"] = corners[:, 0], corners[:, 1]
    frame["width"], frame["height"] = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
    frame["n_sources"] = frame["sources"].map(len)
    frame["n_regions"] = frame["regions"].map(len)
    frame["n_tokens"] = np.asarray(n_tokens, int)
    frame["named"] = frame["figure_id"].notna() == is_figure
    # A run of text may be no more than the figures that stand in it.
    spoken = frame["text"].where(~is_text, frame["tagged_text"])
    frame["worded"] = spoken.map(lambda words: bool(words and words.strip()))
    frame["tag_free"] = frame["text"].map(lambda words: words is None or is_disarmed(words))
    # Figures that nothing is said of are told alike, and are none the less figures of their own.
    searched = frame["title"].str.cat([frame["section_path"].map("\n".join), frame["text"]], sep="\n")
    frame["repeated"] = ~is_figure & searched.where(~is_figure).duplicated() & (frame["text"] != "")
    for space, lengths in norms.items():
        frame[_norm(space)] = np.asarray(lengths, float)
    # The suite pickles the frame to name it, which takes longest for lists; of them it only asks whether they are there.
    for name in (field.name for field in EVIDENCE if pa.types.is_nested(field.type)):
        frame[name] = frame[name].notna().replace(False, None)


def _norm(space: str) -> str:
    return f"norm_{space}"


def _rules(max_tokens: int, gates: Bounds, spaces: Sequence[str], *, complete: bool) -> list[_Rule]:
    from great_expectations import expectations as expect

    columns = [*EVIDENCE.names, *_DERIVED, *map(_norm, spaces)] if complete else EVIDENCE.names
    rules = {"evidence has the columns of its schema": expect.ExpectTableColumnsToMatchOrderedList(column_list=columns)}
    shares: dict[str, Gate] = {}
    if complete:
        required = [field.name for field in EVIDENCE if not field.nullable]
        rules |= {f"{name} is never missing": expect.ExpectColumnValuesToNotBeNull(column=name) for name in required}
        page_pt = {"min_value": -_LARGEST_PAGE_PT, "max_value": _LARGEST_PAGE_PT}
        length_pt = {"min_value": 0, "max_value": _LARGEST_PAGE_PT}
        unit = {"min_value": 1 - _NORM_TOLERANCE, "max_value": 1 + _NORM_TOLERANCE}
        between = expect.ExpectColumnValuesToBeBetween
        among = expect.ExpectColumnValuesToBeInSet
        rules |= {
            "evidence_id is unique": expect.ExpectColumnValuesToBeUnique(column="evidence_id"),
            "doc_id is a SHA-256": expect.ExpectColumnValuesToMatchRegex(column="doc_id", regex="^[0-9a-f]{64}$"),
            "modality is a known one": among(column="modality", value_set=[modality.value for modality in Modality]),
            "page counts from 1": between(column="page", min_value=1),
            "order counts from 0": between(column="order", min_value=0),
            "a box is where a page can be, from the left": between(column="left", **page_pt),
            "a box is where a page can be, from the top": between(column="top", **page_pt),
            "a box has a width": between(column="width", **length_pt),
            "a box has a height": between(column="height", **length_pt),
            "left of a box is a number": expect.ExpectColumnValuesToNotBeNull(column="left"),
            "top of a box is a number": expect.ExpectColumnValuesToNotBeNull(column="top"),
            "width of a box is a number": expect.ExpectColumnValuesToNotBeNull(column="width"),
            "height of a box is a number": expect.ExpectColumnValuesToNotBeNull(column="height"),
            "a row has a source": between(column="n_sources", min_value=1),
            "a row has a region": between(column="n_regions", min_value=1),
            "figure rows, and they alone, name their figure": among(column="named", value_set=[True]),
            "a row has words or tags": among(column="worded", value_set=[True]),
            "text holds no tag and no placeholder": among(column="tag_free", value_set=[True]),
        }
        for space in spaces:
            rules[f"a vector {space} has length 1"] = between(column=_norm(space), **unit)
            rules[f"a vector {space} is made of numbers"] = expect.ExpectColumnValuesToNotBeNull(column=_norm(space))
        long, repeated = (gate.name.format(tokens=max_tokens).removeprefix(_ROWS) for gate in (LONG_TEXTS, DUPLICATES))
        shares = {long: LONG_TEXTS, repeated: DUPLICATES}
        rules[long] = between(column="n_tokens", max_value=max_tokens, mostly=1 - gates.of(LONG_TEXTS))
        rules[repeated] = among(column="repeated", value_set=[False], mostly=1 - gates.of(DUPLICATES))
    for says, expectation in rules.items():
        expectation.meta = {"rule": says}
        expectation.description = says
    return [
        _Rule(says, expectation, gate, gates.of(gate)) if (gate := shares.get(says)) else _Rule(says, expectation)
        for says, expectation in rules.items()
    ]


def _verdict(rule: _Rule, result: Any, places: Sequence[int], evidence: pa.Table, names: Mapping[str, str]) -> Verdict:
    found = result.result
    broken, rows = found.get("unexpected_count"), found.get("element_count")
    columns = evidence.select(["doc_id", "page"]).take(places).to_pylist() if places else []
    offences = tuple(Offence(row["doc_id"], row["page"], "a row breaks it") for row in columns)
    message = rule.says
    if rows is None and not result.success:
        reason = found.get("details") or _reason(result.exception_info)
        message = f"it isn't so ({reason}); {OUR_FAULT}"
    elif broken:
        allowed = f" ({rule.share:.0%} may: {rule.gate.option})" if rule.gate else ""
        message = f"not so in {broken} of {rows} rows{allowed}"
    if offences:
        remedy = rule.gate.remedy.format(ease=rule.gate.ease) if rule.gate else OUR_FAULT
        message = f"{message}: {in_words(offences, names)}; {remedy}"
    gate = GateResult(
        gate=f"{_ROWS}{rule.says}",
        passed=bool(result.success),
        value=None if rows is None else (broken or 0) / max(rows, 1),
        bound=None if rows is None else rule.share,
        message=message,
    )
    return Verdict(gate, () if rule.gate else offences)


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
        # The default site is a temporary folder that nobody removes.
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        data_docs_sites={} if docs is None else {"quality": site},
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )


def _drop_tutorial(folder: Path) -> None:
    """Remove the animations of a tutorial that the site does not show; they are 3 of its 4 MB."""
    for animation in (folder / "static" / "images").glob("*.gif"):
        animation.unlink()
