// Redoc draws /openapi.json in the colours of the search page.

const reference = document.getElementById("reference");
const ACCENT = "#0f5c66";
const theme = {
  colors: { primary: { main: ACCENT }, success: { main: ACCENT }, error: { main: "#9b2c1f" }, text: { primary: "#1d1f21", secondary: "#5b6066" } },
  typography: {
    fontSize: "16px", fontFamily: "system-ui, sans-serif", headings: { fontFamily: "ui-serif, Georgia, serif" }, code: { fontFamily: "ui-monospace, monospace" },
  },
  sidebar: { backgroundColor: "#f2f0e9" },
};

// What axe finds in Redoc 2.5: headings of the fifth level below those of the second, names of menus without what they show.
new MutationObserver(() => {
  for (const heading of reference.querySelectorAll("h5:not([aria-level])")) heading.setAttribute("aria-level", "3");
  for (const item of reference.querySelectorAll("[role=menuitem][aria-label]")) item.removeAttribute("aria-label");
}).observe(reference, { childList: true, subtree: true });

Redoc.init("openapi.json", { disableSearch: true, nativeScrollbars: true, theme }, reference, (error) => {
  if (error) reference.textContent = "openapi.json can’t be read now.";
});
