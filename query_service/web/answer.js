// An answer as it is written: its parts in order, with their citations, and the line on who wrote them.

import * as service from "./service.js";
import { begun, count, el, fileName, isPdf, labelsOf, marked, pageName, paragraphs, plainName, table } from "./text.js";
import * as viewer from "./viewer.js";

const UNCITED = "No source is cited for this";
const BULLET = /^\s*(?:\(?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxIVX]{1,5})[.)]|\d{1,3}(?:\.\d{1,3})+|[•‣◦▪■●○–—*-])\s+/;

// ---- where a part is from ----

const boxesByPage = (cited) => {
  const regions = cited.regions?.length ? cited.regions : [{ page: cited.page, bbox: cited.bbox }];
  const pages = new Map();
  for (const { page, bbox } of regions) pages.set(page, [...(pages.get(page) ?? []), bbox]);
  return pages;
};

export const titleOf = (cited) => cited.title || fileName(cited.source);
const MOST_TITLE = 60; // characters

// What stands before the first colon or dash of a long title.
export const shortTitle = (cited) => {
  const title = titleOf(cited);
  if (title.length <= MOST_TITLE) return title;
  const [head] = title.split(/:\s|\s[-–—|]\s/);
  return head.length <= MOST_TITLE ? head : `${head.slice(0, MOST_TITLE).replace(/\s+\S*$/, "")}…`;
};
export const nameOf = (cited, page = cited.page) => pageName(page, labelsOf(cited).get(page));

// The corpus and version of what is cited, of several that were asked; of is { corpus, version }.
export const originOf = (cited, of) => (cited?.corpus ? { ...of, corpus: cited.corpus, version: cited.version } : of);

// What the viewer opens.
export const placeOf = (cited, of) => ({
  corpus: originOf(cited, of).corpus, version: originOf(cited, of).version, docId: cited.doc_id, source: cited.source, section: cited.section_path,
  page: cited.page, boxes: boxesByPage(cited), labels: labelsOf(cited), tagged: cited.tagged_pdf,
});

// A figure stands on a page of its own, in the document of what cites it.
export const placeOfFigure = (figure, cited, of) => ({
  ...placeOf(cited, of), page: figure.page, boxes: new Map([[figure.page, [figure.bbox]]]),
});

export function image(figureId, caption, of) {
  const picture = el("img", {
    src: service.figureUrl(of.corpus, figureId, of.version), alt: caption, loading: "lazy", decoding: "async",
    onerror: () => picture.closest(".picture")?.replaceWith(el("span", { class: "missing" }, `This figure can’t be shown${caption ? `: ${caption}` : ""}`)),
    onload: () => {
      if (picture.naturalWidth <= 96 && picture.naturalHeight <= 96) picture.closest("figure, .thumbs")?.classList.add("small");
    },
  });
  return picture;
}

const chip = (citation, of) => {
  const where = `${titleOf(citation)}, ${nameOf(citation)}`;
  return el("button", {
    type: "button", class: "cite", title: where, "aria-label": `Citation ${citation.n}: ${where}`, "aria-haspopup": "dialog",
    onclick: () => viewer.openPage(placeOf(citation, of)),
  }, String(citation.n));
};

function chips(part, of) {
  const drawn = part.citations.map((n) => of.cited.get(n)).filter(Boolean).map((citation) => chip(citation, of));
  return drawn.length ? el("span", { class: "cites" }, ...drawn) : null;
}

const uncited = () => el("span", { class: "uncited", title: UNCITED },
  el("span", { "aria-hidden": "true" }, "?"), el("span", { class: "hidden" }, `(${UNCITED.toLowerCase()})`));

// The last word and what stands behind it stay on one line.
function attach(block, mark) {
  if (!mark) return;
  let words = block.lastChild;
  while (words?.lastChild) words = words.lastChild;
  const pieces = ["\u00a0", mark];
  if (words) {
    const holder = words.parentNode === block ? words : words.parentNode;
    const last = words.splitText(/\S{0,30}$/.exec(words.data).index);
    pieces.unshift(holder === words ? last : el("mark", {}, last));
    if (!words.data) holder.remove();
  }
  block.append(el("span", { class: "together" }, ...pieces));
}

