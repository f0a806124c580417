"""The task ``confirm``: the version is live. It updates the corpus's asset, and describes the lineage to OpenLineage."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from pipeline.corpus.schedules import CorpusSchedule
from plugins.airflow_run import planned, refresh_run
from plugins.notify import announce

if TYPE_CHECKING:
    from schemas.versions import Manifest


class Confirm(BaseOperator):
    """Checks that the planned version is live, whatever state ``publish`` was set to by hand."""

    def __init__(self, *, corpus_schedule: CorpusSchedule, asset: Asset, **arguments: Any) -> None:
        super().__init__(outlets=[asset], **arguments)
        self.corpus, self.asset = str(corpus_schedule.file), asset
        self._corpus_schedule = corpus_schedule
        self._confirmed: tuple[str, str, Manifest] | None = None

    def execute(self, context: Any) -> None:
        """Fail where another version is live; else update the asset."""
        from pipeline.records.manifests import read_manifest
        from pipeline.records.publication import read_pointer

        version = planned("version")
        with refresh_run(self.corpus) as run:
            pointer = read_pointer(run.workspace.store)
            manifest = read_manifest(run.workspace.store, version)
        if pointer is None or pointer.version != version or manifest is None:
            live = pointer.version if pointer is not None else "nothing"
            raise AirflowFailException(f"{version} isn't live, {live} is: publish it on the page Inset, or refresh again")
        self._confirmed = run.workspace.corpus.source, run.workspace.store.root, manifest
        announce(self._corpus_schedule, run.workspace.store, pointer, context)
        context["outlet_events"][self.asset].extra = {"version": version, "counts": manifest.counts.totals()}

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return source and version as datasets; called by the OpenLineage provider if it is installed.

        It runs in a forked process, where the store's libraries hang: what it needs is read before.
        """
        return None if self._confirmed is None else _lineage(*self._confirmed)


def _lineage(source: str, store: str, manifest: "Manifest") -> Any:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import (
        data_quality_assertions_dataset,
        dataset_version_dataset,
        output_statistics_output_dataset,
    )

    checked = [
        data_quality_assertions_dataset.Assertion(assertion=gate.gate, success=gate.passed) for gate in manifest.gates
    ]
    namespace, name = _address(store)
    return OperatorLineage(
        inputs=[
            InputDataset(*_address(source)),
            InputDataset(
                namespace,
                name,
                inputFacets={
                    "dataQualityAssertions": data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(checked)
                },
            ),
        ],
        outputs=[
            OutputDataset(
                namespace,
                name,
                facets={"version": dataset_version_dataset.DatasetVersionDatasetFacet(manifest.version)},
                outputFacets={
                    "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                        rowCount=manifest.counts.rows
                    )
                },
            )
        ],
    )


def _address(address: str) -> tuple[str, str]:
    """Return namespace and name of a folder or S3 prefix, as OpenLineage's naming rules have them."""
    scheme, separator, path = address.partition("://")
    if not separator:
        return "file", address
    bucket, _, key = path.partition("/")
    return f"{scheme}://{bucket}", key or "/"
