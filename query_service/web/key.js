// Who asks, where a service wants to know: one who has signed in, or a key, kept for this tab alone and sent with each request.

const NAME = "inset-key";
const $ = (id) => document.getElementById(id);

const key = () => sessionStorage.getItem(NAME);

export const withKey = (options = {}) =>
  (key() ? { ...options, headers: { ...options.headers, authorization: `Bearer ${key()}` } } : options);

// Shows who has signed in.
export async function drawUser() {
  const { name } = await session();
  $("user").hidden = !name;
  $("user-name").textContent = name ?? "";
}

const session = async () => {
  try { return await (await fetch("session")).json(); } catch { return { name: null, signs_in: false, takes_keys: true }; }
};

$("sign-out").addEventListener("click", async () => {
  await fetch("sign-out", { method: "POST" });
  location.reload();
});

// Offers to sign in, or shows the form, and goes on once a key is given. why says what is wrong with the key that was sent.
export async function askWho(why, goOn) {
  const { signs_in: signsIn, takes_keys: takesKeys } = await session();
  $("key-why").textContent = key() ? why : "";
  sessionStorage.removeItem(NAME);
  $("user").hidden = true;
  $("sign-in").hidden = !signsIn;
  $("sign-in-link").href = `sign-in?${new URLSearchParams({ page: location.pathname + location.search })}`;
  $("key").hidden = signsIn && !takesKeys;
  $("ask").hidden = true;
  $(signsIn ? "sign-in-link" : "key-text").focus();
  $("key").onsubmit = (event) => {
    event.preventDefault();
    const given = $("key-text").value.trim();
    if (!/^[\x21-\x7e]+$/.test(given)) return; // what a header can hold
    sessionStorage.setItem(NAME, given);
    $("key-text").value = "";
    $("key").hidden = $("sign-in").hidden = true;
    $("ask").hidden = false;
    goOn();
  };
}

async function fetched(address) {
  const answered = await fetch(address, withKey());
  if (!answered.ok) throw new Error(`The service answered ${answered.status}.`);
  return URL.createObjectURL(await answered.blob());
}

// An image element sends no key: if it fails, it is fetched with the key. Lazy loading stays the browser's.
const tried = new WeakMap();
document.addEventListener("error", async (event) => {
  const image = event.target;
  const address = image.src;
  if (!key() || image.tagName !== "IMG" || !address.includes("/v1/corpora/") || tried.get(image) === address) return;
  event.stopImmediatePropagation(); // not yet an error to others
  tried.set(image, address);
  try {
    const picture = await fetched(address);
    if (image.src !== address) return URL.revokeObjectURL(picture);
    image.addEventListener("load", () => URL.revokeObjectURL(picture), { once: true });
    image.src = picture;
  } catch {
    if (image.src === address) image.dispatchEvent(new Event("error"));
  }
}, true);

// Nor does a link.
document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("a[target=_blank]");
  if (!key() || !link?.pathname.includes("/v1/corpora/")) return;
  event.preventDefault();
  const { href, hash } = link;
  try {
    open(`${await fetched(href.split("#")[0])}${hash}`);
  } catch (error) {
    $("status-answer").textContent = error.message;
  }
}, true);