// ---- parts ----

// Neighbours of which keyOf says the same, together.
function grouped(parts, keyOf) {
  const found = [];
  for (const part of parts) {
    const key = keyOf(part);
    if (found.length && found.at(-1).key === key) found.at(-1).parts.push(part);
    else found.push({ key, parts: [part] });
  }
  return found;
}

function picture(part, of) {
  const caption = part.caption.trim();
  const cited = part.citations.map((n) => of.cited.get(n)).filter(Boolean);
  const { corpus, version } = originOf(cited[0], of);
  const places = cited.slice(0, 1).map((citation) => ({ label: nameOf(citation, part.page), place: placeOfFigure(part, citation, of) }));
  const open = () => viewer.openFigure({ corpus, version, figureId: part.figure_id, caption, tag: part.tag, places });
  return el("button", { type: "button", class: "picture", title: "Enlarge", "aria-label": `Enlarge: ${caption || "figure"}`, "aria-haspopup": "dialog", onclick: open },
    image(part.figure_id, caption || "Figure without a caption", { corpus, version }));
}

function figure(part, of) {
  const legend = el("figcaption", { dir: "auto" }, part.caption.trim());
  attach(legend, chips(part, of));
  if (part.added) legend.append(el("span", { class: "added" }, " Chosen by Inset."));
  return el("figure", {}, picture(part, of), legend);
}

// A table, each of its figures where a cell holds the figure's tag; at first only the rows that answer, with the column marked
// that the question names.
function cells(part, of, mark) {
  const draw = (text, figures = part.figures) => {
    const [first, ...rest] = figures;
    if (!first) return [text];
    const pieces = text.split(first.tag).map((piece) => draw(piece, rest));
    return pieces.flatMap((piece, index) => (index ? [picture(first, of), ...piece] : piece));
  };
  const box = el("div", {}, table(part.rows, draw));
  const key = new Set(part.key_rows);
  const rows = [...box.querySelectorAll("tbody tr")];
  const others = rows.filter((row, index) => !key.has(index + 1));
  const below = el("p", { class: "below" }, mark);
  if (others.length && others.length < rows.length) {
    rows.forEach((row) => row.classList.toggle("key", !others.includes(row)));
    if (part.key_column !== null) rows.filter((row) => key.has(row.rowIndex)).forEach((row) => row.children[part.key_column]?.classList.add("key"));
    const toggle = el("button", { type: "button", class: "link", onclick: () => show(others[0].hidden) });
    const show = (all) => {
      for (const row of others) row.hidden = !all;
      toggle.setAttribute("aria-expanded", String(all));
      toggle.textContent = all ? "Show only the rows that answer" : `Show all ${rows.length} rows`;
    };
    show(false);
    below.prepend(toggle);
  }
  if (below.hasChildNodes()) box.append(below);
  return box;
}

function code(part, mark) {
  const points = [...part.text];
  const block = el("pre", { tabindex: 0, role: "group", "aria-label": "Code" }, el("code", {}, ...marked(points, 0, points.length, part.marked)));
  return mark ? el("div", {}, block, el("p", {}, mark)) : block;
}

function heading(part) {
  const points = [...part.text.trim()];
  return el("h3", { dir: "auto" }, ...marked(points, 0, points.length, part.marked));
}

// A paragraph or an item of pieces, each the [start, end) of a part's text; mark stands behind the last of a part.
function block(name, pieces) {
  const drawn = el(name, { dir: "auto" });
  // The number or bullet of an item stands in the margin.
  const [first] = pieces;
  const bullet = name === "li" ? [...(BULLET.exec(first.points.slice(first.start, first.end).join(""))?.[0] ?? "")].length : 0;
  for (const piece of pieces) {
    if (drawn.hasChildNodes()) drawn.append(" ");
    drawn.append(...marked(piece.points, piece.start + (piece === first ? bullet : 0), piece.end, piece.part.marked));
    attach(drawn, piece.mark);
  }
  if (bullet) drawn.prepend(el("span", { class: "bullet" }, `${first.points.slice(first.start, first.start + bullet).join("").trim()} `));
  return drawn;
}

