"use strict";

const at = (id) => document.getElementById(id);
let row = null;

async function ask(path, options) {
  const response = await fetch(path, options);
  const reply = await response.json();
  if (!response.ok) throw new Error(reply.detail instanceof Array ? reply.detail[0].msg : reply.detail);
  return reply;
}

const asked = {
  row: "Does this help to answer the question?",
  answer: "Is this answer right?",
  figures: "Does this answer show the right figures, each where it belongs?",
};

function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

function figure(part) {
  const image = new Image();
  image.alt = part.caption || "Figure without a caption";
  image.src = `rows/${row.place}/figures/${part.figure_id}`;
  return element("figure", image, element("figcaption", part.caption));
}

function shown(part) {
  if (part.type === "figure") return figure(part);
  if (part.type === "text") return element(part.style === "heading" ? "h3" : part.style === "code" ? "pre" : "p", part.text);
  const [head, ...rest] = part.rows.map((cells, at) => element("tr", ...cells.map((cell) => element(at ? "td" : "th", cell))));
  return element("div", element("table", element("thead", head), element("tbody", ...rest)), ...part.figures.map(figure));
}

async function show(place) {
  row = await ask(`rows/${place}`);
  at("question").textContent = row.question;
  at("answer").textContent = row.answer || "The question set has none.";
  at("asked").textContent = asked[row.asks];
  const pages = row.pages.length > 1 ? `pages ${row.pages.join(", ")}` : `page ${row.pages[0]}`;
  at("new-question").value = row.question;
  at("new-answer").value = row.answer || "";
  at("where").textContent = row.asks === "row" ? [`${row.source}, ${pages}`, row.section, row.modality].filter(Boolean).join(" · ") : "Answer";
  at("text").replaceChildren(...(row.parts.length ? row.parts.map(shown) : [row.text]));
  at("count").textContent = `${row.judged} of ${row.rows} judged by ${row.person}; this is row ${row.place + 1}`;
  at("progress").max = row.rows;
  at("progress").value = row.judged;
  at("yes").setAttribute("aria-pressed", row.grade === 1);
  at("no").setAttribute("aria-pressed", row.grade === 0);
  at("said").textContent = row.judged === row.rows ? "All rows are judged. You may close this page." : "";
  at("pages").replaceChildren(...row.pages.map((page) => {
    const image = new Image();
    image.alt = `Page ${page} of ${row.source}, the row highlighted`;
    image.src = `rows/${row.place}/pages/${page}.png`;
    return image;
  }));
}

function send(path, body) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

async function correct() {
  await send("corrections", { place: row.place, question: at("new-question").value, answer: at("new-answer").value });
  at("correct").open = false;
  await show(row.place);
  at("said").textContent = "The correction is kept.";
}

async function grade(value) {
  const { judged } = await send("grades", { place: row.place, grade: value });
  await show(judged < row.rows && row.place + 1 < row.rows ? row.place + 1 : -1);
}

const actions = {
  yes: () => grade(1),
  no: () => grade(0),
  back: () => show(Math.max(0, row.place - 1)),
  next: () => show(row.place + 1),
};
const keys = { y: "yes", n: "no", ArrowLeft: "back", ArrowRight: "next" };

function run(action) {
  action().catch((error) => { at("said").textContent = `It wasn't done: ${error.message}`; });
}

for (const [id, action] of Object.entries(actions)) at(id).addEventListener("click", () => run(action));
at("correct").addEventListener("submit", (event) => {
  event.preventDefault();
  run(correct);
});
document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "TEXTAREA") return;
  if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) run(actions[keys[event.key]]);
});
run(() => show(-1));
