import { Drawing, colophon, image, nameOf, originOf, placeOf, placeOfFigure, shortTitle, skeleton, sources } from "./answer.js";
import { TABS, browse, stop as stopBrowsing } from "./browse.js";
import FILTERS from "./filters.js"; // schemas.filters.inputs
import { askWho, drawUser } from "./key.js";
import * as service from "./service.js";
import { markdown } from "./markdown.js";
import { rating } from "./rating.js";
import { begun, blocks, count, el, fileName, labelsOf, languageName, markedBlocks, markedWords, plainName, table, when } from "./text.js";
import * as viewer from "./viewer.js";

const $ = (id) => document.getElementById(id);
const MODALITIES = [["", "All"], ["text", "Text"], ["table", "Tables"], ["figure", "Figures"], ["page", "Pages"]];
const GROUPS = ["", "page", "document"];
const FIGURES = { with: "With a figure", without: "Without figures" };
const FEW = 10;
const MANY = 50;

const MIB = 1024 ** 2;
const PICTURE_MIB = 8; // what the service takes
const PREVIEW_PX = 144;

const NARROWED = Object.fromEntries(FILTERS.map(({ name, several }) => [name, several ? [] : ""]));
const FIELDS = FILTERS.filter(({ label }) => label);
const BROWSED = { browse: "", doc: "", contains: "", sort: "", role: "" };
const state = { ...BROWSED, corpus: "", q: "", preset: "", answer: "", modality: "", group: "", sentences: false, compare: "", ...NARROWED, version: "", k: FEW };
// An address can't hold a picture: the history holds its number, and pictures last as long as the page.
const pictures = new Map();
let given = null; // the picture to search by: { key, name, base64, preview }
let overviews = new Map();
let running = null;
let searching = null;

// What is going on, and what came of it.
const say = (line, of = "answer") => { $(`status-${of}`).textContent = line; };
const clear = (node) => node.replaceChildren();

// ---- the address ----

function readAddress() {
  const parameters = new URLSearchParams(location.search);
  state.corpus = parameters.get("corpus") ?? "";
  state.q = (parameters.get("q") ?? "").trim().slice(0, 2000);
  state.preset = parameters.get("preset") ?? "";
  state.answer = parameters.get("answer") ?? "";
  state.modality = MODALITIES.some(([modality]) => modality === parameters.get("modality")) ? parameters.get("modality") : "";
  state.sentences = parameters.has("sentences");
  state.group = GROUPS.includes(parameters.get("group")) ? parameters.get("group") : "";
  for (const { name, several, parameter, kind } of FILTERS) {
    const texts = parameters.getAll(parameter).filter((text) => text && (!(kind in LEGIBLE) || LEGIBLE[kind](text)));
    state[name] = several ? texts : texts[0] ?? "";
  }
  state.version = parameters.get("version") ?? "";
  state.compare = parameters.get("compare") ?? "";
  for (const name of Object.keys(BROWSED)) state[name] = parameters.get(name) ?? "";
  if (!TABS.includes(state.browse)) state.browse = "";
  state.k = FEW;
  given = pictures.get(history.state?.picture) ?? null;
}

function writeAddress(push) {
  const address = addressOf(state);
  const kept = given && { picture: given.key };
  if (address !== location.pathname + location.search || kept?.picture !== history.state?.picture) {
    history[push ? "pushState" : "replaceState"](kept, "", address);
  }
  entitle();
}

function addressOf(state) {
  const query = new URLSearchParams();
  if (overviews.size > 1 || state.q) query.set("corpus", state.corpus);
  if (state.q) query.set("q", state.q);
  if (state.preset) query.set("preset", state.preset);
  if (state.answer) query.set("answer", state.answer);
  if (state.modality) query.set("modality", state.modality);
  for (const { name, parameter } of FILTERS) {
    for (const value of [state[name]].flat()) if (value) query.append(parameter, value);
  }
  if (state.group) query.set("group", state.group);
  if (state.sentences) query.set("sentences", "1");
  if (state.version) query.set("version", state.version);
  if (state.compare) query.set("compare", state.compare);
  for (const name of Object.keys(BROWSED)) if (state[name]) query.set(name, state[name]);
  return `${location.pathname}${query.size ? `?${query}` : ""}`;
}

const isAsked = () => Boolean(state.q || given);
const heading = () => state.q || (given ? "By a picture" : "");
const entitle = () => {
  const named = state.browse ? `Browse ${state.corpus}` : heading();
  document.title = named ? `${named} · Inset` : "Inset";
};

// "3", "3-9" or "12-" as the service takes it; null for anything else.
function range(written) {
  const found = /^\s*(\d{1,9})\s*(-?)\s*(\d{1,9})?\s*$/.exec(written);
  if (!found || +found[1] < 1 || (!found[2] && found[3])) return null;
  const last = found[3] ? +found[3] : found[2] ? null : +found[1];
  return last !== null && last < +found[1] ? null : { first: +found[1], last };
}

// A condition on a field of the corpus's own, such as product=PX-4 or revision>=7.
const condition = (text) => /^([a-z][a-z0-9_]*)(>=|<=|>|<|=)([^]+)$/.exec(text)?.slice(1) ?? null;

function where(texts) {
  const tests = {};
  for (const [name, comparison, value] of texts.map(condition)) {
    if (comparison === "=") tests[name] = [...(Array.isArray(tests[name]) ? tests[name] : []), value];
    else tests[name] = { ...(Array.isArray(tests[name]) ? {} : tests[name]), [comparison]: value };
  }
  return tests;
}

