// Text of documents is hostile: it reaches the page through text nodes only, never as markup.

export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const numeric = (text) => /^[-+−–]?[\d.,\s]+%?$/.test(text) || text === "";

// How many rows are the header: the first, and one more for each in it with a cell over several columns (head_rows in
// tasks/tables/mark_up.py).
function headRows(rows, spans) {
  const most = Math.min(4, rows.length - 1);
  let heads = 1;
  while (heads < most && spans.some((span) => span.row === heads - 1 && span.colspan > 1)) heads += 1;
  return heads;
}

// A table of its cells, the header first; draw makes what a cell shows of its text, spans are cells over several places.
export function table(rows, draw = (text) => [text], spans = []) {
  const heads = headRows(rows, spans);
  const body = rows.slice(heads);
  const wide = new Map();
  for (const span of spans) {
    for (let row = span.row; row < span.row + span.rowspan; row += 1) {
      for (let column = span.column; column < span.column + span.colspan; column += 1) wide.set(`${row},${column}`, null);
    }
    wide.set(`${span.row},${span.column}`, span);
  }
  const widest = Math.max(...rows.map((row) => row.length), 1);
  const numbers = Array.from({ length: widest }, (_, column) =>
    body.length > 0 && body.every((row) => numeric(row[column] ?? "")) && body.some((row) => row[column]));
  const unnamed = (column) => el("span", { class: "hidden" }, `Column ${column + 1}`);
  const row = (texts, number) => el("tr", {}, ...Array.from({ length: widest }, (_, column) => {
    const span = wide.get(`${number},${column}`);
    if (span === null) return null; // covered
    const [kind, scope] = number >= heads ? ["td", false] : ["th", span?.colspan > 1 ? "colgroup" : "col"];
    return el(kind, { class: numbers[column] && "number", scope, rowspan: span?.rowspan, colspan: span?.colspan },
      ...(kind === "th" && !texts[column] ? [unnamed(column)] : draw(texts[column] ?? "")));
  }).filter((cell) => cell !== null));
  return el("div", { class: "table", tabindex: 0, role: "group", "aria-label": "Table" },
    el("table", { dir: "auto" }, el("thead", {}, ...rows.slice(0, heads).map(row)), el("tbody", {}, ...body.map((texts, index) => row(texts, heads + index)))));
}

// A text with what matched marked. Spans count characters as Python does, so they are compared with code points.
export function marked(points, from, to, marks, sentence) {
  const edges = [from, to, ...[...marks, ...(sentence ? [sentence] : [])].flat()].filter((edge) => edge >= from && edge <= to);
  const cuts = [...new Set(edges)].sort((one, other) => one - other);
  const within = ([start, end], place) => start <= place && place < end;
  return cuts.slice(0, -1).map((start, index) => {
    const piece = points.slice(start, cuts[index + 1]).join("");
    const word = marks.some((span) => within(span, start)) ? el("mark", {}, piece) : piece;
    return sentence && within(sentence, start) ? el("span", { class: "nearest" }, word) : word;
  });
}

// Where the paragraphs of a text are, as [start, end) in code points, without the white space around them.
export function paragraphs(points) {
  const plain = points.map((point) => (point.length > 1 ? "x" : point)).join("");
  const found = [];
  let start = 0;
  for (const gap of [...plain.matchAll(/\r?\n[^\S\n]*\r?\n\s*/g), { index: plain.length, 0: "" }]) {
    const words = plain.slice(start, gap.index);
    if (words.trim()) found.push([gap.index - words.trimStart().length, start + words.trimEnd().length]);
    start = gap.index + gap[0].length;
  }
  return found;
}

// Where the code of a text is, as [start, end) in code points: what is fenced in the text with tags is in it line by line.
// Signs may differ (leaders are one token in the text that is searched), so lines are compared by letters and digits; no code begins with a blank line.
function codeIn(text, tagged) {
  const lines = text.split("\n");
  const bare = (line) => line.replace(/[^\p{L}\p{N}]+/gu, "");
  const found = [];
  let from = 0;
  for (const [, , code] of tagged.matchAll(/^(`{3,})\n([^]*?)\n\1$/gm)) {
    const wanted = code.split("\n").map(bare);
    const first = lines.findIndex((line, at) => at >= from && line.trim() && wanted.every((line, next) => line === bare(lines[at + next] ?? "")));
    if (first < 0) continue;
    from = first + wanted.length;
    const start = [...lines.slice(0, first).join("\n")].length + (first > 0);
    found.push([start, start + [...lines.slice(first, from).join("\n")].length]);
  }
  return found;
}

// Paragraphs with their line breaks, and code, what matched marked. Returns block elements.
export function markedBlocks(text, marks, sentence, tagged = "") {
  const points = [...text];
  const blocks = [];
  const prose = (from, to) => {
    for (const [start, end] of paragraphs(points.slice(from, to))) {
      blocks.push(el("p", { dir: "auto" }, ...marked(points, from + start, from + end, marks, sentence)));
    }
  };
  let done = 0;
  for (const [start, end] of codeIn(text, tagged)) {
    prose(done, start);
    blocks.push(el("pre", { tabindex: 0, role: "group", "aria-label": "Code" }, el("code", {}, ...marked(points, start, end, marks, sentence))));
    done = end;
  }
  prose(done, points.length);
  return blocks;
}

// Words of a short text that are among some, marked.
export const markedWords = (text, wanted) => text.split(/([\p{L}\p{M}\p{N}_]+)/u)
  .map((piece, index) => (index % 2 && wanted.has(piece.toLowerCase()) ? el("mark", {}, piece) : piece));

// Paragraphs with their line breaks. Returns block elements.
export const blocks = (text) => text.replace(/\r\n?/g, "\n").split(/\n[^\S\n]*\n/)
  .map((words) => words.trim()).filter(Boolean).map((words) => el("p", { dir: "auto" }, words));

// How a reader finds a page: by what is printed on it, if that is known, and by its place in the PDF.
export const pageName = (page, label) => (label ? `page ${label} (PDF page ${page})` : `page ${page}`);

// What is printed on the pages of a hit or citation, by page, if that is known.
export const labelsOf = (cited) => new Map((cited.regions ?? []).filter(({ label }) => label).map(({ page, label }) => [page, label]));

export const begun = (words) => words[0].toUpperCase() + words.slice(1);

const languages = new Intl.DisplayNames(["en"], { type: "language" });
export const languageName = (code) => languages.of(code);

// Controls of the direction of text could show another file extension than a name has.
export const plainName = (source) => source.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

export const isPdf = (source) => /\.pdf$/i.test(source);
export const fileName = (source) => plainName(source.split("/").pop() || source);

export const count = (number, one, many = `${one}s`) =>
  `${number.toLocaleString("en").replaceAll(",", "\u202f")} ${number === 1 ? one : many}`;

export function when(version) {
  const found = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-([0-9a-f]{8})$/.exec(version ?? "");
  if (!found) return version ?? "";
  const [, year, month, day, hour, minute, second] = found;
  return new Date(Date.UTC(+year, month - 1, +day, +hour, +minute, +second))
    .toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
