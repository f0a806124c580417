"""What questions and passages the data of a reranker are made of."""

import json
import random
from pathlib import Path
from typing import Any

from bench.train_reranker.groups import WINDOW_WORDS, passage, write_groups
from bench.train_reranker.manuals import Manual, rows_of
from bench.train_reranker.questions import asked

PAGE = """<h1>Pump</h1><div class="navigation">Next page</div>
<h2>Can the fuse be changed?</h2><p>Yes, by a person who has read all of this page before the pump is on.</p>
<h2>Parts</h2><table><tr><th>Part</th><th>Rating</th></tr><tr><td>main fuse</td><td>5 A</td></tr></table>
<dl><dt>-v</dt><dd>Shows the version of the firmware of the pump.</dd></dl>
<p>The relief valve is used to protect the pump. See <a href="#spare">where spare parts are sold</a>.</p>
<h2 id="spare">Sale</h2><p>Spare parts are sold by the shop in town, and by nobody else in the country.</p>"""


def test_questions_are_answered_by_their_rows() -> None:
    manual = Manual()
    manual.read("pump.html", PAGE)
    rows = rows_of(manual)
    answers = {(kind, answer or rows[index].text[:11]) for kind, _, index, answer in asked(manual, rows, random.Random(1))}
    assert answers >= {
        ("faq", "Yes, by a person who has read all of this page before the pump is on."),
        ("cell", "main fuse | 5 A"),
        ("option", "Shows the version of the firmware of the pump."),
        ("sentence", "The relief valve is used to protect the pump."),
        ("link", "Spare parts"),
    }
    assert not any("Next page" in row.text for row in rows)


def test_a_passage_is_the_part_of_a_row_with_the_words_of_the_question() -> None:
    text = " ".join(["Nothing of use."] * 40 + ["The fuse blows at 5 A."] + ["More of that."] * 40)
    shown = passage("When does the fuse blow?", ["Pump", "Parts"], text)
    assert shown.startswith("Pump › Parts: ")
    assert "The fuse blows at 5 A." in shown
    assert len(shown.split()) <= WINDOW_WORDS + 3


def test_what_is_kept_apart_is_in_no_group(tmp_path: Path) -> None:
    manual, apart = tmp_path / "manuals" / "pump", tmp_path / "apart"
    manual.mkdir(parents=True)
    apart.mkdir()
    sections = "".join(
        f"<h2>Valve number {n}</h2><p>The valve of the kind {n} is closed and the pump is off.</p>" for n in range(40)
    )
    (manual / "valves.html").write_text(f"<h1>Pump</h1>{sections}")
    (manual / "copy.html").write_text(f"<h1>Another</h1>{sections}")
    (apart / "copy.html").write_bytes((manual / "copy.html").read_bytes())
    groups = tmp_path / "groups.jsonl"

    def read() -> list[dict[str, Any]]:
        write_groups(manual.parent, groups, [apart])
        return [json.loads(line) for line in groups.read_text().splitlines()]

    first = read()
    assert first
    assert not any("Another" in json.dumps(group) for group in first)
    assert all(group["answers"][0] == 1 and sum(group["answers"]) == 1 for group in first)
    (apart / "questions.jsonl").write_text(json.dumps({"question": first[0]["question"]}))
    assert first[0]["question"] not in {group["question"] for group in read()}