const ownFields = () => overviews.get(state.corpus)?.fields ?? [];
const fieldTitle = (name) => ownFields().find((field) => field.name === name)?.title ?? name;
const valueText = (value) => (Array.isArray(value) ? value.join(", ") : value === true ? "yes" : value === false ? "no" : String(value));

// What an address may say of a filter, how a text is sent, and how it is shown, by the filter's kind.
const LEGIBLE = {
  pages: range, figures: (text) => text in FIGURES, language: (text) => /^[a-z]{2,3}$/.test(text), day: (text) => /^\d{4}-\d\d-\d\d$/.test(text),
  fields: (text) => condition(text) !== null, superseded: (text) => text === "include",
};
const SENT = { pages: (texts) => texts.map(range), figures: (text) => text === "with", fields: where };
const SHOWN = {
  file: fileName, pages: (text) => (/-/.test(text) ? `Pages ${text}` : `Page ${text}`), figures: (text) => FIGURES[text], language: languageName,
  fields: (text) => { const [name, comparison, value] = condition(text); return `${fieldTitle(name)} ${comparison === "=" ? "" : `${comparison} `}${value}`; },
};
const filters = (modality) => ({
  ...Object.fromEntries(FILTERS.filter(({ name }) => state[name].length).map(({ name, kind }) => [name, SENT[kind]?.(state[name]) ?? state[name]])),
  ...(modality ? { modalities: [modality] } : {}),
});
const isNarrowed = () => FILTERS.some(({ name }) => state[name].length);
const presets = () => overviews.get(state.corpus).presets;
const pinned = () => (state.version ? { version: state.version } : {});

// ---- the frame: corpus, version, scope ----

function notice(title, detail, again) {
  $("notice").replaceChildren(el("div", { class: "notice wrong", role: "alert" },
    el("strong", {}, title), detail && el("p", {}, detail),
    again && el("button", { type: "button", onclick: again }, "Try again")));
}

async function start() {
  readAddress();
  say("Loading");
  let served;
  try {
    served = await service.overviews();
  } catch (error) {
    say("");
    document.body.dataset.view = "home";
    if (error.status === 401) return askWho(error.message, start);
    notice("The corpora can’t be listed", error.message, start);
    return;
  }
  clear($("notice"));
  drawUser();
  overviews = new Map(served.map((overview) => [overview.name, overview]));
  const ready = served.filter(({ version }) => version);
  if (ready.length > 1) overviews.set(service.ALL, together(ready));
  say("");
  if (!overviews.size) {
    $("ask").hidden = true;
    notice("No corpus is served here", "Add a corpus file and publish a version of it; then load this page again.");
    return;
  }
  $("corpus").replaceChildren(...[...overviews.values()].map(({ name, problem }) =>
    el("option", { value: name }, problem ? `${name} (not ready)` : titleOf(name))));
  await show();
}

const titleOf = (corpus) => (corpus === service.ALL ? "all corpora" : corpus);

// What all corpora have together, as if they were one.
function together(ready) {
  const sum = (name) => ready.reduce((total, overview) => total + overview[name], 0);
  const counts = (maps) => maps.reduce((total, map) => {
    for (const [value, number] of Object.entries(map)) total[value] = (total[value] ?? 0) + number;
    return total;
  }, {});
  const fields = new Map();
  for (const field of ready.flatMap(({ fields: own }) => own)) fields.set(field.name, [...(fields.get(field.name) ?? []), field]);
  const [first, ...others] = ready;
  return {
    name: service.ALL, version: service.ALL, problem: null, sources: [],
    documents: sum("documents"), pages: sum("pages"), figures: sum("figures"),
    languages: counts(ready.map(({ languages }) => languages)), doc_types: counts(ready.map(({ doc_types: types }) => types)),
    modalities: [...new Set(ready.flatMap(({ modalities }) => modalities))],
    fields: [...fields.values()].map((same) => ({ ...same[0], values: counts(same.map(({ values }) => values)) })),
    // Without a choice, each corpus searches by its own default.
    presets: [
      { name: "", label: "Default", sentence: "each corpus by its own default", source: "", takes_picture: true },
      ...first.presets.filter(({ name }) => others.every(({ presets }) => presets.some((preset) => preset.name === name))),
    ],
  };
}

async function show() {
  clear($("notice"));
  const unknown = state.corpus && !overviews.has(state.corpus) ? state.corpus : "";
  if (!state.corpus) state.corpus = ([...overviews.values()].find(({ problem }) => !problem) ?? [...overviews.values()][0]).name;
  if (unknown) {
    state.corpus = overviews.keys().next().value;
    state.q = "";
    notice(`There is no corpus “${unknown}” here`, `This is ${state.corpus}.`);
  }
  const overview = overviews.get(state.corpus);
  $("corpus-picker").hidden = overviews.size < 2;
  $("corpus").value = state.corpus;
  $("question").value = state.q;
  $("hero-title").textContent = overviews.size > 1 ? `Ask ${titleOf(state.corpus)}` : "Ask the documents";
  $("stats").textContent = overview.version
    ? [count(overview.documents, "document"), count(overview.pages, "page"), count(overview.figures, "figure")].join("\u2002·\u2002")
    : "";
  $("sources").replaceChildren(...overview.sources.map((source) => el("option", { value: source })));
  $("question").placeholder = overview.sources.length === 1 ? `Ask ${fileName(overview.sources[0])}` : "Ask a question";
  drawScope();
  drawPicture();
  drawPinned();
  $("browse-link").hidden = isAll();
  drawVersions();
  drawAnswers();
  if (!overview.version && !state.version && !unknown) {
    home();
    notice(`${state.corpus} can’t be searched yet`, overview.problem || "No version of it is live.", start);
  } else if (state.browse && !isAll()) openBrowse();
  else if (isAsked()) ask();
  else home();
}