// Sentences of one paragraph or item may be parts of their own; one part may have several paragraphs.
function blocksOf(parts, markOf) {
  const found = [];
  for (const part of parts) {
    const points = [...part.text];
    const spans = paragraphs(points);
    spans.forEach(([start, end], index) => {
      const piece = { part, points, start, end, mark: index === spans.length - 1 && markOf(part) };
      if (part.continues && index === 0 && found.length) found.at(-1).push(piece);
      else found.push([piece]);
    });
  }
  return found;
}

// ---- the whole ----

// Puts children into a box, and touches none that is there already: pictures, scrolling and focus stay.
function settle(box, children) {
  children.forEach((child, index) => {
    if (box.childNodes[index] !== child) box.insertBefore(child, box.childNodes[index] ?? null);
  });
  while (box.childNodes.length > children.length) box.lastChild.remove();
}

// Draws an answer into a box while its events come. What shows the same before and after an event is the same element.
export class Drawing {
  #box;
  #of;
  #parts = [];
  #kept = new Map();
  #fresh = new Map();
  #written = null; // the text node that grows
  #awaited = null; // the start of an answer of which no word has come; the extractive one is drawn until then

  constructor(box, corpus) {
    this.#box = box;
    this.#of = { corpus, version: "", model: null, cited: new Map() };
    this.#draw();
  }

  take(event) {
    if (this.#awaited) {
      this.#know(this.#awaited);
      this.#parts = [];
      this.#awaited = null;
    }
    if (event.event === "start") {
      this.#awaited = event.meanwhile?.parts.length ? event : null;
      this.#know(this.#awaited ? event.meanwhile : event);
      this.#parts = this.#awaited ? event.meanwhile.parts : [];
      if (event.model !== null) this.#draw();
    } else if (event.event === "text") {
      const before = this.#parts[event.part]?.text ?? "";
      this.#parts[event.part] = unfinished(before + event.text, this.#parts[event.part - 1]);
      // What is drawn ends without white space, and a line break may begin another paragraph, the first letters an item.
      if (this.#written && before.length > 8 && !/\s$/.test(before) && !/\n/.test(event.text)) this.#written.appendData(event.text);
      else this.#draw();
    } else if (event.event === "part") {
      this.#parts[event.part] = event.value;
      this.#draw();
    } else if (event.event === "result") {
      this.#know(event.result);
      this.#parts = event.result.parts;
      this.#draw(event.result);
    }
  }

  #know({ version, model, citations }) {
    this.#of = { ...this.#of, version, model, cited: new Map(citations.map((citation) => [citation.n, citation])) };
  }

  // What is drawn of a key; an equal one that was drawn before is the same element.
  #keep(key, make) {
    let own = key;
    while (this.#fresh.has(own)) own += "+";
    const node = this.#kept.get(own) ?? make();
    this.#fresh.set(own, node);
    return node;
  }

