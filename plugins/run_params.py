"""The parameters of a refresh in Airflow; those that ``RunOptions`` has are its own."""

from airflow.sdk import Param

PARAMS = {
    "dry_run": Param(False, type="boolean", title="Dry run", description="Plan only: what would be done, and its cost."),
    "replay": Param(False, type="boolean", title="Replay quarantine", description="Try the documents in quarantine again."),
    "force": Param(False, type="boolean", title="Force", description="Build a version even if nothing changed."),
    "money": Param(
        None,
        type=["null", "number"],
        minimum=0,
        title="Budget",
        description="The run's limit on money for generative models, in place of the corpus file's.",
    ),
    "reason": Param(None, type=["null", "string"], title="Reason", description="Kept in the corpus's audit log."),
    "documents": Param(
        [],
        type="array",
        items={"type": "string"},
        title="Documents",
        description="With Replay quarantine: sources of the documents to try again; none: all.",
    ),
    "override": Param(
        None,
        type=["null", "string"],
        title="Override reason",
        description="Publish the version even if gates refuse it or the corpus is held; stored with the version.",
    ),
}