const isAll = () => state.corpus === service.ALL;

// Documents, outlines, figures and tables of the version.
function openBrowse() {
  stop();
  document.body.dataset.view = "browse";
  say("", "evidence");
  entitle();
  return browse({ corpus: state.corpus, version: state.version }, { tab: state.browse, doc: state.doc, contains: state.contains, sort: state.sort, role: state.role }, { to, say });
}

// A link to another state of the page, which a click draws here.
function to(label, changes, isHere = false) {
  const target = { ...state, contains: "", sort: "", ...changes };
  return el("a", {
    href: addressOf(target), "aria-current": isHere && "page",
    onclick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      Object.assign(state, target);
      writeAddress(true);
      openBrowse();
      scrollTo({ top: 0 });
    },
  }, label);
}

function home() {
  stop();
  say("");
  say("", "evidence");
  document.body.dataset.view = "home";
  $("results").hidden = true;
  if (matchMedia("(hover: hover)").matches && !viewer.isOpen()) $("question").focus();
}

async function drawVersions() {
  const corpus = state.corpus;
  if (isAll()) {
    $("version-picker").hidden = $("compare-picker").hidden = true;
    return;
  }
  const live = overviews.get(corpus).version;
  let listed = [];
  try { listed = (await service.versions(corpus)).versions; } catch { /* the pickers stay with what is known */ }
  if (corpus !== state.corpus) return;
  const others = listed.filter(({ version, state: how }) => how !== "refused" && version !== live).map(({ version }) => version);
  if (state.version && state.version !== live && !others.includes(state.version)) others.unshift(state.version);
  const pinnedLive = state.version && state.version === live;
  $("version").replaceChildren(
    el("option", { value: "" }, live ? `Live, of ${when(live)}` : "Live"),
    ...(pinnedLive ? [el("option", { value: live }, `${when(live)} (pinned)`)] : []),
    ...others.map((version) => el("option", { value: version }, when(version))));
  $("version").value = state.version;
  $("version").title = state.version || live || "";
  $("version-picker").hidden = !live && !others.length;
  // Evidence is compared with that of another preset, or of another version.
  const group = (label, choices) => choices.length > 0 && el("optgroup", { label }, ...choices.map(([value, name]) => el("option", { value }, name)));
  $("compare").replaceChildren(...[
    el("option", { value: "" }, "nothing"),
    group("Presets", presets().filter(({ takes_picture: takes }) => takes || !given).map(({ name, label }) => [`preset:${name}`, label])),
    group("Versions", [live, ...others].filter((version) => version && version !== (state.version || live)).map((version) => [`version:${version}`, when(version)])),
  ].filter(Boolean));
  $("compare").value = state.compare;
  if ($("compare").selectedIndex < 0) $("compare").value = "";
  $("compare-picker").hidden = $("compare").options.length < 3;
}

// Answer presets that the version supports; the first is the default, which the address omits.
async function drawAnswers() {
  const { corpus, version } = state;
  let listed = [];
  try { if (!isAll()) listed = await service.answers(corpus, version); } catch { /* the default answers */ }
  if (corpus !== state.corpus || version !== state.version) return;
  // Context "given" is what the filters name.
  const offered = listed.filter(({ missing, settings }, place) =>
    !place || (!missing.length && (settings.context !== "given" || isNarrowed())));
  const option = ({ name, label, sentence, source }) =>
    el("option", { value: name === listed[0].name ? "" : name, title: [begun(sentence), source].filter(Boolean).join("\n") }, label);
  const papers = offered.filter(({ source }) => source);
  $("answers").replaceChildren(...offered.filter(({ source }) => !source).map(option),
    ...(papers.length ? [el("optgroup", { label: "As in a paper" }, ...papers.map(option))] : []),
    ...(state.answer && !offered.some(({ name }) => name === state.answer) ? [el("option", { value: state.answer }, state.answer)] : []));
  $("answers").value = state.answer;
  $("answer-picker").hidden = $("answers").options.length < 2;
}

function drawPinned() {
  const box = $("pinned");
  box.hidden = !state.version;
  if (!state.version) return;
  box.replaceChildren("Pinned to the version of ", el("strong", { title: state.version }, when(state.version)), ". ",
    el("button", { type: "button", class: "link", onclick: () => change({ version: "" }) }, "Follow the live version"));
}

