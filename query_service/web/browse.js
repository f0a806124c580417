// What a version holds: its documents, and the outline, figures and tables of one or all.

import { image, skeleton } from "./answer.js";
import * as service from "./service.js";
import { count, el, fileName, languageName, pageName, plainName, table } from "./text.js";
import * as viewer from "./viewer.js";

const $ = (id) => document.getElementById(id);
const OF_ALL = [["documents", "Documents"], ["figures", "Figures"], ["tables", "Tables"]];
const OF_ONE = [["outline", "Outline"], ["figures", "Figures"], ["tables", "Tables"]];
export const TABS = [...new Set([...OF_ALL, ...OF_ONE].map(([tab]) => tab))];
const NARROWED_BY = { documents: "contains", figures: "contains" };

let running = null;
export const stop = () => running?.abort();

// of is { corpus, version }, version "" for the live one; doc is "" for all documents. to makes a link to another state of the page.
// All documents together have no outline, one document has no list of documents: the first tab is shown instead.
export async function browse(of, { tab: wanted, doc, contains, sort, role }, { to, say }) {
  const tabs = doc ? OF_ONE : OF_ALL;
  const tab = tabs.some(([name]) => name === wanted) ? wanted : tabs[0][0];
  stop();
  const turn = new AbortController();
  running = turn;
  const versioned = of.version ? { version: of.version } : {};
  const narrowed = !doc && tab in NARROWED_BY;
  $("browse-narrow").hidden = !narrowed && tab !== "figures";
  $("browse-contains").parentElement.hidden = !narrowed;
  $("browse-contains").value = contains;
  $("browse-sort").hidden = doc || tab !== "documents";
  $("browse-sort").value = sort;
  $("browse-role").hidden = tab !== "figures";
  $("browse-role").value = role;
  $("browse-tabs").replaceChildren(...tabs.map(([name, label]) =>
    el("li", {}, to(label, { browse: name }, name === tab))));
  $("browse-all").replaceChildren(...(doc ? [to("All documents", { browse: "documents", doc: "" })] : []));
  $("browse-list").replaceChildren(skeleton(8));
  $("browse-more").hidden = true;
  say("Loading");
  const draw = { documents, outline, figures, tables }[tab];
  const path = doc ? `documents/${encodeURIComponent(doc)}/${tab}` : tab;
  const asked = {
    ...versioned, ...(narrowed && contains ? { [NARROWED_BY[tab]]: contains } : {}), ...(tab === "documents" && sort ? { sort } : {}),
    ...(tab === "figures" && role ? { role } : {}),
  };
  try {
    await title(of, doc, turn);
    await paged((cursor) => service.list(of.corpus, path, { ...asked, ...(cursor ? { cursor } : {}) }, turn.signal), draw, { of, to, say, turn, doc });
  } catch (error) {
    if (error.name === "AbortError" || turn !== running) return;
    $("browse-list").replaceChildren(el("div", { class: "notice wrong", role: "alert" }, el("strong", {}, "This can’t be listed"), el("p", {}, error.message)));
    say("");
  }
}

async function title(of, doc, turn) {
  const found = doc ? await service.documentInfo(of.corpus, doc, of.version) : null;
  if (turn !== running) return;
  const source = found?.sources[0] ?? "";
  $("browse-title").textContent = found ? found.title || fileName(source) : `Browse ${of.corpus}`;
  $("browse-about").replaceChildren(...(found ? [
    `${plainName(source)} · ${count(found.pages, "page")} · `,
    el("a", { href: service.pdfUrl(of.corpus, doc, 1, found.version), target: "_blank", rel: "noopener" }, "Open the PDF ↗"),
  ] : []));
}

// Draws the pages of a list one by one: draw takes items of a page and returns the box that they go into, for the first page.
async function paged(load, draw, around) {
  let box = null;
  async function next(cursor) {
    around.say("Loading");
    const found = await load(cursor);
    if (around.turn !== running) return;
    const drawn = found.items.map((item) => draw.item(item, { ...around, of: { ...around.of, version: found.version } }));
    if (box) {
      box.append(...drawn);
      drawn[0]?.querySelector("a, button, summary")?.focus({ preventScroll: true });
    } else {
      const [whole, inner] = draw.box();
      box = inner;
      box.append(...drawn);
      $("browse-list").replaceChildren(found.total ? whole : el("p", { class: "none" }, `There are no ${draw.several}.`));
    }
    around.say(`${count(found.total, draw.one, draw.several)}${found.next ? `, ${box.children.length} of them shown` : ""}.`);
    $("browse-more").hidden = !found.next;
    $("browse-more").onclick = () => next(found.next).catch((error) => { if (error.name !== "AbortError") around.say(error.message); });
  }
  await next(null);
}

