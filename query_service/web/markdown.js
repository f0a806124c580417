// An answer as Markdown, its citations as footnotes.

import { nameOf, originOf, titleOf } from "./answer.js";
import * as service from "./service.js";

const written = (text) => text.replace(/[\\`*_[\]<>|#~]/g, "\\$&");
const absolute = (path) => new URL(path, document.baseURI).href;
const line = (text) => written(text).replace(/\s+/g, " ").trim();

// title is the question, address that of the page that shows the answer.
export function markdown(found, { corpus, title, address }) {
  const cited = new Map(found.citations.map((citation) => [citation.n, citation]));
  const image = ({ figure_id: id, caption, citations: [n] }) => {
    const of = originOf(cited.get(n), { corpus, version: found.version });
    return `![${line(caption)}](${absolute(service.figureUrl(of.corpus, id, of.version))})`;
  };
  const notes = (part) => part.citations.map((n) => `[^${n}]`).join("");

  function table({ rows, figures }) {
    const cell = (text) => figures.reduce((drawn, figure) => drawn.replaceAll(line(figure.tag), image(figure)), line(text));
    const row = (cells) => `| ${cells.map(cell).join(" | ")} |`;
    const [head, ...body] = rows;
    return [row(head), `|${" --- |".repeat(head.length)}`, ...body.map(row)].join("\n");
  }

  function block(part) {
    if (part.type === "figure") return image(part);
    if (part.type === "table") return table(part);
    if (part.style === "code") {
      const fence = "`".repeat(Math.max(3, ...[...part.text.matchAll(/`{3,}/g)].map(([ticks]) => ticks.length + 1)));
      return `${fence}\n${part.text}\n${fence}`;
    }
    if (part.style === "heading") return `## ${line(part.text)}`;
    return written(part.text.trim()).replace(/^[•‣◦▪■●○–—]\s*/, "- ");
  }

  const blocks = [];
  for (const part of found.parts) {
    const inline = part.type === "text" && part.style !== "code";
    const text = `${block(part)}${notes(part) && (inline ? "" : "\n\n")}${notes(part)}`;
    if (part.continues && blocks.length) blocks[blocks.length - 1] += ` ${text}`;
    else blocks.push(text);
  }
  const footnotes = found.citations.map((citation) => {
    const link = citation.pdf_link?.replace(/^\/+/, "") ?? service.pdfUrl(corpus, citation.doc_id, citation.page, found.version);
    const where = [citation.corpus, titleOf(citation), nameOf(citation), citation.section_path.at(-1)].filter(Boolean).map(line).join(", ");
    return `[^${citation.n}]: [${where}](${absolute(link)})`;
  });
  const origins = found.corpora.filter(({ problem }) => !problem).map(({ name, version }) => `${line(name)}, version ${version}`);
  const origin = `[${origins.join("; ") || `${line(corpus)}, version ${found.version}`}](${address})`;
  const by = found.model === null ? "" : `Written by ${line(found.model)}. `;
  return [`# ${line(title)}`, ...blocks, `${by}${origin}`, footnotes.join("\n")].filter(Boolean).join("\n\n");
}
