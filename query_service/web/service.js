// The HTTP API, as the page uses it. Addresses are relative, so the service may stand below a path of a proxy.

const at = (corpus, rest = "") => `v1/corpora/${encodeURIComponent(corpus)}${rest}`;

async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service can’t be reached. Is it running, and are you online?");
  }
  let body = null;
  try { body = await response.json(); } catch (error) { if (error.name === "AbortError") throw error; }
  if (response.ok && body !== null) return body;
  const said = body?.error?.message;
  throw new Error(said ? said[0].toUpperCase() + said.slice(1) : `The service answered ${response.status}.`);
}

const post = (path, body, signal) =>
  call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });

export const overviews = () => call("v1/corpora");
export const versions = (corpus) => call(at(corpus, "/versions"));
export const answer = (corpus, body, signal) => post(at(corpus, "/answer"), body, signal);
export const search = (corpus, body, signal) => post(at(corpus, "/search"), body, signal);

export const similar = (corpus, id, by, version) =>
  call(at(corpus, `/figures/${encodeURIComponent(id)}/similar?${new URLSearchParams({ by, k: 12, version })}`));

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
export const taggedUrl = (corpus, docId, page, version) => documentUrl(corpus, `${encodeURIComponent(docId)}/tagged.pdf`, page, version);
