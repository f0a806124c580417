"""Extractive answers beside plain ways: ``python -m bench.answers CORPUS QUESTIONS``.

CORPUS is a published corpus whose documents the questions are about; QUESTIONS is JSONL with ``doc``, ``pages``, ``answerable``,
and as far as known ``evidence_sources``, ``regions``, ``scope``, ``gold_agrees``; of a procedure the beginnings of its ``steps``
and the ``figures`` between them, as in ``bench/questions/procedures.jsonl``. Every question is put inside its document, and
those whose ``scope`` isn't ``document`` to the whole corpus, too; those whose pages are disputed are left out. Half of the
questions, by a hash of their id, is for tuning; the other half is held aside, and both are printed.

Plain ways, in the same run, of the same rows in the same order: whole rows where one cosine is high enough, which was the rule
before confidence; and the first row, whatever it is.

``--model URL`` has a model behind an OpenAI-compatible endpoint write the answers of a sample (``--sample``), inside their
documents, and prints them beside the extractive ones. An answer begins with what answers if its first 60 words have half of the
words of the question's ``answer``. "Replaced" are replies in whose place the extractive answer stands.
"""

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from pipeline.corpus.presets import default_preset
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.answering import AnswerPlan, answer_events
from pipeline.published.question_evidence import QuestionEvidence
from pipeline.published.version import OpenVersion, open_version
from pipeline.records.publication import read_pointer
from schemas.answers import AnswerFinished, AnswerResult, FigurePart, Part, TablePart
from schemas.corpus.models import EndpointOptions, ModelEntry
from schemas.evidence import Hit
from schemas.filters import Filters
from schemas.geometry import BBox
from schemas.retrieval import Preset, Query
from schemas.text import folded
from tasks.answering.answer_presets import packaged_answers
from tasks.answering.candidates import stems
from tasks.answering.compose import answer_prompts
from tasks.answering.confidence import NEARNESS
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.highlight import content_words
from tasks.answering.retrievers import POOL
from tasks.answering.trace import Trace

OURS, ONE_COSINE, FIRST_ROW = "ours", "one cosine", "first row"
INSIDE, OVER = "inside the document", "over the corpus"
TUNED, ASIDE = "tuned", "aside"
FLOOR, MARGIN, PASSAGES = 0.45, 0.2, 5
"""Of the rule before: least cosine of the nearest row, how far another may lie behind it, and rows at most."""

SAME, WITHIN = 0.5, 0.7
"""Least overlap (IoU) of a figure with a gold region, or share of the smaller one that lies in the other."""

GRID_PT = 6
"""Side of the squares in which areas of boxes are compared, in points."""

CUTS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8)
Region = tuple[str, int, BBox]
Page = tuple[str, int]
Choose = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Shown:
    """What a reader sees of one answer before "more"."""

    abstained: bool
    words: int
    figures: Sequence[Region]
    cited: Sequence[Sequence[Page]]
    seconds: float
    unsure: bool = False
    confidence: float = 0.0
    boxes: Sequence[Region] = ()
    text: str = ""


@dataclass(frozen=True)
class Asking:
    """A question at one place, with what each way answers."""

    question: Mapping[str, Any]
    place: str
    shown: Mapping[str, Shown]

    @property
    def half(self) -> str:
        """Whether the question may be tuned on."""
        return (TUNED, ASIDE)[int(hashlib.sha256(self.question["id"].encode()).hexdigest(), 16) % 2]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("questions", type=Path, nargs="?")
    parser.add_argument(
        "--model", metavar="URL", help="the endpoint of a model that writes, such as http://localhost:8000/v1"
    )
    parser.add_argument("--name", default="model", help="its name there")
    parser.add_argument("--sample", type=int, default=20, help="questions that it answers")
    parser.add_argument("--every", type=int, default=1, help="only one in so many questions, for a quick look")
    arguments = parser.parse_args()
    if arguments.questions is None:
        print("answers: name a published corpus and questions with their pages")
        return
    workspace = open_workspace(arguments.corpus)
    live = read_pointer(workspace.store)
    if live is None:
        raise SystemExit(f"{arguments.corpus} has no live version; run: inset refresh {arguments.corpus}")
    opened, plan = open_version(workspace, live.version), default_preset(workspace.corpus.retrieval)
    read = map(json.loads, arguments.questions.read_text(encoding="utf-8").splitlines())
    questions = [one for one in read if one.get("gold_agrees") is not False][:: arguments.every]
    if arguments.model:
        print(_beside_a_model(workspace, live.version, questions, arguments))
        return
    made = list(_asked(opened, plan, questions))
    print(report(made, opened))


