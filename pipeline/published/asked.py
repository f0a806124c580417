"""Store what the service has counted of questions."""

from pipeline.published.corpus import PublishedCorpus
from pipeline.records.asked import write_asked
from schemas.asked import AskedOfDay
from tasks.answering.confidence import NEARNESS


def keep_asked(corpus: PublishedCorpus, process: str, asked_of_day: AskedOfDay) -> None:
    """Store what a process has counted of a day, with the vectors of unanswered questions."""
    with corpus.opened(asked_of_day.version) as opened:
        questions = [
            question.model_copy(update={"vector": opened.question(question.text).vector(NEARNESS.name).round(4).tolist()})
            for question in asked_of_day.unanswered
        ]
        write_asked(opened.workspace.store, process, asked_of_day.model_copy(update={"unanswered": questions}))
