"""The task ``approve``, which asks a person before a version goes live."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput
from airflow.sdk.timezone import utcnow
from airflow.triggers.base import TriggerEvent

from pipeline.corpus.schedules import CorpusSchedule
from plugins.airflow_run import planned, refresh_run
from plugins.notify import note_answer, note_question
from schemas.errors import InsetError

if TYPE_CHECKING:
    from schemas.versions import Pointer

_EVERY_S = 15.0
"""Seconds between two looks at the live version."""


class Approve(ApprovalOperator):
    """Asks whether the planned version of a corpus goes live, until that is decided elsewhere.

    People are told, and the store says until when it waits.

    Args:
        corpus_schedule: The corpus.
        hours: How long it waits.
    """

    def __init__(self, *, corpus_schedule: CorpusSchedule, hours: float, **arguments: Any) -> None:
        super().__init__(response_timeout=timedelta(hours=hours), fail_on_reject=True, defaults=self.REJECT, **arguments)
        self.corpus, self.hours = str(corpus_schedule.file), hours
        self._corpus_schedule = corpus_schedule

    def execute(self, context: Any) -> None:
        """Ask, and defer to a trigger: Airflow waits for answers only, and doesn't see a version published elsewhere."""
        note_question(self._corpus_schedule, context, self.subject, self.hours)
        try:
            super().execute(context)
        except TaskAwaitingInput as asked:
            trigger = ApprovalTrigger(
                store=self._corpus_schedule.store,
                version=planned("version"),
                ti_id=context["ti"].id,
                options=self.options,
                defaults=self.defaults,
                params=self.serialized_params,
                timeout_datetime=utcnow() + asked.timeout if asked.timeout else None,
            )
            self.defer(trigger=trigger, method_name=asked.method_name)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Go on, or fail: with the person who rejected and the reason, or since nobody answered."""
        if event.get("chosen_options") != [self.REJECT]:
            answer = super().execute_complete(context, event)
            note_answer(self._corpus_schedule, context)
            return answer
        user = event["responded_by_user"]
        if user is None:
            raise AirflowFailException(f"nobody answered within {self.hours:g} h: {self.subject}")
        reason = (event["params_input"] or {}).get("reason") or ""
        with refresh_run(self.corpus) as run:
            rejection = run.reject(planned("version"), by=user["name"], reason=reason)
        raise HITLRejectException(rejection)


class ApprovalTrigger(HITLTrigger):
    """Waits for a person's answer; approves in nobody's name once the question is decided elsewhere.

    Args:
        store: The corpus's store.
        version: The version in question.
        question: Arguments of Airflow's trigger.
    """

    def __init__(self, *, store: str, version: str, **question: Any) -> None:
        super().__init__(**question)
        self.store, self.version = store, version

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the trigger's class and arguments."""
        _, question = super().serialize()
        return f"{type(self).__module__}.{type(self).__qualname__}", question | {
            "store": self.store,
            "version": self.version,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire for the answer, or once it no longer matters."""
        answer_events = super().run()
        answered, decided = asyncio.ensure_future(anext(answer_events)), asyncio.ensure_future(self._decided())
        try:
            await asyncio.wait((answered, decided), return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                yield answered.result()
                return
            self.params["reason"] = decided.result()
        finally:
            answered.cancel()
            decided.cancel()
        # A default whose time has passed is the way to answer for nobody. An answer given just before still counts.
        self.defaults, self.timeout_datetime = [Approve.APPROVE], utcnow() - timedelta(seconds=1)
        async for event in super().run():
            yield event

    async def _decided(self) -> str:
        """Wait until the version is live, or another one since it was built; return what happened."""
        from pipeline.records.publication import decision_in_words

        problem = ""
        while True:
            try:
                if live := await asyncio.to_thread(self._decision):
                    return decision_in_words(live, self.version)
                problem = ""
            except InsetError as error:
                if error.message != problem:
                    problem = error.message
                    self.log.warning("%s; asked again every %g s", problem, _EVERY_S)
            await asyncio.sleep(_EVERY_S)

    def _decision(self) -> "Pointer | None":
        from backends.stores.object_store import open_store
        from pipeline.records.publication import decision

        return decision(open_store(self.store), self.version)