  #draw(result) {
    this.#written = null;
    this.#fresh = new Map();
    const parts = this.#parts.filter(Boolean);
    const sections = this.#of.model === null
      ? grouped(grouped(parts, (part) => part.citations.join()), (run) => this.#nameOfFold(run.parts) ?? run)
        .map((group, place) => this.#section(group.parts.flatMap((run) => run.parts), place))
      : parts.length ? [this.#section(parts, 0)] : [];
    const understood = result?.follow_up;
    const above = [
      understood && this.#keep(`understood ${understood.question}`, () => el("p", { class: "aside" },
        `Understood as: ${understood.question}${understood.source ? `, in ${fileName(understood.source)}` : ""}`)),
      result?.note && this.#keep(`note ${result.note}`, () => el("p", { class: "aside" }, begun(result.note))),
      result?.unsure && this.#keep(`unsure ${result.model}`, () => el("p", { class: "unsure" },
        result.model === null ? "Not sure: the nearest passage says" : "Not sure that the documents answer this. A model wrote")),
    ].filter(Boolean);
    const waiting = !result && [
      ...(sections.length ? [] : [this.#keep("skeleton", () => skeleton(5))]),
      ...((this.#awaited ?? this.#of).model === null ? [] : [this.#keep("writing", () => el("p", { class: "writing", "aria-hidden": "true" }, "Writing"))]),
    ];
    settle(this.#box, [...above, ...sections, ...(waiting || [])]);
    this.#kept = this.#fresh;
  }

  // What is folded as a whole is named by where it stands.
  #nameOfFold(parts) {
    const origin = this.#of.model === null && this.#of.cited.get(parts[0].citations[0]);
    return origin && parts.every((part) => part.folded) ? `${placeName(origin)}, ${nameOf(origin)}` : null;
  }

  #section(parts, place) {
    const lasts = new Set(grouped(parts, (part) => part.citations.join()).map((run) =>
      run.parts.findLast((part) => part.type !== "figure" && !part.folded) ?? run.parts.findLast((part) => part.type !== "figure")));
    const isProse = (part) => part.style === "prose" || part.style === "item";
    const markOf = (part) => (lasts.has(part) && chips(part, this.#of))
      || (this.#of.model !== null && !part.unfinished && !part.citations.length && isProse(part) ? uncited() : null);
    const section = this.#keep(`section ${place}`, () => el("section", { class: "passage" }));
    const origin = this.#of.model === null && this.#of.cited.get(parts[0].citations[0]);
    const whole = this.#nameOfFold(parts);
    const children = grouped(parts, (part) => part.folded).flatMap((group, run) => {
      const blocks = this.#blocks(group.parts, markOf, lasts, `${place} ${run}`);
      if (!group.key) return blocks;
      const rest = this.#keep(`rest ${place} ${run} ${whole}`, () => folded(whole));
      settle(rest, [rest.firstChild, ...blocks]);
      return [rest];
    });
    settle(section, [...(origin && !whole ? [this.#keep(`origin ${JSON.stringify(origin)}`, () => eyebrow(origin))] : []), ...children]);
    return section;
  }

  #blocks(parts, markOf, lasts, place) {
    const keyed = (part, make) => this.#keep(JSON.stringify([part, lasts.has(part), part.citations.map((n) => this.#of.cited.get(n))]), make);
    return grouped(parts, (part) => part.style ?? part.type).flatMap((group, run) => {
      if (group.key === "prose") return blocksOf(group.parts, markOf).map((pieces) => this.#block("p", pieces));
      if (group.key === "item") {
        const list = this.#keep(`list ${place} ${run}`, () => el("ul", { class: "items", role: "list" }));
        settle(list, blocksOf(group.parts, markOf).map((pieces) => this.#block("li", pieces)));
        return [list];
      }
      return group.parts.map((part) => keyed(part, () => {
        if (part.type === "figure") return figure(part, this.#of);
        if (part.type === "table") return cells(part, this.#of, markOf(part));
        return part.style === "code" ? code(part, markOf(part)) : heading(part);
      }));
    });
  }

  #block(name, pieces) {
    if (pieces.at(-1).part.unfinished) {
      const drawn = block(name, pieces);
      this.#written = drawn.lastChild;
      return drawn;
    }
    const shown = pieces.map(({ part, points, start, end, mark }) =>
      [name, points.slice(start, end).join(""), start, part.marked, Boolean(mark), part.citations.map((n) => this.#of.cited.get(n))]);
    return this.#keep(JSON.stringify(shown), () => block(name, pieces));
  }
}

// Words of a part that is being written. Whether they go on the part before is known when it is finished; mostly they do.
function unfinished(text, before) {
  const isItem = BULLET.test(`${text} `);
  const continues = !isItem && (before?.style === "prose" || before?.style === "item");
  const style = isItem ? "item" : continues ? before.style : "prose";
  return { type: "text", style, continues, text, citations: [], marked: [], folded: false, unfinished: true };
}

const placeName = (citation) => (citation.section_path.length ? citation.section_path.join(" › ") : titleOf(citation));
const eyebrow = (citation) => el("p", { class: "eyebrow" }, placeName(citation));

function folded(name) {
  const summary = el("summary", {}, name ?? "Show the rest of the passage");
  const rest = el("details", { class: "more", ontoggle: () => { summary.textContent = name ?? (rest.open ? "Show less" : "Show the rest of the passage"); } }, summary);
  return rest;
}

export const skeleton = (lines) => el("div", { class: "skeleton", "aria-hidden": "true" }, ...Array.from({ length: lines }, () => el("span")));

// Who wrote an answer, and what a reader should know of how; one block each.
export function colophon({ model, citations, counts, rounds }) {
  const wrong = [
    counts.uncited_sentences && `${count(counts.uncited_sentences, "sentence")} without a source`,
    counts.unsupported && `${count(counts.unsupported, "sentence")} with a number, name or negation that no cited passage has`,
    counts.unknown_tags && `${count(counts.unknown_tags, "unknown figure")} left out`,
  ].filter(Boolean);
  return [
    model !== null && el("p", { class: "byline" }, "Written by ", el("strong", {}, model),
      citations.length ? " from the cited passages; check them." : ". It cites no passage; check what it says."),
    wrong.length > 0 && el("p", {}, `${begun(wrong.join(", "))}.`),
    rounds.length > 1 && el("details", {}, el("summary", {}, `Searched ${count(rounds.length, "time")}`),
      el("ol", { class: "rounds" }, ...rounds.map(({ query }) => el("li", { dir: "auto" }, query)))),
  ].filter(Boolean);
}

// Citations by document, each document's name once.
export function sources(citations, of) {
  const firstOf = (citation) => citations.findIndex(({ corpus, doc_id: id }) => corpus === citation.corpus && id === citation.doc_id);
  const places = citations.map((citation, index) => ({ citation, first: firstOf(citation), index }));
  return places.sort((one, other) => one.first - other.first || one.index - other.index).map(({ citation, first, index }) => {
    const place = placeOf(citation, of);
    const boxes = place.boxes.get(citation.page) ?? [];
    const thumbnail = el("img", {
      src: service.pageUrl(place.corpus, citation.doc_id, citation.page, boxes, 36, place.version), alt: "", loading: "lazy", decoding: "async",
      onerror: () => thumbnail.remove(),
    });
    return el("li", {},
      el("button", { type: "button", class: "source", "aria-haspopup": "dialog", onclick: () => viewer.openPage(place) },
        el("span", { class: "sheet" }, thumbnail),
        el("span", { class: "cited" },
          el("span", { class: "cited-name", title: plainName(citation.source) },
            el("span", { class: "cite" }, String(citation.n)), index === first && ` ${shortTitle(citation)}`),
          el("span", { class: "cited-page" }, citation.corpus ? `${citation.corpus}, ${nameOf(citation)}` : begun(nameOf(citation))),
          citation.superseded && el("span", { class: "cited-section" }, citation.superseded),
          citation.section_path.length > 0 && el("span", { class: "cited-section" }, citation.section_path.at(-1)))),
      citation.pdf_link && el("a", {
        // Below the service's address, and that may be below a path of a proxy.
        href: citation.pdf_link.replace(/^\/+/, ""), target: "_blank", rel: "noopener",
        "aria-label": `PDF of citation ${citation.n} at ${nameOf(citation)}`,
      }, "PDF ↗"),
      citation.original_link && !isPdf(citation.source) && el("a", {
        href: citation.original_link.replace(/^\/+/, ""), download: "",
        "aria-label": `Original of citation ${citation.n}, ${fileName(citation.source)}`,
      }, "Original ↓"));
  });
}
