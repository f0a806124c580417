// Narrows the sheet to what the pressed buttons name: any of the captioners, and any of the flags.
const buttons = [...document.querySelectorAll("nav button")];
const cards = [...document.querySelectorAll("article")];
const count = document.querySelector("nav output");

function pressed(kind) {
  return buttons.filter((button) => button.ariaPressed === "true" && kind in button.dataset).map((button) => button.dataset[kind]);
}

function narrow() {
  const by = pressed("by"), flags = pressed("flag");
  let shown = 0;
  for (const card of cards) {
    const has = card.dataset.flags.split(" ");
    const fits = (!by.length || by.includes(card.dataset.by)) && (!flags.length || flags.some((flag) => has.includes(flag)));
    card.hidden = !fits;
    shown += fits;
  }
  count.hidden = !by.length && !flags.length;
  count.value = `${shown} of ${cards.length}`;
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    button.ariaPressed = String(button.ariaPressed !== "true");
    narrow();
  });
}
