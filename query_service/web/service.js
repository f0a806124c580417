// Client of the HTTP API. Addresses are relative, so a proxy may serve it below a path.

import { withKey } from "./key.js";
import { begun } from "./text.js";

export const ALL = "*"; // every corpus that one may see

const at = (corpus, rest = "") => (corpus === ALL ? `v1${rest}` : `v1/corpora/${encodeURIComponent(corpus)}${rest}`);

async function send(path, options) {
  try {
    return await fetch(path, withKey(options));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service can’t be reached. Is it running, and are you online?");
  }
}

async function read(response) {
  let body = null;
  try { body = await response.json(); } catch (error) { if (error.name === "AbortError") throw error; }
  if (response.ok && body !== null) return body;
  throw Object.assign(failure(body, `The service answered ${response.status}.`), { status: response.status });
}

function failure(body, fallback) {
  const message = body?.detail;
  return new Error(message ? begun(message) : fallback);
}

const call = async (path, options = {}) => read(await send(path, options));

const posted = (body, signal, accept = "application/json") =>
  ({ method: "POST", headers: { "content-type": "application/json", accept }, body: JSON.stringify(body), signal });

// Yields server-sent events { name, data } of a POST, which EventSource does not support.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const field = (lines, name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1)).join("\n");
  let rest = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const whole = (rest + read.value).split(/\r?\n\r?\n/);
    rest = whole.pop();
    for (const lines of whole.map((event) => event.split(/\r?\n/))) {
      const data = field(lines, "data");
      if (data) yield { name: field(lines, "event").trim(), data: JSON.parse(data) };
    }
  }
}

export const overviews = () => call("v1/corpora");
export const versions = (corpus) => call(at(corpus, "/versions"));
export const answers = (corpus, version) => call(at(corpus, `/answers${version ? `?${new URLSearchParams({ version })}` : ""}`));
export const search = (corpus, body, signal) => call(at(corpus, "/search"), posted(body, signal));

export const feedback = (corpus, body) => call(at(corpus, "/feedback"), posted(body));

// Yields the events of an answer; the last is the result.
export async function* answer(corpus, body, signal) {
  const broken = "The connection broke before the answer was complete.";
  const response = await send(at(corpus, "/answer"), posted(body, signal, "text/event-stream"));
  if (!response.ok) await read(response);
  try {
    for await (const { name, data } of events(response)) {
      if (name === "error") throw failure(data, broken);
      yield data;
      if (name === "result") return;
    }
  } catch (error) {
    throw error instanceof TypeError ? new Error(broken) : error; // what a lost connection is to fetch
  }
  throw new Error(broken);
}

export const documentInfo = (corpus, docId, version) =>
  call(at(corpus, `/documents/${encodeURIComponent(docId)}?${new URLSearchParams(version ? { version } : {})}`));

// A page of a list, or one thing: path is below the corpus.
export const list = (corpus, path, parameters, signal) => call(at(corpus, `/${path}?${new URLSearchParams(parameters)}`), { signal });

export const csvUrl = (corpus, evidenceId, version) => at(corpus, `/tables/${encodeURIComponent(evidenceId)}?${new URLSearchParams({ format: "csv", version })}`);

// What is printed on the pages of a document, by page; only if it isn't the page's number.
export async function pageLabels(corpus, docId, version) {
  const labels = new Map();
  for (let cursor = ""; cursor !== null;) {
    const found = await list(corpus, `documents/${encodeURIComponent(docId)}/pages`, { version, limit: 200, ...(cursor ? { cursor } : {}) });
    for (const { page, label } of found.items) if (label) labels.set(page, label);
    cursor = found.next;
  }
  return labels;
}

export const figureUrl = (corpus, id, version) => at(corpus, `/figures/${encodeURIComponent(id)}?version=${encodeURIComponent(version)}`);

export function pageUrl(corpus, docId, page, boxes, dpi, version) {
  const query = new URLSearchParams(boxes.slice(0, 50).map((box) => ["box", box.map((n) => n.toFixed(2)).join(",")]));
  query.set("dpi", dpi);
  query.set("version", version);
  return at(corpus, `/documents/${encodeURIComponent(docId)}/pages/${Number(page)}.png?${query}`);
}

function documentUrl(corpus, file, page, version) {
  const query = version ? `?version=${encodeURIComponent(version)}` : "";
  return at(corpus, `/documents/${file}${query}#page=${Number(page)}`);
}

export const pdfUrl = (corpus, docId, page, version) => documentUrl(corpus, `${encodeURIComponent(docId)}.pdf`, page, version);
export const originalUrl = (corpus, docId, version) =>
  at(corpus, `/documents/${encodeURIComponent(docId)}/original${version ? `?version=${encodeURIComponent(version)}` : ""}`);
export const taggedUrl = (corpus, docId, page, version) => documentUrl(corpus, `${encodeURIComponent(docId)}/tagged.pdf`, page, version);