def _asked(opened: OpenVersion, plan: Preset, questions: Sequence[Mapping[str, Any]]) -> Iterator[Asking]:
    for done, question in enumerate(questions, 1):
        inside = Filters(documents=[question["doc"]] if question.get("doc") else [])
        yield Asking(question, INSIDE, _ways(opened, plan, question["question"], inside))
        if question.get("scope") != "document":
            yield Asking(question, OVER, _ways(opened, plan, question["question"], Filters()))
        print(f"\r{done} of {len(questions)}", end="", file=sys.stderr, flush=True)


def _ways(opened: OpenVersion, plan: Preset, words: str, filters: Filters) -> dict[str, Shown]:
    started = time.perf_counter()
    result = QuestionEvidence(opened, opened.searching(Trace()), opened.question(words), plan, filters).answer()
    took = time.perf_counter() - started
    ours = _shown(result, took)
    started = time.perf_counter()
    asked = opened.question(words)
    hits = opened.search(Query(words, k=PASSAGES * 3, filters=filters), plan, asked).hits
    took = time.perf_counter() - started
    near = _near(opened, asked, filters, hits)
    return {OURS: ours, ONE_COSINE: _rows(near, time.perf_counter() - started), FIRST_ROW: _rows(hits[:1], took)}


def _shown(result: AnswerResult, seconds: float) -> Shown:
    sources = {citation.n: citation.source for citation in result.citations}
    open_parts = [part for part in result.parts if not part.folded]
    return Shown(
        abstained=result.abstained,
        words=sum(map(_words, open_parts)),
        figures=[(sources[part.citations[0]], part.page, BBox(*part.bbox)) for part in _figures(open_parts)],
        cited=[[(one.source, region.page) for region in one.regions] for one in result.citations],
        seconds=seconds,
        unsure=result.unsure,
        confidence=result.confidence or 0.0,
        boxes=list(_cited_boxes(result, open_parts)),
        text=" ".join(part.text for part in open_parts if part.type == "text"),
    )


def _cited_boxes(result: AnswerResult, parts: Sequence[Part]) -> Iterator[Region]:
    """Yield the boxes of the figures shown, and those cited by other parts."""
    figures = list(_figures(parts))
    sources = {citation.n: citation.source for citation in result.citations}
    yield from ((sources[figure.citations[0]], figure.page, BBox(*figure.bbox)) for figure in figures)
    numbers = {number for part in parts if part.type != "figure" for number in part.citations}
    for citation in result.citations:
        if citation.n in numbers:
            yield from ((citation.source, region.page, BBox(*region.bbox)) for region in citation.regions)


@dataclass(frozen=True)
class Reply:
    """One answer, extractive or written, and how long it took."""

    question: Mapping[str, Any]
    result: AnswerResult
    shown: Shown


def _begins(reply: Reply) -> bool:
    texts = (part.text if part.type == "text" else "" for part in reply.result.parts if not part.folded)
    words = stems(content_words(str(reply.question["answer"])))
    return len(words & stems(" ".join(" ".join(texts).split()[:60]))) >= len(words) / 2