const quoted = (text) => [...text.matchAll(/(?<=^|[\s(])(?:"([^"]+)"|“([^”“]+)”|„([^“”„]+)[“”]|«([^«»]+)»)(?=$|[\s.,;:!?)])/g)]
  .map((found) => found.slice(1).find(Boolean).trim()).filter((phrase) => /[\p{L}\p{N}]/u.test(phrase));

function drawScope() {
  const chip = (label, title, rest) => el("span", { class: "chip" }, el("span", { title }, label),
    el("button", { type: "button", "aria-label": `No longer: ${label}`, title: "Remove", onclick: () => change(rest) }, "✕"));
  const listed = ({ name, several, kind, shown_as: shownAs }) => [state[name]].flat().filter(Boolean).map((value) =>
    chip(shownAs.replace("{}", () => SHOWN[kind]?.(value) ?? value), value, { [name]: several ? state[name].filter((other) => other !== value) : "" }));
  const offered = quoted(state.q).filter((phrase) => !state.phrases.includes(phrase));
  $("documents").replaceChildren(
    ...FILTERS.flatMap(listed),
    // Quotes are not always phrases: offer the filter, do not apply it.
    ...offered.slice(0, 2).map((phrase) => el("button", {
      type: "button", class: "link", title: "Leave out what doesn’t have these words, one behind the other",
      onclick: () => change({ phrases: [...state.phrases, phrase] }),
    }, `Only with “${phrase}”`)));
  for (const { name, parameter, several, kind } of FIELDS) {
    if (!several) $(parameter).value = state[name];
    if (!["language", "choice"].includes(kind)) continue;
    const documents = overviews.get(state.corpus)[name] ?? {};
    // Every document has a language, so that one alone narrows nothing; documents may have no type.
    $(`${parameter}-filter`).hidden = Object.keys(documents).length < (kind === "language" ? 2 : 1);
    drawChoices(parameter, documents, state[name], SHOWN[kind] ?? String);
  }
  $("superseded-filter").hidden = !ownFields().length;
  for (const facet of document.querySelectorAll("#filters > .facet")) facet.remove();
  for (const { name, title, values } of ownFields().filter((field) => Object.keys(field.values).length)) {
    $("filters").append(el("label", { class: "facet" }, `${title} `,
      el("select", { id: `facet-${name}`, onchange: (event) => change({ where: [...state.where, `${name}=${event.target.value}`] }) })));
    drawChoices(`facet-${name}`, values, state.where.filter((text) => text.startsWith(`${name}=`)).map((text) => text.slice(name.length + 1)), String);
  }
}

// What a filter may still add, each with its number of documents.
function drawChoices(box, documents, chosen, named) {
  $(box).replaceChildren(el("option", { value: "" }, "Any"), ...Object.entries(documents)
    .filter(([value]) => !chosen.includes(value))
    .map(([value, count]) => [named(value), value, count])
    .sort(([one], [other]) => one.localeCompare(other, "en"))
    .map(([name, value, count]) => el("option", { value }, `${name} (${count})`)));
}

function drawSwitches() {
  $("group").value = state.group;
  $("sentences").checked = state.sentences;
  const segments = (box, name, choices, chosen) => {
    const legend = box.querySelector("legend");
    box.replaceChildren(legend, ...choices.map(([value, label, title]) => el("label", { title },
      el("input", { type: "radio", name, value, checked: value === chosen }), el("span", {}, label))));
  };
  // Only some corpora have rows of whole pages.
  const there = overviews.get(state.corpus).modalities ?? [];
  const shown = MODALITIES.filter(([modality]) => modality !== "page" || there.includes("page"));
  if (!shown.some(([modality]) => modality === state.modality)) state.modality = "";
  segments($("modalities"), "modality", shown, state.modality);
  // The first preset is the default, which the address omits.
  const written = (name, place) => (place ? name : "");
  if (!presets().some(({ name }, place) => written(name, place) === state.preset)) state.preset = "";
  // A picture needs a preset that takes pictures; without a choice the service picks one, and its reply names it.
  const choices = presets()
    .map((preset, place) => ({ ...preset, value: given ? preset.name : written(preset.name, place) }))
    .filter(({ takes_picture: takes }) => takes || !given)
    .map(({ value, label, sentence, source }) => [value, label, begun(sentence), source]);
  const isOwn = ([, , , source]) => !source;
  segments($("presets"), "preset", choices.filter(isOwn), state.preset);
  $("presets").hidden = choices.filter(isOwn).length < 2;
  // Presets of papers have their own list.
  const others = choices.filter((choice) => !isOwn(choice));
  $("papers").replaceChildren(el("option", { value: "" }, "As in a paper…"), ...others.map(([value, label, title]) => el("option", { value, title }, label)));
  $("papers").value = others.some(([name]) => name === state.preset) ? state.preset : "";
  $("papers").hidden = !others.length;
}

// A filter changed: update the address and search again.
function change(changes) {
  Object.assign(state, changes, { k: FEW });
  $("group").value = state.group;
  writeAddress(true);
  drawScope();
  drawPinned();
  drawVersions();
  drawAnswers();
  if (state.browse) openBrowse();
  else if (isAsked()) ask();
}

function begin(question, history = []) {
  sent = { question: question.trim(), history };
  Object.assign(state, BROWSED);
  state.q = question.trim();
  state.k = FEW;
  if (!isAsked()) return;
  $("question").value = state.q;
  writeAddress(true);
  drawScope();
  ask();
  scrollTo({ top: 0 });
}

// ---- a picture to search by ----

function drawPicture() {
  $("picture").hidden = !given;
  $("question").required = !given;
  if (given) {
    $("picture-name").textContent = given.name;
    // The content security policy blocks foreign pictures, but a canvas may draw them.
    Object.assign($("picture-preview"), { width: given.preview.width, height: given.preview.height })
      .getContext("2d").drawImage(given.preview, 0, 0);
  }
  drawSwitches();
}

// Searches by the first picture of some files, together with the question.
async function take(files) {
  const file = [...files].find(({ type }) => type.startsWith("image/")) ?? files[0];
  if (!file || !overviews.size) return;
  if (file.size > PICTURE_MIB * MIB) {
    notice(`“${file.name}” has ${(file.size / MIB).toFixed(1)} MiB; a picture to search by has ${PICTURE_MIB} MiB at most.`);
    return;
  }
  try {
    const [preview, address] = await Promise.all([
      createImageBitmap(file, { resizeHeight: PREVIEW_PX, resizeQuality: "high" }), dataAddress(file),
    ]);
    given = { key: `${performance.timeOrigin} ${pictures.size}`, name: file.name, base64: address.slice(address.indexOf(",") + 1), preview };
  } catch {
    notice(`“${file.name}” can’t be read as a picture; PNG, JPEG, WebP, GIF and BMP can.`);
    return;
  }
  pictures.set(given.key, given);
  drawPicture();
  begin($("question").value);
}

const dataAddress = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

function dropPicture() {
  given = null;
  writeAddress(true);
  drawPicture();
  if (state.q) ask();
  else home();
  $("question").focus();
}

// ---- asking ----

const MOST_TURNS = 5;
let sent = { question: "", history: [] }; // a question with the turns before it, oldest first
let turns = []; // those and the question's own

const turnOf = (question, { parts, citations }) => ({
  question,
  answer: parts.filter((part) => part.type === "text" && !part.folded).map((part) => part.text).join(" ").slice(0, 8000),
  evidence_ids: citations.map((citation) => citation.evidence_id).slice(0, 50),
});

function stop() {
  stopBrowsing();
  running?.abort();
  searching?.abort();
}

async function ask() {
  stop();
  const turn = new AbortController();
  running = turn;
  const { q } = state;
  entitle();
  document.body.dataset.view = "results";
  clear($("notice"));
  $("results").hidden = false;
  $("heading").textContent = heading();
  clear($("provenance"));
  $("citations").hidden = true;
  $("follow").hidden = true;
  $("other-answer").hidden = true;
  if (given) {
    $("answer").removeAttribute("aria-busy");
    $("parts").replaceChildren(el("p", { class: "missing" }, q
      ? "Below is what comes nearest to the picture and the words together. Words alone are answered."
      : "Below is what comes nearest to the picture. Add words to say what of it you look for."));
    say("Looking for what is like the picture");
    const version = await drawEvidence(pinned());
    if (turn === running) say("");
    if (turn === running && version) $("provenance").replaceChildren(provenance({ version, corpora: [] }));
    return;
  }
  $("answer").setAttribute("aria-busy", "true");
  say("Looking for an answer");
  const evidence = drawEvidence(pinned());
  const history = sent.question === q ? sent.history : [];
  const wanted = { question: q, filters: filters(), ...(state.answer ? { answer: state.answer } : {}), ...(history.length ? { history } : {}), ...pinned() };
  try {
    const [found] = await Promise.all([stream($("parts"), wanted, turn), drawOther(wanted, turn)]);
    if (turn !== running) return;
    drawAnswer(found);
    turns = [...history, turnOf(q, found)].slice(-MOST_TURNS);
    $("follow-question").value = "";
    $("follow").hidden = false;
    // If another version was published meanwhile, search the version that answered.
    const version = await evidence;
    if (turn === running && version && found.version && version !== found.version) drawEvidence({ version: found.version });
  } catch (error) {
    if (error.name === "AbortError" || turn !== running) return;
    $("parts").replaceChildren(failure("This question could not be answered", error.message, ask));
    say(`This question could not be answered. ${error.message}`);
  } finally {
    if (turn === running) $("answer").removeAttribute("aria-busy");
  }
}

// Draws an answer while it comes, and returns it; null if another question came in between.
async function stream(box, wanted, turn) {
  const drawing = new Drawing(box, state.corpus);
  let found = null;
  for await (const event of service.answer(state.corpus, wanted, turn.signal)) {
    if (turn !== running) return null;
    if (event.model) say(`${event.model} is writing the answer`);
    drawing.take(event);
    found = event.result ?? found;
  }
  if (found.abstained || !found.parts.length) box.replaceChildren(abstained(found.note));
  return found;
}

// The answer of the version that is compared, beside the other.
async function drawOther(wanted, turn) {
  const version = compared()?.version;
  if (!version) return;
  $("other-answer").hidden = false;
  $("other-answer-name").textContent = `Answer of the version of ${when(version)}`;
  try {
    await stream($("other-parts"), { ...wanted, version }, turn);
  } catch (error) {
    if (error.name !== "AbortError" && turn === running) $("other-parts").replaceChildren(failure("That version could not answer", error.message, ask));
  }
}

const failure = (title, detail, again) => el("div", { class: "notice wrong" },
  el("strong", {}, title), el("p", {}, detail), el("button", { type: "button", onclick: again }, "Try again"));

// ---- the answer ----

const abstained = (note) => el("div", { class: "abstained" },
  el("strong", {}, "Nothing in this version answers that."),
  note && el("p", {}, `${begun(note)}.`),
  el("p", {}, isNarrowed()
    ? "Only what matches the filters was searched."
    : "The nearest passages are below; they may still help, or show how the documents word it."));

function drawAnswer(found) {
  $("provenance").replaceChildren(...[...colophon(found), provenance(found), taking(found), rating(found, { question: state.q, corpus: state.corpus }, say)].filter(Boolean));
  if (found.abstained || !found.parts.length) {
    say("Nothing in this version answers that.");
    return;
  }
  $("citations").hidden = found.citations.length === 0;
  $("citations").querySelector("ol").replaceChildren(...sources(found.citations, { corpus: state.corpus, version: found.version }));
  const figures = found.parts.flatMap((part) => (part.type === "figure" ? [part] : part.figures ?? [])).length;
  say(`${!found.unsure ? "Answer" : found.model === null ? "Not sure: the nearest passage" : "Not sure: a model’s answer"} with ${count(figures, "figure")} and ${count(found.citations.length, "citation")}.`);
}

const provenance = ({ version, corpora }) => (corpora.length
  ? el("p", {}, corpora.map(({ name, version: of, problem, ignored }) => (problem
    ? `${name} is left out: ${problem}.` : `${name}: the version of ${when(of)}${ignored.length ? `, without ${ignored.join(", ")}` : ""}.`)).join(" "))
  : el("p", {}, "From the version of ", el("span", { title: version }, when(version)), state.version ? " (pinned)" : "", "."));

// Buttons that copy the answer, and the address that shows it again when another version is live.
function taking(found) {
  const pinnedHere = () => {
    const address = new URL(location.href);
    address.searchParams.set("corpus", state.corpus);
    if (found.version) address.searchParams.set("version", found.version);
    return address.href;
  };
  const button = (label, text, done) => el("button", {
    type: "button",
    onclick: () => copy(text()).then(() => say(done), () => say("The browser doesn’t let this page copy; use HTTPS")),
  }, label);
  return el("p", { class: "taking" },
    !found.abstained && button("Copy as Markdown",
      () => markdown(found, { corpus: state.corpus, title: heading(), address: pinnedHere() }), "The answer is copied, with its citations"),
    found.version && button("Copy a permanent link", pinnedHere, "The link is copied; it names this version"));
}

// Clipboards of pages are there over HTTPS and on loopback only.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  addEventListener("copy", (event) => {
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
  }, { once: true });
  if (!document.execCommand("copy")) throw new Error();
}

