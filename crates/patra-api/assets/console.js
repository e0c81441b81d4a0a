// Reloads live pages whenever the server reports a change. Everything works without this script.
"use strict";

const live = () => document.querySelector("main[data-live]");

// Whether the user is filling in a form, which a reload would clear.
const busy = () => {
  const at = document.activeElement;
  return at && live()?.contains(at) && at.matches("input, textarea, select");
};

let again = false;
let loading = false;

async function reload() {
  if (loading || busy() || document.hidden) {
    again = true;
    return;
  }
  loading = true;
  again = false;
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.querySelector("main[data-live]");
    const old = live();
    // The server sends a notice only once, so it stays until the user leaves the page.
    const notice = old?.querySelector(":scope > [role=status]");
    if (!fresh || !old || busy()) return;
    if (notice) fresh.querySelector("h1")?.after(notice);
    const focused = document.activeElement?.getAttribute("href");
    old.replaceChildren(...fresh.childNodes);
    if (focused && document.activeElement === document.body) old.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  } finally {
    loading = false;
    if (again) setTimeout(reload, 1000);
  }
}

if (live() && "EventSource" in window) {
  const events = new EventSource("/live");
  events.addEventListener("changed", reload);
  for (const moment of ["visibilitychange", "focusout"]) document.addEventListener(moment, () => again && reload());
  window.addEventListener("pagehide", () => events.close());
}

// Actions that cannot be undone need a confirmation.
document.addEventListener("submit", (event) => {
  const button = event.target.querySelector("button.final");
  if (button && !window.confirm(`${button.textContent.trim()}? This cannot be undone.\n\n${button.title}`)) event.preventDefault();
});