REPLY_MEASURES: Mapping[str, tuple[Choose, Callable[[Reply], float]]] = {
    "right figure shown": (lambda q: bool(q.get("regions") or q.get("figures")), lambda r: shows(r.shown, r.question)),
    "figures shown, mean": (lambda _: True, lambda r: len(r.shown.figures)),
    "gold page cited": (lambda q: q["answerable"] and bool(q["pages"]), lambda r: _cites(r.shown, r.question)),
    "begins with what answers": (lambda q: q["answerable"] and bool(q.get("answer")), _begins),
    "abstained although answerable": (lambda q: q["answerable"], lambda r: r.result.abstained),
    "not sure although answerable": (lambda q: q["answerable"], lambda r: r.result.unsure),
    "abstained or not sure rightly": (lambda q: not q["answerable"], lambda r: r.result.abstained or r.result.unsure),
    "uncited sentences, mean": (lambda _: True, lambda r: r.result.counts.uncited_sentences),
    "claims without support, mean": (lambda _: True, lambda r: r.result.counts.unsupported),
    "replies replaced": (lambda _: True, lambda r: r.result.model is None and bool(r.result.note)),
    "tokens, mean": (lambda _: True, lambda r: r.result.spent.input_tokens + r.result.spent.output_tokens),
    "seconds, mean": (lambda _: True, lambda r: r.shown.seconds),
}


