"use strict";

// ---- Theme: that of Airflow's page round the frame, light or dark, with its colours ----

const system = matchMedia("(prefers-color-scheme: dark)");
const outer = (() => {
  try {
    return parent === window ? null : parent.document;
  } catch {
    return null; // of another origin
  }
})();

function theme() {
  const { classList, style } = document.documentElement;
  classList.toggle("dark", outer ? outer.documentElement.classList.contains("dark") : system.matches);
  if (!outer) return;
  const theirs = parent.getComputedStyle(outer.documentElement);
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  for (const name of rules.find((rule) => rule.selectorText === ":root")?.style ?? []) {
    const value = name.startsWith("--chakra-") && theirs.getPropertyValue(name);
    if (value) style.setProperty(name, value);
  }
}
theme();
system.addEventListener("change", theme);
if (outer) new MutationObserver(theme).observe(outer.documentElement, { attributes: true, attributeFilter: ["class"] });

// ---- Airflow's REST API, with the user's own session ----

const POLL_MS = 2000;
const RELOAD_MS = 15000;
const RUN_TONES = { success: "green", running: "blue", queued: "blue" };

async function call(path, body, method = "POST") {
  const options = body && { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const reply = await fetch(`${document.body.dataset.airflow}api/v2/${path}`, options);
  const answer = await reply.json().catch(() => ({}));
  if (reply.ok) return answer;
  const detail = typeof answer.detail === "string" ? answer.detail : answer.detail?.map?.((one) => one.msg).join("; ");
  throw Object.assign(new Error(detail || `HTTP ${reply.status}`), { status: reply.status });
}

const runPath = (dag, run) => `dags/${encodeURIComponent(dag)}/dagRuns/${encodeURIComponent(run)}`;

/** Start a run, and return it. */
async function start(dag, conf) {
  const named = await call(`dags/${encodeURIComponent(dag)}`).catch((error) => {
    throw error.status === 404 ? new Error(`Airflow has no DAG ${dag}; is Inset's DAG folder complete?`) : error;
  });
  if (named.is_paused) throw new Error(`${dag} is paused, so it would never start; unpause it in Airflow first.`);
  return call(`dags/${encodeURIComponent(dag)}/dagRuns`, { logical_date: null, conf, note: conf.reason || null }).catch((error) => {
    throw error.status === 403 ? new Error(`Your role may not start ${dag}.`) : error;
  });
}

/** Wait until a run ends, and return its state; `show` receives on the way what it waits for. */
async function ended(dag, run, show) {
  for (;;) {
    const { state } = await call(runPath(dag, run));
    if (state === "success" || state === "failed") return state;
    show(...(state === "running" ? [await waiting(dag, run)] : await queued(dag)));
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

/** Return the page of a run in Airflow: its tab "Inset" where it refreshes a corpus. */
function runPage(dag, run) {
  const tab = dag.startsWith("refresh_") ? "/plugin/inset_run" : "";
  return `${document.body.dataset.airflow}dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}${tab}`;
}

/** Return a task of a run that is in a state; undefined if none is. */
async function taskIn(state, dag, run) {
  const { task_instances: tasks } = await call(`${runPath(dag, run)}/taskInstances?state=${state}&limit=1`);
  return tasks[0];
}

/** Return the error that ended a task's last try. */
async function lastError(dag, run, { task_id: task, try_number: attempt, map_index: index }) {
  const log = await call(`${runPath(dag, run)}/taskInstances/${encodeURIComponent(task)}/logs/${attempt}?map_index=${index}&full_content=true`);
  const errors = log.content.filter((entry) => entry.level === "error");
  const inset = errors.findLast((entry) => entry.logger === "inset");
  // An error that is retried is logged as a warning; Airflow logs where it was raised.
  return inset?.event ?? errors.at(-1)?.error_detail?.[0]?.exc_value ?? errors.at(-1)?.event ?? "its log says why";
}

/** Return why a run failed. */
async function reason(dag, run) {
  const { task_instances: tasks } = await call(`${runPath(dag, run)}/taskInstances?state=failed&limit=10`);
  const task = tasks.find((one) => one.task_id !== "release") ?? tasks[0];
  return task ? lastError(dag, run, task) : "no task of it failed";
}

/** Return what a run that goes on waits for. */
async function waiting(dag, run) {
  const retried = await taskIn("up_for_retry", dag, run);
  if (retried) return `${retried.task_id} is tried again soon (${retried.try_number + 1} of ${retried.max_tries + 1}): ${await lastError(dag, run, retried)}`;
  if (await asking(dag, run)) return "it waits for an answer; Required Actions of the run asks for it";
  return "it is under way";
}

/** Return the task of a run that asks a person; undefined if none does. */
async function asking(dag, run) {
  const [deferred, parked] = await Promise.all([taskIn("deferred", dag, run), taskIn("awaiting_input", dag, run)]);
  return [deferred, parked].find((one) => one?.task_id.startsWith("approve"));
}

/** Return why a run is queued: paused, or behind a run that waits for an answer, with a link to the question. */
async function queued(dag) {
  const [{ is_paused: paused }, { dag_runs: [before] }] = await Promise.all([
    call(`dags/${encodeURIComponent(dag)}`), call(`dags/${encodeURIComponent(dag)}/dagRuns?state=running&limit=1`),
  ]);
  if (paused) return ["it is queued, and its DAG is paused"];
  const task = before && await asking(dag, before.dag_run_id);
  if (!task) return ["it is under way, and queued"];
  const link = Object.assign(document.createElement("a"), {
    href: `${document.body.dataset.airflow}dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(before.dag_run_id)}/tasks/${task.task_id}/required_actions`,
    textContent: before.dag_run_id,
  });
  link.dataset.outer = "";
  return ["it is queued behind a run that waits for an answer: ", link];
}

// ---- Actions: a form in a dialog, since the frame's sandbox blocks confirm() ----

function open({ dataset }) {
  const dialog = document.getElementById(dataset.open);
  for (const [key, value] of Object.entries(dataset)) {
    const field = dialog.querySelector(`[name="${key}"]`);
    if (field) field.value = value;
    for (const shown of dialog.querySelectorAll(`[data-value="${key}"]`)) shown.textContent = value;
  }
  dialog.querySelector(".outcome").hidden = true;
  dialog.querySelector("[data-close]").textContent = "Cancel";
  dialog.querySelector("[type=submit]").disabled = false;
  dialog.showModal();
  dialog.querySelector("textarea").focus();
}

async function submit(form) {
  const outcome = form.querySelector(".outcome");
  const conf = {};
  for (const field of form.elements) {
    if (!field.name) continue;
    if (field.type === "checkbox") conf[field.name] = field.checked;
    else if (field.type === "number") field.value && (conf[field.name] = field.valueAsNumber);
    else conf[field.name] = field.dataset.json ? JSON.parse(field.value) : field.value.trim();
  }
  const show = (text, kind = "") => {
    outcome.hidden = false;
    outcome.className = `outcome ${kind}`;
    outcome.replaceChildren(...[text].flat());
  };
  const send = form.querySelector("[type=submit]");
  send.disabled = true;
  try {
    show("Starting…");
    const { ends, dry, corpus } = form.dataset;
    if (ends) {
      await call(runPath(form.dataset.dag, ends), { state: "failed", note: conf.reason || null }, "PATCH");
      form.closest("dialog").dataset.changed = "";
      return show("Done: it is marked as failed; its lease is freed within seconds.", "success");
    }
    const planned = conf.dry_run && dry;
    if (planned) Object.assign(conf, { corpus }), delete conf.dry_run;
    const dag = planned || form.dataset.dag;
    const { dag_run_id: run } = await start(dag, conf);
    const link = Object.assign(document.createElement("a"), { href: runPage(dag, run), textContent: "the run" });
    link.dataset.outer = "";
    const state = await ended(dag, run, (...now) => show([...now, ": ", link]));
    form.closest("dialog").dataset.changed = "";
    form.querySelector("[data-close]").textContent = "Close";
    renew().catch(() => {}); // closing the dialog loads the page anew
    if (state === "success") { // once more would start a further run, which a dry run is for
      send.disabled = !(conf.dry_run || planned);
      const task = planned ? "plan" : form.dataset.shows;
      const result = task && await call(`${runPath(dag, run)}/taskInstances/${task}/xcomEntries/return_value`);
      return show([result ? `${result.value} – ` : "Done: ", link], "success");
    }
    show([await reason(dag, run).catch(() => "its log says why"), " – ", link], "error");
  } catch (error) {
    show(error.message, "error");
  }
  send.disabled = false;
}

// ---- Pictures ----

function zoom({ dataset }) {
  const dialog = document.getElementById("zoom");
  const picture = dialog.querySelector("img");
  dialog.querySelector(".unseen")?.remove();
  dialog.querySelector("[data-caption]").textContent = picture.alt = dataset.text;
  picture.hidden = false;
  picture.src = dataset.zoom;
  dialog.showModal();
}

/** Say in place of a picture why it can't be shown. */
async function unseen(picture) {
  const reply = await fetch(picture.src);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const text = page.querySelector(".error")?.textContent ?? `HTTP ${reply.status}`;
  picture.hidden = true;
  picture.after(Object.assign(document.createElement("small"), { className: "unseen", textContent: text }));
}

document.addEventListener("error", ({ target }) => target.matches?.("img") && unseen(target).catch(() => {}), true);

// ---- The page ----

/** Open a page of Airflow in place of the frame, which must not navigate the page round it; other hosts' pages get a tab. */
function leave(event, address) {
  if (!outer || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const link = Object.assign(outer.createElement("a"), { href: address });
  if (link.origin !== location.origin) Object.assign(link, { target: "_blank", rel: "noopener" });
  outer.body.append(link);
  link.click();
  link.remove();
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-open], [data-close], [data-zoom], a[data-outer]");
  if (!target) return;
  if (target.matches("a")) leave(event, target.href);
  else if ("open" in target.dataset) open(target);
  else if ("zoom" in target.dataset) zoom(target);
  else target.closest("dialog").close();
});

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.dag) return;
  event.preventDefault();
  submit(event.target);
});

