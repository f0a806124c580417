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

// A table of its cells, the header first; draw makes what a cell shows of its text.
export function table(rows, draw = (text) => [text]) {
  const [head, ...body] = rows;
  const widest = Math.max(...rows.map((row) => row.length), 1);
  const numbers = Array.from({ length: widest }, (_, column) =>
    body.length > 0 && body.every((row) => numeric(row[column] ?? "")) && body.some((row) => row[column]));
  const row = (kind) => (texts) => el("tr", {}, ...Array.from({ length: widest }, (_, column) =>
    el(kind, { class: numbers[column] && "number", scope: kind === "th" && "col" }, ...draw(texts[column] ?? ""))));
  return el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Table" },
    el("table", { dir: "auto" }, el("thead", {}, row("th")(head)), el("tbody", {}, ...body.map(row("td")))));
}

// Paragraphs with their line breaks. Returns block elements.
export const blocks = (text) => text.replace(/\r\n?/g, "\n").split(/\n[^\S\n]*\n/)
  .map((words) => words.trim()).filter(Boolean).map((words) => el("p", { dir: "auto" }, words));

export const fileName = (source) => source.split("/").pop() || source;

export const count = (number, one, many = `${one}s`) =>
  `${number.toLocaleString("en").replaceAll(",", "\u202f")} ${number === 1 ? one : many}`;

export function when(version) {
  const found = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-([0-9a-f]{8})$/.exec(version ?? "");
  if (!found) return version ?? "";
  const [, year, month, day, hour, minute, second] = found;
  return new Date(Date.UTC(+year, month - 1, +day, +hour, +minute, +second))
    .toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
