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

const RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const isRule = (line) => line !== undefined && line.includes("-") && line.includes("|") && RULE.test(line);
const isRow = (line) => line !== undefined && /^\s*\|.*\|\s*$/.test(line);

function cells(line) {
  const found = [];
  let cell = "";
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  for (let at = 0; at < inner.length; at += 1) {
    if (inner[at] === "\\" && inner[at + 1] === "|") { cell += "|"; at += 1; }
    else if (inner[at] === "|") { found.push(cell.trim()); cell = ""; }
    else cell += inner[at];
  }
  found.push(cell.trim());
  return found;
}

const numeric = (text) => /^[-+−–]?[\d.,\s]+%?$/.test(text) || text === "";

function table(lines) {
  const ruled = lines.findIndex(isRule);
  const head = ruled > 0 ? lines.slice(0, ruled).map(cells) : [];
  const body = lines.slice(ruled + 1).filter((line) => !isRule(line)).map(cells);
  const widest = Math.max(...head.concat(body).map((row) => row.length), 1);
  const numbers = Array.from({ length: widest }, (_, column) =>
    body.length > 0 && body.every((row) => numeric(row[column] ?? "")) && body.some((row) => row[column]));
  const row = (kind) => (texts) => el("tr", {}, ...Array.from({ length: widest }, (_, column) =>
    el(kind, { class: numbers[column] && "number", scope: kind === "th" && "col" }, texts[column] ?? "")));
  const drawn = el("table", { dir: "auto" });
  if (head.length) drawn.append(el("thead", {}, ...head.map(row("th"))));
  drawn.append(el("tbody", {}, ...body.map(row("td"))));
  return el("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Table" }, drawn);
}

// Paragraphs with their line breaks, and pipe tables as tables. Returns block elements.
export function blocks(text) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const found = [];
  let paragraph = [];
  const flush = () => {
    const words = paragraph.join("\n").trim();
    if (words) found.push(el("p", { dir: "auto" }, words));
    paragraph = [];
  };
  for (let at = 0; at < lines.length; at += 1) {
    const opens = isRow(lines[at]) && (isRow(lines[at + 1]) || isRule(lines[at + 1]));
    if (opens) {
      flush();
      let end = at;
      while (isRow(lines[end]) || isRule(lines[end])) end += 1;
      found.push(table(lines.slice(at, end)));
      at = end - 1;
    } else if (lines[at].trim() === "") flush();
    else paragraph.push(lines[at]);
  }
  flush();
  return found;
}

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