async function load(place) {
  const reply = await fetch(place.dataset.load);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  place.replaceChildren(...(page.querySelector("main") ?? page.body).childNodes);
}

/** Mark paused DAGs, and offer to unpause that of the page. */
async function pauses(places) {
  const { dags } = await call("dags?paused=true&limit=1000&dag_id_pattern=refresh_");
  for (const place of places) {
    const dag = place.dataset.lastRun;
    if (!dags.some((one) => one.dag_id === dag)) continue;
    place.before(Object.assign(document.createElement("span"), { className: "badge orange", textContent: "paused" }));
    const button = document.querySelector("[data-paused]");
    if (!button) continue;
    button.hidden = false;
    button.addEventListener("click", () => call(`dags/${encodeURIComponent(dag)}`, { is_paused: false }, "PATCH").then(
      () => location.reload(), (error) => { button.textContent = error.status === 403 ? "Your role may not unpause it" : error.message; },
    ));
  }
}

async function lastRuns(places) {
  const { dag_runs: runs } = await call("dags/~/dagRuns/list", {
    dag_ids: places.map((place) => place.dataset.lastRun), order_by: "-run_after", page_limit: 100,
  });
  for (const place of places) {
    const run = runs.find((one) => one.dag_id === place.dataset.lastRun);
    if (!run) continue;
    const link = Object.assign(document.createElement("a"), {
      href: runPage(run.dag_id, run.dag_run_id), textContent: run.state, className: `badge ${RUN_TONES[run.state] ?? "red"}`,
    });
    link.dataset.outer = "";
    if (run.state === "running") place.parentElement.querySelector(":scope > .badge.blue")?.remove(); // of the lease
    place.replaceChildren(link);
  }
}

