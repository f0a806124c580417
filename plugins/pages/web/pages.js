"use strict";

// The theme of Airflow's page round the frame: light or dark, and its colours.
const system = matchMedia("(prefers-color-scheme: dark)");
const outer = (() => {
  try {
    return parent === window ? null : parent.document.documentElement;
  } catch {
    return null; // of another origin
  }
})();

function theme() {
  const { classList, style } = document.documentElement;
  classList.toggle("dark", outer ? outer.classList.contains("dark") : system.matches);
  if (!outer) return;
  const theirs = parent.getComputedStyle(outer);
  const rule = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).find((found) => found.selectorText === ":root");
  for (const name of rule?.style ?? []) {
    const value = name.startsWith("--chakra-") && theirs.getPropertyValue(name);
    if (value) style.setProperty(name, value);
  }
}
theme();
system.addEventListener("change", theme);
if (outer) new MutationObserver(theme).observe(outer, { attributes: true, attributeFilter: ["class"] });

document.addEventListener("DOMContentLoaded", () => {
  for (const time of document.querySelectorAll("time")) {
    time.title = time.textContent;
    time.textContent = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  }
});