// ---- the evidence ----

const labelOf = (preset) => presets().find(({ name }) => name === preset)?.label ?? preset;

// What the evidence is compared with: { preset } or { version }; null if it is not.
function compared() {
  const found = /^(preset|version):(.+)$/.exec(state.compare);
  return found && { [found[1]]: found[2] };
}

// Searches, and searches again for what is compared. Returns the version that was searched, null if the search failed.
async function drawEvidence(version, keep = false) {
  searching?.abort();
  const turn = new AbortController();
  searching = turn;
  const takes = !given || presets().some(({ name, takes_picture: does }) => does && name === state.preset);
  const request = {
    query: state.q, ...(given ? { picture: given.base64 } : {}), ...(takes && state.preset ? { preset: state.preset } : {}), k: state.k,
    ...(state.group ? { group: state.group } : {}), ...(state.sentences ? { highlight: true } : {}), filters: filters(state.modality), ...version,
  };
  const other = compared();
  $("other").hidden = !other;
  $("hits-name").hidden = !other;
  say("Searching", "evidence");
  const found = await Promise.all([
    drawHits(request, $("hits"), turn, keep, () => drawEvidence(version)),
    ...(other ? [drawHits({ ...request, ...other }, $("other-hits"), turn, keep, () => drawEvidence(version))] : []),
  ]);
  if (turn !== searching) return null;
  const [first, second] = found;
  $("more").hidden = !found.some((each) => each?.hits.length >= state.k) || state.k >= MANY;
  const named = (each) => (other?.version ? `The version of ${when(each.version)}` : labelOf(each.preset));
  const counted = (each) => `${count(each.hits.length, "hit")}${isAll() ? "" : ` by ${labelOf(each.preset)}`}`;
  say(found.every(Boolean) ? `${found.map(counted).join(", ")}.` : "The evidence could not be searched.", "evidence");
  if (first && second) {
    for (const [box, own, others] of [[$("hits"), first, second], [$("other-hits"), second, first]]) {
      box.previousElementSibling.textContent = named(own);
      own.hits.forEach((hit, index) => {
        const rank = others.hits.findIndex(({ evidence_id: id }) => id === hit.evidence_id) + 1;
        box.children[index].querySelector(".elsewhere")?.remove();
        box.children[index].querySelector(".score").after(el("span", { class: "elsewhere" }, rank ? `rank ${rank} in the other` : "only here"));
      });
    }
  }
  if (first && given) for (const choice of $("presets").querySelectorAll("input")) choice.checked = choice.value === first.preset;
  return first?.version ?? null;
}