// ---- A run that built no version: what its task "plan" found ----

const SUBJECTS = { figure: "figures", page: "pages", text: "texts" };

/** Show a plan's summary in the sections that the page has for it. */
function showPlan(summary) {
  const plan = document.getElementById("plan");
  plan.hidden = false;
  for (const place of plan.querySelectorAll("[data-plan]")) place.textContent = summary[place.dataset.plan].toLocaleString();
  for (const place of plan.querySelectorAll("[data-plan-sources]")) {
    const names = summary.sources[place.dataset.planSources] ?? [];
    const more = summary[place.dataset.planSources] - names.length;
    const lines = more > 0 ? [...names, `… and ${more.toLocaleString()} more`] : names;
    place.hidden = !names.length;
    place.querySelector("ul").replaceChildren(...lines.map((name) => Object.assign(document.createElement("li"), { textContent: name })));
  }
  const costs = Object.entries(summary.captions);
  const captioners = document.getElementById("captioners");
  captioners.hidden = !costs.length;
  for (const [name, { subject, items, affordable, spent }] of costs) {
    const row = captioners.querySelector("tbody").insertRow();
    const numbers = [items, affordable, spent.calls].map((number) => number.toLocaleString());
    const cells = [name, SUBJECTS[subject] ?? subject, ...numbers, spent.money.toFixed(2), "–", "–"];
    for (const [index, text] of cells.entries()) row.append(Object.assign(document.createElement(index ? "td" : "th"), { textContent: text, className: index > 1 ? "number" : "" }));
  }
}

