// Two dialogs: a page of a document with the cited boxes highlighted, and a figure at its full size.

import { documentInfo, figureUrl, originalUrl, pageLabels, pageUrl, pdfUrl, taggedUrl } from "./service.js";
import { begun, el, fileName, isPdf, labelsOf, pageName, plainName } from "./text.js";

const $ = (id) => document.getElementById(id);
const PLAIN_DPI = 110;
const LARGE_DPI = 180;

const dialog = $("viewer");
const lightbox = $("lightbox");
const stage = $("stage");
let place = null;
let page = 1;
let large = false;
let last = null; // the document's last page, once it is known

export const isOpen = () => dialog.open || lightbox.open;

export function close() {
  dialog.close();
  lightbox.close();
}

// { corpus, version, docId, source, section, page, boxes: Map(page → [bbox]), labels: Map(page → what is printed there), tagged: whether there is a tagged copy }
export function openPage(shown) {
  place = shown;
  large = false;
  last = null;
  $("viewer-title").textContent = fileName(place.source);
  $("viewer-title").title = plainName(place.source);
  $("viewer-section").textContent = place.section.join(" › ");
  $("viewer-tagged").hidden = !place.tagged;
  $("back-to-cited").textContent = `Back to ${named(place.page)}`;
  go(place.page);
  findLast(place);
  if (!dialog.open) dialog.showModal();
  stage.focus({ preventScroll: true });
}

// Printed page names are known for cited pages only.
const named = (number) => (place.labels.size && !place.labels.has(number) ? `PDF page ${number}` : pageName(number, place.labels.get(number)));

const address = (number) => pageUrl(place.corpus, place.docId, number, place.boxes.get(number) ?? [], large ? LARGE_DPI : PLAIN_DPI, place.version);

function go(number) {
  if (number < 1 || (last !== null && number > last)) return;
  page = number;
  const picture = $("viewer-page");
  const wanted = address(page);
  const shown = place;
  dialog.classList.toggle("large", large);
  dialog.classList.add("loading");
  $("viewer-error").hidden = true;
  picture.hidden = false;
  picture.alt = `${begun(named(page))} of ${fileName(place.source)}${place.boxes.has(page) ? ", the cited part highlighted" : ""}`;
  picture.onload = () => {
    if (place !== shown || picture.dataset.wanted !== wanted) return;
    dialog.classList.remove("loading");
    reveal(picture);
    lookAhead(shown);
  };
  picture.onerror = () => {
    if (place !== shown || picture.dataset.wanted !== wanted) return;
    dialog.classList.remove("loading");
    picture.hidden = true;
    $("viewer-error").hidden = false;
    $("viewer-error").textContent = `${begun(named(page))} can’t be shown here. The original may still open.`;
  };
  picture.dataset.wanted = wanted;
  picture.src = wanted;
  $("page-number").textContent = `${begun(named(page))}${last ? ` of ${last}` : ""}`;
  $("back-to-cited").hidden = page === place.page;
  $("zoom").setAttribute("aria-pressed", String(large));
  $("zoom").textContent = large ? "Fit" : "Enlarge";
  $("viewer-pdf").href = pdfUrl(place.corpus, place.docId, page, place.version);
  $("viewer-original").href = originalUrl(place.corpus, place.docId, place.version);
  $("viewer-original").hidden = isPdf(place.source);
  $("viewer-tagged").href = taggedUrl(place.corpus, place.docId, page, place.version);
  pagerState();
}

function pagerState() {
  for (const [id, off] of [["previous", page <= 1], ["next", last !== null && page >= last]]) {
    const held = document.activeElement === $(id);
    $(id).disabled = off;
    if (off && held) stage.focus({ preventScroll: true });
  }
}

