"""Section operations: how Airflow runs the corpus's refreshes."""

from typing import Annotated

from pydantic import Field, JsonValue

from schemas.corpus.fields import Section, Text

Hours = Annotated[float, Field(gt=0, le=87_600)]


class OperationOptions(Section):
    """How Airflow runs the corpus's refreshes, beside their schedule."""

    after_asset: Text | None = Field(
        None, min_length=1, description="URI of an Airflow asset whose updates start a refresh."
    )
    watch_s: int | None = Field(
        None, ge=5, le=86_400, description="Seconds between two looks at the source: a changed listing starts a refresh."
    )
    approval_h: Hours | None = Field(
        12,
        description="Hours that Airflow waits for a person to approve a version that a gate refused or a budget left "
        "incomplete; without an answer the live version stays. null: it doesn't ask.",
    )
    stale_h: Hours | None = Field(
        None, description="Hours without a successful refresh after which the corpus is reported as stale; null: never."
    )
    nightly_h: int | None = Field(
        3,
        ge=0,
        le=23,
        description="Hour of the day in UTC at which inset_evaluate runs the corpus's experiment on the live version again, if "
        "there are questions, and fails where it surely became worse than its last report; null: never.",
    )
    own_dags: bool = Field(
        False,
        description="Give the corpus operators' DAGs of its own, inset_publish_NAME and so on, in place of those of all corpora, "
        "so that a role of Airflow may publish, roll back, plan, prune, replay and free this corpus alone.",
    )
    owner: Text = Field("inset", min_length=1, description="Owner of the refresh's tasks in Airflow.")
    tags: list[Text] = Field(
        [], max_length=20, description="Further tags of the refresh's DAG, which has the tags refresh and inset."
    )
    pool: Text | None = Field(
        None,
        min_length=1,
        description="Airflow's pool for parse and enrich, which has to exist; default: INSET_ENRICH_POOL's.",
    )
    max_active_tis: int | None = Field(
        None, ge=1, le=500, description="Tasks of parse and tag that run at once; null: no limit."
    )
    notify: dict[Text, dict[Text, JsonValue]] = Field(
        {},
        description="Airflow notifiers called when a run fails, is tried again for long or waits for an answer, and when "
        "inset_watch finds something, by class, with their arguments, such as "
        "airflow.providers.smtp.notifications.smtp.SmtpNotifier: {to: docs@example.org}.",
    )
    announce: dict[Text, dict[Text, JsonValue]] = Field(
        {},
        description="Notifiers called with the release note when a version goes live, such as "
        "plugins.notify.Webhook: {url: https://search.example.org/hook}.",
    )