async function askAirflow(place) {
  const { run, of: dag } = place.dataset;
  const found = (key) => call(`${runPath(dag, run)}/taskInstances/plan/xcomEntries/${key}`).then(
    ({ value }) => value,
    (error) => { if (error.status === 404) return null; throw error; },
  );
  const [{ state }, version, outcome, summary] = await Promise.all([call(runPath(dag, run)), found("version"), found("outcome"), found("summary")]);
  const told = outcome || (state === "failed" || state === "success" ? "failed" : "running");
  const shown = place.querySelector(`[data-outcome="${told}"]`);
  for (const link of shown.querySelectorAll("[data-version]")) {
    link.textContent = version;
    if (link.matches("a")) link.href = place.dataset.versions + version;
  }
  place.querySelector("[data-outcome=asking]").hidden = true;
  shown.hidden = false;
  if (summary && outcome === "build") showPlan(summary);
  if (told === "failed" || told === "running") await tellReason(shown, dag, run, state);
}

/** Say why a run ended; of one that goes on, what it waits for, until it ends and the page has more to show. */
async function tellReason(place, dag, run, state) {
  const told = place.querySelector("[data-reason]");
  if (state === "failed" || state === "success") {
    told.textContent = await reason(dag, run);
    return;
  }
  await ended(dag, run, (...now) => told.replaceChildren(...now));
  location.reload();
}

async function tellEnd(place) {
  const { runAsked: run, of: dag } = place.dataset;
  const { state } = await call(runPath(dag, run));
  await tellReason(place, dag, run, state);
}

/** Show the page as it is now, behind an open dialog. */
async function renew() {
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  const main = document.querySelector("main");
  for (const old of main.querySelectorAll(":scope > :not(dialog)")) old.remove();
  main.prepend(...page.querySelectorAll("main > :not(dialog)"));
  setUp();
}

function setUp() {
  const asked = document.querySelector("[data-run]");
  if (asked) askAirflow(asked).catch((error) => { asked.textContent = error.message; });
  const begun = document.querySelector("[data-run-asked]");
  if (begun) tellEnd(begun).catch(() => {}); // the page says where to look
  for (const time of document.querySelectorAll("time")) {
    time.title = time.textContent;
    time.textContent = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  }
  for (const place of document.querySelectorAll("[data-load]")) {
    load(place).catch((error) => { place.textContent = error.message; });
  }
  const places = [...document.querySelectorAll("[data-last-run]")];
  if (places.length) {
    lastRuns(places).catch(() => {}); // the page says when it ended without
    pauses(places).catch(() => {});
  }
}

document.addEventListener("DOMContentLoaded", () => {
  setUp();
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("close", () => "changed" in dialog.dataset && location.reload());
  }
  if (document.querySelector("main[data-refreshing]")) setInterval(() => document.querySelector("dialog[open]") || location.reload(), RELOAD_MS);
});