def _beside_a_model(
    workspace: Workspace, version: str, questions: Sequence[Mapping[str, Any]], arguments: argparse.Namespace
) -> str:
    """Return a table of a model's answers beside the extractive ones."""
    endpoint = EndpointOptions(url=arguments.model, retries=0, timeout_s=600)
    model = ModelEntry(kind="llm", model=arguments.name, revision="bench", endpoint=endpoint)
    corpus = workspace.corpus.model_copy(update={"models": {"llm": model}})
    opened, plan = open_version(workspace, version, lambda: corpus), default_preset(corpus.retrieval)
    sample = questions[:: max(1, len(questions) // arguments.sample)][: arguments.sample]
    replies: dict[str, list[Reply]] = {"extractive": [], "written": []}
    for question in sample:
        filters = Filters(documents=[question["doc"]] if question.get("doc") else [])
        for name, rows in replies.items():
            preset = packaged_answers()[name]
            prompt = answer_prompts()[preset.prompt] if preset.model else None
            started = time.perf_counter()
            *_, last = answer_events(
                opened, AnswerPlan(opened.question(question["question"]), preset, plan, plan, prompt, filters)
            )
            result = cast(AnswerFinished, last).result
            rows.append(Reply(question, result, _shown(result, time.perf_counter() - started)))
            texts = " ".join(part.text for part in result.parts if part.type == "text" and not part.folded)[:300]
            print(f"{name}: {question['question']} → {texts} ({result.note})", file=sys.stderr, flush=True)
    lines = ["| | questions | extractive | written |", "|---|---:|---:|---:|"]
    for title, (chosen, measure) in REPLY_MEASURES.items():
        values = {name: [float(measure(row)) for row in rows if chosen(row.question)] for name, rows in replies.items()}
        cells = [f"{np.mean(column):.2f}" if column else "–" for column in values.values()]
        lines.append(_line(title, str(len(values["written"])), *cells))
    return "\n".join(lines)


def _near(opened: OpenVersion, asked: EmbeddedQuery, filters: Filters, hits: Sequence[Hit]) -> list[Hit]:
    near = dict(opened.index.dense(asked.vector(NEARNESS.name), POOL, opened.resolved(filters), NEARNESS.name))
    best = max(near.values(), default=0.0)
    kept = [hit for hit in hits if near.get(hit.evidence_id, 0.0) >= best - MARGIN]
    return kept[:PASSAGES] if best >= FLOOR else []


def _rows(hits: Sequence[Hit], seconds: float) -> Shown:
    figures = {figure.figure_id: (hit.source, figure.page, BBox(*figure.bbox)) for hit in hits for figure in hit.figures}
    return Shown(
        abstained=not hits,
        words=sum(len(hit.text.split()) for hit in hits),
        figures=list(figures.values()),
        cited=[[(hit.source, page) for page in hit.pages] for hit in hits],
        seconds=seconds,
        boxes=[(hit.source, region.page, BBox(*region.bbox)) for hit in hits for region in hit.regions],
        text=" ".join(hit.text for hit in hits),
    )


def _words(part: Part) -> int:
    match part:
        case TablePart():
            rows = [part.rows[place] for place in (0, *part.key_rows)] if part.key_rows else part.rows
            return sum(len(cell.split()) for row in rows for cell in row)
        case FigurePart():
            return 0
        case _:
            return len(part.text.split())


def _figures(parts: Sequence[Part]) -> Iterator[FigurePart]:
    for part in parts:
        match part:
            case FigurePart():
                yield part
            case TablePart():
                yield from (figure for figure in part.figures if not figure.folded)


def shows(shown: Shown, question: Mapping[str, Any]) -> bool:
    """Return whether a figure of an answer is a gold region, or holds it, or lies in it."""
    regions = question.get("regions") or question.get("figures", [])
    gold = [(region["page"], BBox(*region["bbox"])) for region in regions]
    return any(
        _name(source) == question["doc"] and page == gold_page and same(box, gold_box)
        for source, page, box in shown.figures
        for gold_page, gold_box in gold
    )


def same(one: BBox, other: BBox) -> bool:
    """Return whether two boxes overlap by half, or one lies mostly in the other."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    shared = max(0.0, width) * max(0.0, height)
    least = min((box.x1 - box.x0) * (box.y1 - box.y0) for box in (one, other))
    return one.iou(other) >= SAME or (least > 0 and shared / least >= WITHIN)


def _cites(shown: Shown, question: Mapping[str, Any], most: int | None = None) -> bool:
    gold = set(question["pages"])
    return any(_name(source) == question["doc"] and page in gold for one in shown.cited[:most] for source, page in one)


def box_f1(shown: Shown, question: Mapping[str, Any]) -> float:
    """Return F1 of the area of cited boxes and of gold regions, in squares of ``GRID_PT``."""
    gold = {
        square
        for region in question["regions"]
        for square in _squares(question["doc"], region["page"], BBox(*region["bbox"]))
    }
    cited = {square for source, page, box in shown.boxes for square in _squares(_name(source), page, box)}
    return 2 * len(gold & cited) / (len(gold) + len(cited)) if gold or cited else 0.0


def _squares(name: str, page: int, box: BBox) -> Iterator[tuple[str, int, int, int]]:
    x0, y0, x1, y1 = (round(edge / GRID_PT) for edge in (box.x0, box.y0, box.x1, box.y1))
    yield from ((name, page, x, y) for x in range(x0, x1) for y in range(y0, y1))


def shows_procedure(shown: Shown, question: Mapping[str, Any]) -> bool:
    """Return whether an answer shows the beginning of each step, in order, and each of the procedure's figures."""
    text, start = folded(shown.text), 0
    for step in question["steps"]:
        start = text.find(folded(step), start)
        if start < 0:
            return False
        start += 1
    return all(shows(shown, {**question, "regions": [figure]}) for figure in question["figures"])


def _name(source: str) -> str:
    return source.rpartition("/")[2]


def _is_figure(question: Mapping[str, Any]) -> bool:
    kinds = {str(kind).split()[0] for kind in question.get("evidence_sources", [])}
    return bool(kinds & {"Figure", "Chart"}) and bool(question.get("regions"))


MEASURES: Mapping[str, tuple[Choose, Callable[[Shown, Mapping[str, Any]], float]]] = {
    "right figure shown (questions with figure or chart)": (_is_figure, shows),
    "gold page cited": (lambda q: q["answerable"] and bool(q["pages"]), _cites),
    "gold page cited first": (lambda q: q["answerable"] and bool(q["pages"]), lambda s, q: _cites(s, q, 1)),
    "F1 of cited boxes (mean)": (lambda q: q["answerable"] and bool(q.get("regions")), box_f1),
    "… without figure or chart": (
        lambda q: q["answerable"] and bool(q.get("regions")) and not _is_figure(q),
        box_f1,
    ),
    "procedures: all steps, in order, every figure": (lambda q: bool(q.get("steps")), shows_procedure),
    "abstained although answerable": (lambda q: q["answerable"], lambda s, _: s.abstained),
    "… figure or chart": (lambda q: q["answerable"] and _is_figure(q), lambda s, _: s.abstained),
    "unsure although answerable": (lambda q: q["answerable"], lambda s, _: s.unsure),
    "abstained rightly": (lambda q: not q["answerable"], lambda s, _: s.abstained),
    "abstained or unsure rightly": (lambda q: not q["answerable"], lambda s, _: s.abstained or s.unsure),
}


def report(made: Sequence[Asking], opened: OpenVersion) -> str:
    """Return the tables in Markdown: shares, what an answer takes, and the trade-off of abstaining."""
    version, how = opened.version, opened.calibration.how
    lines = [f"Version `{version}`, calibration: {how}. Shares of questions: {TUNED} half, half held {ASIDE}."]
    for place in (INSIDE, OVER):
        lines += [
            "",
            f"### {place.capitalize()}",
            "",
            "| | questions | " + " | ".join((OURS, ONE_COSINE, FIRST_ROW)) + " |",
        ]
        lines.append("|---|" + "---:|" * 4)
        halves = {half: [one for one in made if (one.place, one.half) == (place, half)] for half in (TUNED, ASIDE)}
        for name, (chosen, measure) in MEASURES.items():
            some = {half: [one for one in asked if chosen(one.question)] for half, asked in halves.items()}
            cells = [
                ", ".join(_share([measure(one.shown[way], one.question) for one in asked]) for asked in some.values())
                for way in (OURS, ONE_COSINE, FIRST_ROW)
            ]
            lines.append(_line(name, ", ".join(str(len(asked)) for asked in some.values()), *cells))
        answers = {way: [one.shown[way] for one in made if one.place == place] for way in (OURS, ONE_COSINE, FIRST_ROW)}
        given = {way: [one for one in all_ if not one.abstained] for way, all_ in answers.items()}
        lines += [
            _line("words, median", "", *(_median([one.words for one in given[way]]) for way in given)),
            _line("figures, median and most", "", *(_spread([len(one.figures) for one in given[way]]) for way in given)),
            _line(
                "seconds, median", "", *(f"{statistics.median(one.seconds for one in answers[way]):.3f}" for way in answers)
            ),
        ]
        lines += ["", *_curve(halves)]
    return "\n".join(lines)


def _curve(halves: Mapping[str, Sequence[Asking]]) -> Iterator[str]:
    """Yield what confidence parts: shares below each threshold of answerable and of unanswerable questions, and the AUC."""
    yield _line("answered from", *(f"{half}: answerable below | {half}: unanswerable below" for half in halves))
    yield "|---|" + "---:|" * 4
    sides = [
        np.array([one.shown[OURS].confidence for one in asked if bool(one.question["answerable"]) is answerable])
        for asked in halves.values()
        for answerable in (True, False)
    ]
    for cut in CUTS:
        yield _line(f"{cut:.2f}", *(_share(list(side < cut)) for side in sides))
    areas = [_area(sides[place], sides[place + 1]) for place in (0, 2)]
    yield _line("AUC", areas[0], "", areas[1], "")


def _area(yes: Any, no: Any) -> str:
    if not len(yes) or not len(no):
        return "–"
    return f"{((yes[:, None] > no).mean() + (yes[:, None] == no).mean() / 2):.2f}"


def _share(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1%}" if len(values) else "–"


def _median(values: Sequence[int]) -> str:
    return f"{statistics.median(values):.0f}" if values else "–"


def _spread(values: Sequence[int]) -> str:
    return f"{statistics.median(values):.0f}, {max(values)}" if values else "–"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