// Returns what was found, and null if it could not be searched or another search came in between.
async function drawHits(request, box, turn, keep, again) {
  box.setAttribute("aria-busy", "true");
  if (!keep) {
    box.replaceChildren(...Array.from({ length: 3 }, () => el("li", { class: "hit" }, skeleton(3))));
    $("more").hidden = true;
  }
  try {
    const found = await service.search(state.corpus, request, turn.signal);
    if (turn !== searching) return null;
    const had = keep ? box.children.length : 0;
    const drawn = found.hits.map((hit, index) => hitCard(hit, index + 1, found.version));
    if (had) box.append(...drawn.slice(had));
    else box.replaceChildren(...(drawn.length ? drawn : [el("li", { class: "none" }, "No evidence matches these filters.")]));
    if (had && box === $("hits")) box.children[had]?.querySelector("button")?.focus({ preventScroll: true });
    for (const hit of box.querySelectorAll(".hit-text")) foldable(hit);
    return found;
  } catch (error) {
    if (error.name === "AbortError" || turn !== searching) return null;
    box.replaceChildren(el("li", {}, failure("The evidence could not be searched", error.message, again)));
    return null;
  } finally {
    if (turn === searching) box.removeAttribute("aria-busy");
  }
}

function hitCard(hit, rank, version) {
  const of = originOf(hit, { corpus: state.corpus, version });
  const place = placeOf(hit, of);
  const last = hit.regions?.at(-1)?.page ?? hit.page;
  const labels = labelsOf(hit);
  const printed = `${labels.get(hit.page) ?? hit.page}–${labels.get(last) ?? last}`;
  const several = labels.size ? `pages ${printed} (PDF pages ${hit.page}–${last})` : `pages ${printed}`;
  const pages = last > hit.page ? several : nameOf(hit);
  const caption = hit.caption || `Figure on ${pages} of ${fileName(hit.source)}`;
  const page = hit.modality === "page" && hit.figure_id;
  const whole = page && el("button", {
    type: "button", class: "picture", title: "Open the page", "aria-label": `Open ${pages} of ${fileName(hit.source)}`, "aria-haspopup": "dialog",
    onclick: () => viewer.openPage({ ...place, boxes: new Map() }),
  }, image(page, `${pages} of ${fileName(hit.source)}`, of));
  const thumbs = page ? [whole] : hit.figures.slice(0, 4).map((figure) => el("button", {
    type: "button", class: "picture", title: "Enlarge", "aria-label": `Enlarge: ${(figure.caption || caption).slice(0, 200)}`, "aria-haspopup": "dialog",
    onclick: () => viewer.openFigure({
      ...of, figureId: figure.figure_id, caption: figure.caption, tag: "",
      places: [{ label: nameOf(hit, figure.page), place: placeOfFigure(figure, hit, of) }],
    }),
  }, image(figure.figure_id, figure.caption || caption, of)));
  const points = [...hit.text];
  const found = new Set(hit.highlights.flatMap(([start, end]) => points.slice(start, end).join("").toLowerCase().split(/\s+/)));
  const shown = hit.rows.length
    ? [...blocks(hit.caption), table(hit.rows, (cell) => markedWords(cell, found), hit.spans)]
    : markedBlocks(hit.text, hit.highlights, hit.nearest_sentence, hit.tagged_text);
  const text = el("div", { class: "hit-text" }, ...shown);
  return el("li", { class: `hit of-${hit.modality}` },
    el("div", { class: "hit-head" },
      el("span", { class: "rank", "aria-hidden": "true" }, String(rank)),
      el("button", { type: "button", class: "link place", title: plainName(hit.source), "aria-haspopup": "dialog", onclick: () => viewer.openPage(place) },
        `${hit.corpus ? `${hit.corpus}: ` : ""}${shortTitle(hit)}, ${pages}`),
      el("span", { class: "modality" }, hit.modality),
      el("span", { class: "score", title: "Score; compares within this list only" }, hit.score.toPrecision(3)),
      !state.documents.includes(hit.source) && overviews.get(state.corpus).documents > 1 && el("button", {
        type: "button", class: "link quiet only", onclick: () => change({ documents: [hit.source], sources: [], group: "" }),
        "aria-label": `More of this document: ${fileName(hit.source)}`,
      }, "More of this document")),
    hit.section_path.length > 0 && el("p", { class: "eyebrow" }, hit.section_path.join(" › ")),
    (hit.superseded || Object.keys(hit.fields).length > 0) && el("p", { class: "quiet own-fields" },
      hit.superseded && el("strong", {}, `${hit.superseded}. `),
      Object.entries(hit.fields).map(([name, value]) => `${fieldTitle(name)}: ${valueText(value)}`).join(" · ")),
    el("div", { class: "hit-body" }, text, thumbs.length > 0 && el("div", { class: "thumbs" }, ...thumbs,
      !page && hit.figures.length > 4 && el("span", { class: "quiet" }, `and ${hit.figures.length - 4} more`))),
    hit.more > 0 && el("p", { class: "rest" }, el("button", {
      type: "button", class: "link",
      onclick: () => change({
        documents: [hit.source], sources: [], ...(state.group === "page" ? { page_ranges: [String(hit.page)] } : {}), group: "",
      }),
    }, `${hit.more} more ${state.group === "page" ? "on this page" : "in this document"}`)));
}

