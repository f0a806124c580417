"""Counts of broken rules, judged by Great Expectations, with Data Docs.

Importing Great Expectations takes 2.4 CPU seconds, so only the function does. Its context is in memory; only the static
site stays, which loads its styles from public CDNs.
"""

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas.gates import RuleCount

_SUITE = "evidence"


def judge(counts: Sequence[RuleCount], docs: Path) -> set[str]:
    """Return the rules that more rows break than may; the Data Docs start at ``index.html`` of the empty ``docs``."""
    # Must be set before the import.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        # It imports deprecated modules.
        warnings.simplefilter("ignore")
        import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    context = gx.get_context(mode="ephemeral", project_config=_configuration(docs))
    source = context.data_sources.add_pandas("version")
    shares = source.add_dataframe_asset(_SUITE).add_batch_definition_whole_dataframe("shares")
    suite = gx.ExpectationSuite(name=_SUITE, expectations=_expectations(counts))
    frame = pa.table({count.rule: [count.share] for count in counts}).to_pandas()
    validation = shares.get_batch(batch_parameters={"dataframe": frame}).validate(suite)
    results = {result.expectation_config.meta["rule"]: result for result in validation.results}
    broken_rules = {rule for rule, result in results.items() if not result.success}
    # Great Expectations saw a share a rule; the site shows the rows of the version.
    for count in counts:
        results[count.rule].result = _result(count)
        results[count.rule].expectation_config = _as_shown(count)
    validation.results = [results[count.rule] for count in counts]
    key = ValidationResultIdentifier(
        ExpectationSuiteIdentifier(name=_SUITE), RunIdentifier(run_name="check"), batch_identifier="rows"
    )
    context.validation_results_store.set(key, validation)
    context.build_data_docs()
    # Unused animations of a tutorial are 3 of the site's 4 MB.
    for animation in (docs / "static" / "images").glob("*.gif"):
        animation.unlink()
    return broken_rules


def _expectations(counts: Sequence[RuleCount]) -> list[Any]:
    """Return an expectation a rule: of a column's maximum, whose metrics take a tenth of the time of those of its values."""
    from great_expectations import expectations as expect

    return [
        expect.ExpectColumnMaxToBeBetween(
            column=count.rule, max_value=count.allowed, description=count.rule, meta={"rule": count.rule}
        )
        for count in counts
    ]


def _as_shown(count: RuleCount) -> Any:
    """Return the expectation of a rule as one of a column's values, for which the site shows counts and examples."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    return ExpectationConfiguration(
        type="expect_column_values_to_be_between",
        kwargs={"column": count.rule, "max_value": count.allowed},
        description=count.rule,
        meta={"rule": count.rule},
    )


def _result(count: RuleCount) -> dict[str, Any]:
    """Return the counts of a rule as Great Expectations summarises those of a column."""
    return {
        "element_count": count.rows,
        "unexpected_count": count.broken,
        "unexpected_percent": 100 * count.share,
        "partial_unexpected_list": list(count.examples),
        "partial_unexpected_counts": [
            {"value": example, "count": number} for example, number in Counter(count.examples).items()
        ],
    }


def _configuration(docs: Path) -> Any:
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs.absolute())},
    }
    return DataContextConfig(
        # The default site is a temporary folder that is never removed.
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        data_docs_sites={"quality": site},
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
