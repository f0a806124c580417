import { el } from "./text.js";

const $ = (id) => document.getElementById(id);
const named = (reference) => reference.split("/").pop();

function typeOf(schema) {
  if (!schema || Object.keys(schema).length === 0) return ["anything"];
  if (schema.$ref) return [el("a", { href: `#${named(schema.$ref)}` }, named(schema.$ref))];
  if (schema.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(" | ")];
  if ("const" in schema) return [JSON.stringify(schema.const)];
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.flatMap((one, index) => (index ? [" | ", ...typeOf(one)] : typeOf(one)));
  if (schema.prefixItems) return ["[", ...schema.prefixItems.flatMap((one, index) => (index ? [", ", ...typeOf(one)] : typeOf(one))), "]"];
  if (schema.type === "array") return ["list of ", ...typeOf(schema.items)];
  if (schema.additionalProperties && schema.additionalProperties !== true) return ["map to ", ...typeOf(schema.additionalProperties)];
  return [schema.type + (schema.format ? ` (${schema.format})` : "")];
}

// Docstrings set names in double backticks.
const prose = (text = "") => text.split("``").map((piece, index) => (index % 2 ? el("code", {}, piece) : piece));

function limits(schema) {
  const bound = (key, word) => (key in schema ? `${word} ${schema[key]}` : null);
  return [bound("minimum", "≥"), bound("maximum", "≤"), bound("maxLength", "at most") && `at most ${schema.maxLength} characters`,
    bound("maxItems", "at most") && `at most ${schema.maxItems}`, schema.pattern && `matches ${schema.pattern}`,
    "default" in schema && schema.default !== null && typeof schema.default !== "object" && `default ${JSON.stringify(schema.default)}`]
    .filter(Boolean).join(", ");
}

const row = (name, schema, required, description) => el("tr", {},
  el("th", { scope: "row" }, el("code", {}, name), required ? "" : el("span", { class: "quiet" }, " optional")),
  el("td", {}, ...typeOf(schema)),
  el("td", {}, ...prose([description ?? schema.description, limits(schema)].filter(Boolean).join(" "))));

const grid = (label, rows) => (rows.length
  ? el("div", { class: "table", tabindex: 0, role: "group", "aria-label": label }, el("table", {}, el("tbody", {}, ...rows))) : null);

const failures = (spec) => Object.entries(spec.responses).filter(([status]) => Number(status) >= 400);

function operation(path, method, spec) {
  const sent = spec.requestBody?.content?.["application/json"]?.schema;
  const returned = Object.entries(spec.responses["200"]?.content ?? {})[0];
  return el("section", { class: "operation", id: spec.operationId },
    el("h3", {}, el("span", { class: `method ${method}` }, method.toUpperCase()), " ", el("code", {}, path)),
    el("p", {}, ...prose(spec.description ?? spec.summary)),
    grid(`Parameters of ${path}`, (spec.parameters ?? []).filter((one) => one.in !== "header")
      .map((one) => row(one.name, one.schema, one.required, one.description))),
    sent && el("p", {}, "Send ", ...typeOf(sent), "."),
    returned && el("p", {}, "Returns ", ...(returned[0] === "application/json" ? typeOf(returned[1].schema) : [returned[0]]), "."),
    el("p", { class: "quiet" }, failures(spec).length ? `May fail with ${failures(spec).map(([status]) => status).join(", ")}.` : ""));
}

const schema = (name, spec) => el("section", { class: "operation", id: name },
  el("h3", {}, el("code", {}, name)), el("p", {}, ...prose(spec.description)),
  spec.enum && el("p", {}, ...typeOf(spec)),
  grid(`Fields of ${name}`, Object.entries(spec.properties ?? {}).map(([field, one]) =>
    row(field, one, (spec.required ?? []).includes(field)))));

$("example").textContent = `curl -s ${new URL("v1/corpora/CORPUS/answer", document.baseURI)} \\
  -H 'content-type: application/json' -d '{"question": "How do I reconcile an account?"}'`;

try {
  const response = await fetch("openapi.json");
  const api = await response.json();
  document.querySelector("h1").textContent = `${api.info.title} API ${api.info.version}`;
  $("operations").replaceChildren(...Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, spec]) => operation(path, method, spec))));
  const known = new Map(Object.values(api.paths).flatMap(Object.values).flatMap(failures));
  $("errors").replaceChildren(
    el("p", {}, "Every error, and 404, 405, 413 and 500 anywhere, has the same body: ", ...typeOf({ $ref: "Problem" }), "."),
    grid("Errors", [...known].sort().map(([status, response]) => el("tr", {},
      el("th", { scope: "row" }, el("code", {}, status)), el("td", {}, response.description)))));
  $("schemas").replaceChildren(...Object.entries(api.components.schemas).map(([name, spec]) => schema(name, spec)));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
} catch (error) {
  $("operations").replaceChildren(el("p", { class: "notice wrong", role: "alert" }, "openapi.json can’t be read now."));
}
