"""Judged metrics: six of "Beyond Text", and five of OMG-QA.

Each asks a judge one or more questions that it answers with YES or NO; the grade is the share of YES. The prompts are in our own
words, after figures 5 to 10 of "Beyond Text" (Riedler and Langer, 2024) and figures 6 to 8 of OMG-QA (Nan et al., 2024).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evaluation.questions import Question
from lab.judging import known_pairs
from lab.judging.known_pairs import Fault
from lab.judging.verdicts import verdict
from lab.model_replies import without_thoughts
from lab.outcomes import Admission, Grade, Outcome, Pictures
from schemas.answers import TextPart
from schemas.evidence import Hit
from schemas.ports import StreamingModel

ADMITTED_AUC = 0.8
"""Area under the ROC curve on the known pairs from which a judge is admitted. A judge that is right in nine of ten has 0.9. One
that tosses a coin has 0.5, and reaches this on 12 pairs once in 1,300 times (on 6 pairs once in 52). The second judge of "Beyond
Text" grades 96 to 100 % of pictures NO, gold ones too: 0.5 at most."""


@dataclass(frozen=True)
class Case:
    """What a metric is asked about: a question, its outcome, the judge, and the pictures of figures; None if it sees none."""

    question: Question
    outcome: Outcome
    judge: StreamingModel
    pictures: Pictures | None

    def ask(self, prompt: str, pictures: Sequence[str] = (), **values: str) -> Grade:
        """Ask the judge; ``pictures`` are figure ids."""
        values = {"question": self.question.question, "answer": self.answer} | values
        picture_bytes = tuple(map(self.pictures, pictures)) if self.pictures else ()
        return verdict(self.judge, prompt, picture_bytes, **values)

    @property
    def answer(self) -> str:
        """The answer as a model wrote it, or with its citations by name, such as [P1], which count the rows of the context."""
        if self.outcome.reply:
            return without_thoughts(self.outcome.reply)
        answer, numbers = self.outcome.answer, {hit.evidence_id: n for n, hit in enumerate(self.outcome.context, 1)}
        if answer is None:
            return ""
        cited = {
            citation.n: numbers[citation.evidence_id] for citation in answer.citations if citation.evidence_id in numbers
        }
        return (
            "\n".join(
                " ".join([part.text, *(f"[P{cited[n]}]" for n in part.citations if n in cited)])
                for part in answer.parts
                if isinstance(part, TextPart)
            )
            or self.outcome.answer_text
        )

    @property
    def texts(self) -> str:
        """The rows of the context whose words the model read, with their names."""
        read_ids = {*self.outcome.words}
        rows = ((n, hit) for n, hit in enumerate(self.outcome.context, 1) if hit.evidence_id in read_ids)
        return "\n\n".join(f"[P{n}] {hit.title}: {hit.text}" for n, hit in rows)

    def relevant(self, hit: Hit) -> Grade:
        """Judge a row by itself, with its picture if it has one that the answer's model saw."""
        figure_ids = [hit.figure_id] if hit.figure_id in self.outcome.pictures and hit.figure_id else []
        text = hit.text if hit.evidence_id in self.outcome.words else ""
        return self.ask("evidence_relevancy", figure_ids, title=hit.title, texts=text)

    def used_correctly(self, hit: Hit, number: int) -> Grade:
        """Judge whether the answer says what a row that it cites says."""
        return self.ask("correct_usage", texts=f"[P{number}] {hit.title}: {hit.text}")


Grading = Callable[[Case], Grade]


@dataclass(frozen=True)
class Definition:
    """A judged metric; its grade needs ``reference``, ``answer``, ``text``, ``pictures`` or ``citations``.

    ``faults`` are what the bad ones of the known pairs lack; a judge is tested with each.
    """

    title: str
    grade: Grading
    needs: tuple[str, ...]
    faults: tuple[Fault, ...]


def _grade_by_prompt(prompt: str) -> Grading:
    return lambda case: case.ask(prompt, texts=case.texts, reference=case.question.answer or "")


def _relevancy_of_pictures(case: Case) -> Grade:
    return _share([case.ask("image_context_relevancy", [figure_id]) for figure_id in case.outcome.pictures])


def _faithful_to_pictures(case: Case) -> Grade:
    return case.ask("image_faithfulness", case.outcome.pictures)


def _relevancy_of_evidence(case: Case) -> Grade:
    return _share([case.relevant(hit) for hit in case.outcome.context])


def _effective_usage(case: Case) -> Grade:
    grades: list[Grade] = []
    for number, hit in enumerate(case.outcome.context, 1):
        grade = Grade(value=0.0)
        if hit.evidence_id in case.outcome.cited:
            grade = case.relevant(hit)
            grade = case.used_correctly(hit, number) if grade.value else grade
        grades.append(grade)
    return _share(grades)


def _relevance_of_used(case: Case) -> Grade:
    return _share([case.relevant(hit) for hit in case.outcome.context if hit.evidence_id in case.outcome.cited])


def _share(grades: Sequence[Grade]) -> Grade:
    """Return the mean, and the first reason; None if one of them is None."""
    reasons = [grade.reason for grade in grades if grade.reason]
    values = [grade.value for grade in grades if grade.value is not None]
    if len(values) < len(grades):
        return Grade(value=None, reason=next(grade.reason for grade in grades if grade.value is None))
    return Grade(value=sum(values) / len(values), reason=reasons[0] if reasons else "")


