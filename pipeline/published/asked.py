"""Store what the service has counted of questions."""

from pipeline.published.corpus import PublishedCorpus
from pipeline.records.asked import write_asked
from schemas.asked import AskedOfDay
from tasks.answering.confidence import NEARNESS


def keep_asked(corpus: PublishedCorpus, process: str, asked: AskedOfDay) -> None:
    """Store what a process has counted of a day, with the vectors of unanswered questions."""
    with corpus.opened(asked.version) as opened:
        questions = [
            question.model_copy(update={"vector": opened.question(question.text).vector(NEARNESS.name).round(4).tolist()})
            for question in asked.unanswered
        ]
        write_asked(opened.workspace.store, process, asked.model_copy(update={"unanswered": questions}))