function foldable(text) {
  if (text.dataset.folded !== undefined) return;
  if (text.scrollHeight <= text.clientHeight + 8) { // a line at most
    text.classList.add("open");
    return;
  }
  text.dataset.folded = "";
  const toggle = el("button", {
    type: "button", class: "link", "aria-expanded": "false",
    onclick: () => {
      const open = text.classList.toggle("open");
      toggle.setAttribute("aria-expanded", String(open));
      toggle.textContent = open ? "Show less" : "Show all of it";
    },
  }, "Show all of it");
  text.classList.add("folded");
  text.parentElement.after(toggle);
}

// ---- what the reader does ----

$("follow").addEventListener("submit", (event) => {
  event.preventDefault();
  begin($("follow-question").value, turns);
});

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const named = $("document").value.trim();
  if (named) narrow(named);
  begin($("question").value);
});

$("picture-choose").addEventListener("click", () => $("picture-file").click());
$("picture-file").addEventListener("change", () => {
  take($("picture-file").files);
  $("picture-file").value = ""; // so that the same file can be chosen again
});
$("picture-remove").addEventListener("click", dropPicture);
addEventListener("paste", (event) => {
  const { files } = event.clipboardData;
  // Formatted text on the clipboard brings a picture of itself.
  if (!files.length || event.clipboardData.getData("text/plain") || viewer.isOpen()) return;
  event.preventDefault();
  take(files);
});
const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  document.body.dataset.dropping = "";
});
addEventListener("dragleave", (event) => { if (!event.relatedTarget) delete document.body.dataset.dropping; });
addEventListener("drop", (event) => {
  delete document.body.dataset.dropping;
  if (!hasFiles(event)) return;
  event.preventDefault(); // the browser would leave this page for the file
  if (!viewer.isOpen()) take(event.dataTransfer.files);
});