METRICS: dict[str, Definition] = {
    "answer_correctness": Definition(
        "answer correctness", _grade_by_prompt("answer_correctness"), ("reference", "answer"), ("wrong answer",)
    ),
    "answer_relevancy": Definition(
        "answer relevancy", _grade_by_prompt("answer_relevancy"), ("answer",), ("other answer",)
    ),
    "text_faithfulness": Definition(
        "faithfulness to texts", _grade_by_prompt("text_faithfulness"), ("answer", "text"), ("wrong answer",)
    ),
    "image_faithfulness": Definition(
        "faithfulness to pictures", _faithful_to_pictures, ("answer", "pictures"), ("wrong answer",)
    ),
    "text_context_relevancy": Definition(
        "relevancy of texts", _grade_by_prompt("text_context_relevancy"), ("text",), ("other context",)
    ),
    "image_context_relevancy": Definition(
        "relevancy of pictures", _relevancy_of_pictures, ("pictures",), ("other context",)
    ),
    "evidence_relevancy": Definition("relevant evidence", _relevancy_of_evidence, ("text",), ("other context",)),
    "effective_retrieval_usage": Definition(
        "ERU: evidence relevant and used correctly", _effective_usage, ("answer", "text"), ("other context", "wrong answer")
    ),
    "relevance_of_used_evidence": Definition(
        "RUE: cited evidence that is relevant", _relevance_of_used, ("answer", "text", "citations"), ("other context",)
    ),
    "correct_usage_of_evidence": Definition(
        "CUE: evidence used correctly",
        _grade_by_prompt("correct_usage"),
        ("answer", "text", "citations"),
        ("wrong answer",),
    ),
    "citation_completeness": Definition(
        "CCM: complete citations", _grade_by_prompt("citation_completeness"), ("answer", "text"), ("no citation",)
    ),
}
"""Judged metrics by name; a further one is one entry."""

MODALITIES_TOGETHER = {
    "faithfulness": ("faithfulness to texts and pictures", ("text_faithfulness", "image_faithfulness")),
    "context_relevancy": ("relevancy of texts and pictures", ("text_context_relevancy", "image_context_relevancy")),
}
"""Means over the modalities that an outcome has, as "Beyond Text" gives them: title, and the judged metrics."""

_MISSING: Mapping[str, tuple[str, Callable[[Question, Outcome], object]]] = {
    "reference": ("the question has no reference answer", lambda question, _: question.answer),
    "answer": ("there is no answer", lambda _, outcome: outcome.answer_text.strip()),
    "text": (
        "no text was provided",
        lambda _, outcome: any(hit.text.strip() for hit in outcome.context if hit.evidence_id in outcome.words),
    ),
    "pictures": ("no picture was provided", lambda _, outcome: outcome.pictures),
    "citations": (
        "the answer cites no evidence of its context",
        lambda _, outcome: {hit.evidence_id for hit in outcome.context} & set(outcome.cited),
    ),
}


@dataclass
class Judged:
    """A metric as one judge grades it."""

    name: str
    definition: Definition
    judge: StreamingModel
    pictures: Pictures | None

    def score(self, question: Question, outcome: Outcome) -> Grade:
        """Return the grade, between 0 and 1; None with the reason if an input is missing, or the judge gives no grade."""
        if "pictures" in self.definition.needs and self.pictures is None:
            return Grade(value=None, reason="the judge sees no pictures")
        for need in self.definition.needs:
            reason, is_met = _MISSING[need]
            if not is_met(question, outcome):
                return Grade(value=None, reason=reason)
        return self.definition.grade(Case(question, outcome, self.judge, self.pictures))

    def admission(self) -> Admission:
        """Grade known good and bad outcomes of each fault; a grade of None counts as half right. The worst AUC counts."""
        tested = [self._test_fault(fault) for fault in self.definition.faults]
        return min(tested, key=lambda admission: admission.auc or 0.0)

    def _test_fault(self, fault: Fault) -> Admission:
        from scipy.stats import mannwhitneyu

        metric = Judged(self.name, self.definition, self.judge, known_pairs.picture if self.pictures else None)
        right_grades: list[float] = []
        wrong_grades: list[float] = []
        nulls: list[str] = []
        for pair in known_pairs.pairs(fault):
            for outcome, grades in ((pair.good, right_grades), (pair.bad, wrong_grades)):
                grade = metric.score(pair.question, outcome)
                nulls += [grade.reason] if grade.value is None else []
                grades.append(0.5 if grade.value is None else grade.value)
        auc = float(mannwhitneyu(right_grades, wrong_grades).statistic) / (len(right_grades) * len(wrong_grades))
        admitted = auc >= ADMITTED_AUC
        reason = "" if admitted else f"AUC {auc:.2f} on {len(right_grades)} known pairs; {ADMITTED_AUC} admits"
        if nulls:
            reason = "; ".join(filter(None, [reason, f"{len(nulls)} of {2 * len(right_grades)} not graded: {nulls[0]}"]))
        return Admission(metric=self.name, admitted=admitted, auc=auc, pairs=len(right_grades), reason=reason)


def judged_metrics(names: Sequence[str], judge: StreamingModel, pictures: Pictures | None) -> list[Judged]:
    """Return metrics of ``METRICS`` as a judge grades them; ``pictures`` encodes figure ids, None if the judge sees none."""
    return [Judged(name, METRICS[name], judge, pictures) for name in names]