const same = (name, attributes) => () => { const box = el(name, attributes); return [box, box]; };

const documents = {
  one: "document", several: "documents",
  box() {
    const body = el("tbody");
    const head = ["Document", "Pages", "Figures", "Tables", "Language", "Dated"].map((name) => el("th", { scope: "col" }, name));
    const whole = el("div", { class: "table", tabindex: 0, role: "group", "aria-label": "Documents" },
      el("table", {}, el("thead", {}, el("tr", {}, ...head)), body));
    return [whole, body];
  },
  item: (found, { to }) => el("tr", {},
    el("th", { scope: "row" }, to(found.title || fileName(found.sources[0]), { browse: "outline", doc: found.doc_id }),
      ...found.sources.map((source) => el("span", { class: "from" }, plainName(source)))),
    ...[found.pages, found.figures, found.tables].map((number) => el("td", { class: "number" }, String(number))),
    el("td", {}, found.language ? languageName(found.language) : ""), el("td", {}, found.date ?? "")),
};

const placed = (item, of, boxes) => ({
  ...of, docId: item.doc_id, source: item.source ?? $("browse-title").textContent, section: item.section_path ?? item.path ?? [], page: item.page,
  boxes: new Map(boxes), labels: new Map(item.label ? [[item.page, item.label]] : []), tagged: false,
});

const opens = (label, place) => el("button", { type: "button", class: "link", "aria-haspopup": "dialog", onclick: () => viewer.openPage(place) }, label);

const outline = {
  one: "section", several: "sections", box: same("ol", { class: "outline" }),
  item: (found, { of, doc }) => el("li", { class: `level-${Math.min(found.level, 6)}` },
    ...(found.page === null ? [found.title] : [ // only its sections have a page
      opens(found.title, placed({ ...found, doc_id: doc }, of, [])),
      el("span", { class: "quiet" }, pageName(found.page, found.label)),
    ])),
};

const figures = {
  one: "figure", several: "figures", box: same("ul", { class: "contacts" }),
  item(found, { of, doc }) {
    const where = [...(doc ? [] : [fileName(found.source)]), pageName(found.page)].join(", ");
    const place = placed(found, of, [[found.page, [found.bbox]]]);
    return el("li", {},
      el("button", {
        type: "button", class: "picture", title: "Enlarge", "aria-haspopup": "dialog", "aria-label": `Enlarge: ${(found.caption || "figure").slice(0, 200)}, ${where}`,
        onclick: () => viewer.openFigure({
          ...of, figureId: found.figure_id, caption: found.caption, tag: found.number ? `<image:${found.number}.png>` : "", places: [{ label: pageName(found.page), place }],
        }),
      }, image(found.figure_id, found.caption || "Figure without a caption", of)),
      el("p", { class: "about" }, found.caption), el("p", { class: "about" }, where));
  },
};

const tables = {
  one: "table", several: "tables", box: same("ol", { class: "tables" }),
  item(found, { of, doc }) {
    const cells = el("div");
    const draw = async () => {
      cells.replaceChildren(skeleton(3));
      try {
        const { rows, spans } = await service.list(of.corpus, `tables/${encodeURIComponent(found.evidence_id)}`, { version: of.version, format: "json" });
        cells.replaceChildren(table(rows, undefined, spans));
      } catch (error) {
        cells.replaceChildren(el("p", { class: "missing" }, error.message));
      }
    };
    const named = found.caption || `Table on ${pageName(found.page, found.label)}`;
    return el("li", {},
      el("details", { ontoggle: (event) => { if (event.target.open && !cells.hasChildNodes()) draw(); } }, el("summary", {}, named), cells),
      el("p", { class: "about" },
        opens([...(doc ? [] : [fileName(found.source)]), pageName(found.page, found.label)].join(", "), placed(found, of, [[found.page, [found.bbox]]])),
        " · ",
        el("a", {
          href: service.csvUrl(of.corpus, found.evidence_id, of.version), target: "_blank", rel: "noopener", "aria-label": `CSV ↗ of ${named.slice(0, 200)}`,
        }, "CSV ↗")));
  },
};