function narrow(name) {
  $("document").value = "";
  const filter = /[*?[]/.test(name) ? "sources" : "documents";
  if (!name || state[filter].includes(name)) return false;
  state[filter] = [...state[filter], name];
  drawScope();
  return true;
}

$("document").addEventListener("change", () => {
  if (narrow($("document").value.trim())) change({});
});
$("document").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  if (narrow($("document").value.trim())) change({});
});

$("filter").addEventListener("click", () => {
  const open = $("filters").hidden;
  $("filters").hidden = !open;
  $("filter").setAttribute("aria-expanded", String(open));
  if (open) $("filters").querySelector("input").focus();
});
function field({ name, parameter: id, several, label, kind, hint, title }) {
  const control = {
    figures: () => el("select", { id }, el("option", { value: "" }, "With or without"), ...Object.entries(FIGURES).map(([value, shown]) => el("option", { value }, shown))),
    superseded: () => el("select", { id }, el("option", { value: "" }, "Left out"), el("option", { value: "include" }, "Included")),
    language: () => el("select", { id }), choice: () => el("select", { id }), day: () => el("input", { id, type: "date" }),
  }[kind]?.() ?? el("input", { id, type: "text", maxlength: 300, placeholder: hint });
  const add = () => {
    const value = control.value.trim();
    if (!several) change({ [name]: value });
    if (!several || !value) return;
    if (LEGIBLE[kind]?.(value) === null) {
      control.setCustomValidity("Write a page such as 3, or pages such as 3-9 or 12-");
      control.reportValidity();
      return;
    }
    control.value = "";
    if (!state[name].includes(value)) change({ [name]: [...state[name], value] });
  };
  control.addEventListener("input", () => control.setCustomValidity(""));
  control.addEventListener("change", add);
  if (control.type === "text") {
    control.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      add();
    });
  }
  return el("label", { id: `${id}-filter`, title: title || null }, `${label} `, control);
}
$("filters").append(...FIELDS.map(field));
for (const [box, read] of [["group", () => ({ group: $("group").value })], ["sentences", () => ({ sentences: $("sentences").checked })]]) {
  $(box).addEventListener("change", () => {
    Object.assign(state, read(), { k: FEW });
    writeAddress(true);
    if (isAsked()) drawEvidence(pinned());
  });
}
for (const box of ["presets", "papers"]) {
  $(box).addEventListener("change", (event) => {
    Object.assign(state, { preset: event.target.value, k: FEW });
    writeAddress(true);
    drawSwitches();
    if (isAsked()) drawEvidence(pinned());
  });
}
$("compare").addEventListener("change", () => {
  const before = compared();
  state.compare = $("compare").value;
  writeAddress(true);
  if (before?.version || compared()?.version) ask();
  else drawEvidence(pinned());
});
$("answers").addEventListener("change", () => change({ answer: $("answers").value }));
$("modalities").addEventListener("change", (event) => {
  Object.assign(state, { modality: event.target.value, k: FEW });
  writeAddress(true);
  if (isAsked()) drawEvidence(pinned());
});
$("more").addEventListener("click", () => {
  state.k = MANY;
  drawEvidence(pinned(), true);
});

$("corpus").addEventListener("change", () => {
  Object.assign(state, { corpus: $("corpus").value, version: "", answer: "", compare: "", ...NARROWED, doc: "", k: FEW });
  writeAddress(true);
  show();
});
$("version").addEventListener("change", () => change({ version: $("version").value }));

$("browse-link").addEventListener("click", (event) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || !overviews.size) return;
  event.preventDefault();
  Object.assign(state, BROWSED, { browse: "documents" });
  writeAddress(true);
  show();
});
const narrowList = () => {
  Object.assign(state, { contains: $("browse-contains").value.trim(), sort: $("browse-sort").value, role: $("browse-role").value });
  writeAddress(true);
  openBrowse();
};
$("browse-narrow").addEventListener("submit", (event) => {
  event.preventDefault();
  narrowList();
});
$("browse-narrow").addEventListener("change", narrowList);

$("home").addEventListener("click", (event) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  given = null;
  Object.assign(state, BROWSED, { q: "", modality: "", preset: "", answer: "", group: "", sentences: false, compare: "", ...NARROWED, version: "" });
  writeAddress(true);
  if (overviews.size) show(); else start();
});

addEventListener("popstate", () => {
  viewer.close();
  readAddress();
  if (overviews.size) show(); else start();
});

addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || viewer.isOpen()) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
  event.preventDefault();
  $("question").focus();
  $("question").select();
});

start();