// Scrolls to the first cited box; page images are drawn at a known resolution, boxes are in points.
function reveal(picture) {
  const boxes = place.boxes.get(page) ?? [];
  const scale = (picture.clientWidth / picture.naturalWidth) * ((large ? LARGE_DPI : PLAIN_DPI) / 72);
  const left = Math.min(...boxes.map((box) => box[0]));
  const top = Math.min(...boxes.map((box) => box[1]));
  stage.scrollTo(boxes.length ? { top: top * scale - stage.clientHeight * 0.2, left: left * scale - 40 } : { top: 0, left: 0 });
}

// Preload the next page, if there is one.
function lookAhead(shown) {
  if (place === shown && last !== null && page < last) new Image().src = address(page + 1);
}

async function findLast(shown) {
  const found = await documentInfo(shown.corpus, shown.docId, shown.version).catch(() => null);
  if (place !== shown || !found) return;
  last = found.pages;
  $("page-number").textContent = `${begun(named(page))} of ${last}`;
  pagerState();
  if (!dialog.classList.contains("loading")) lookAhead(shown);
}

// { corpus, version, figureId, caption, tag, places: [{ label, place }] }
export function openFigure(shown) {
  const address = figureUrl(shown.corpus, shown.figureId, shown.version);
  const picture = $("lightbox-figure");
  picture.onload = () => { // a small figure is shown at twice its size
    picture.style.width = picture.naturalWidth < 480 ? `${picture.naturalWidth * 2}px` : "";
  };
  picture.src = address;
  picture.alt = shown.caption || "Figure without a caption";
  $("lightbox-caption").textContent = shown.caption || "Figure";
  $("lightbox-tag").textContent = shown.tag;
  $("lightbox-file").href = address;
  $("lightbox-places").replaceChildren(...shown.places.map(({ label, place: where }) => el("button", {
    type: "button", onclick: () => { lightbox.close(); openPage(where); },
  }, `See it on its page (${label})`)));
  if (!lightbox.open) lightbox.showModal();
}

// Page that is printed so; else the page that the PDF counts so, if the document has one.
async function pageOf(words) {
  place.allLabels ??= pageLabels(place.corpus, place.docId, place.version).catch(() => new Map());
  for (const [number, label] of await place.allLabels) place?.labels.set(number, label);
  if (!place) return null; // closed meanwhile
  for (const [number, label] of place.labels) if (label.toLowerCase() === words.toLowerCase()) return number;
  return /^\d{1,6}$/.test(words) && +words >= 1 && (last === null || +words <= last) ? +words : null;
}

$("go-to").addEventListener("submit", async (event) => {
  event.preventDefault();
  const box = $("go-to-page");
  const found = await pageOf(box.value.trim());
  box.setCustomValidity(found === null ? `This document has no page “${box.value}”` : "");
  if (!box.reportValidity()) return;
  box.value = "";
  go(found);
});
$("go-to-page").addEventListener("input", () => $("go-to-page").setCustomValidity(""));
$("previous").addEventListener("click", () => go(page - 1));
$("next").addEventListener("click", () => go(page + 1));
$("back-to-cited").addEventListener("click", () => { go(place.page); stage.focus({ preventScroll: true }); });
$("zoom").addEventListener("click", () => { large = !large; go(page); });
$("viewer-page").addEventListener("click", () => { large = !large; go(page); });
$("viewer-close").addEventListener("click", () => dialog.close());
$("lightbox-close").addEventListener("click", () => lightbox.close());

dialog.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target === $("go-to-page")) return;
  const sideways = large && event.target === stage && stage.scrollWidth > stage.clientWidth;
  if (event.key === "ArrowLeft" && !sideways) { event.preventDefault(); go(page - 1); }
  if (event.key === "ArrowRight" && !sideways) { event.preventDefault(); go(page + 1); }
});

for (const each of [dialog, lightbox]) {
  each.addEventListener("click", (event) => { if (event.target === each) each.close(); });
}
dialog.addEventListener("close", () => { $("viewer-page").removeAttribute("src"); place = null; });
