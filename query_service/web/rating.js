// Whether an answer helped, and what is wrong with it: two buttons, reasons behind the second.

import * as service from "./service.js";
import { el } from "./text.js";

const REASONS = {
  wrong: "Wrong", incomplete: "Incomplete", wrong_figure: "Wrong figure", wrong_place: "Wrong place", out_of_date: "Out of date",
  nothing_found: "Nothing found",
};
const MOST_REGIONS = 50;

// The corpus that answered, of several the one that is cited first; null if none is.
function answering(found, corpus) {
  if (corpus !== service.ALL) return { corpus, version: found.version, citations: found.citations };
  const [first] = found.citations;
  return first ? { corpus: first.corpus, version: first.version, citations: found.citations.filter((each) => each.corpus === first.corpus) } : null;
}

// The buttons for an answer; say is told how it went.
export function rating(found, { question, corpus }, say) {
  const of = answering(found, corpus);
  if (!of) return null;
  const cited = new Set(of.citations.map(({ n }) => n));
  const parts = found.parts.filter((part) => corpus !== service.ALL || part.citations.some((n) => cited.has(n)));
  const figures = parts.flatMap((part) => (part.type === "figure" ? [part] : part.figures ?? [])).map((part) => part.figure_id);
  const first = (ids) => [...new Set(ids)].slice(0, MOST_REGIONS);
  const comment = el("input", { type: "text", maxlength: 1000, placeholder: "In your own words (optional)", "aria-label": "What is wrong, in your own words" });
  const line = el("p", { role: "status" });
  async function send(helpful, reason) {
    const words = comment.value.trim();
    try {
      await service.feedback(of.corpus, {
        question, helpful, version: of.version, evidence_ids: first(of.citations.map((each) => each.evidence_id)), figure_ids: first(figures),
        answer: parts.map((part) => part.text ?? "").join("\n").slice(0, 50_000), preset: found.preset,
        ...(reason ? { reason } : {}), ...(words ? { comment: words } : {}),
      });
    } catch (error) {
      line.textContent = `That could not be sent. ${error.message}`;
      return;
    }
    box.replaceChildren(el("p", { role: "status" }, "Thank you. Those who look after the documents read it."));
    say("Your feedback is sent");
  }
  const choices = Object.entries(REASONS).map(([reason, label]) => el("button", { type: "button", onclick: () => send(false, reason) }, label));
  const why = el("div", { class: "why", hidden: true }, comment, el("div", { class: "taking", role: "group", "aria-label": "What is wrong" }, ...choices));
  const bad = el("button", {
    type: "button", "aria-expanded": "false",
    onclick: () => {
      why.hidden = !why.hidden;
      bad.setAttribute("aria-expanded", String(!why.hidden));
      if (!why.hidden) comment.focus();
    },
  }, "Not helpful");
  const good = el("button", { type: "button", onclick: () => send(true) }, "Helpful");
  const box = el("div", { class: "rating" }, el("div", { class: "taking", role: "group", "aria-label": "Did this answer help?" }, good, bad), why, line);
  return box;
}
