// Renews pages that say that they are live, whenever the server tells that something has changed. Everything works without it.
"use strict";

const live = () => document.querySelector("main[data-live]");

// What somebody is about to fill in or has opened is left alone.
const busy = () => {
  const at = document.activeElement;
  return at && live()?.contains(at) && at.matches("input, textarea, select");
};

let again = false;
let asking = false;

async function renew() {
  if (asking || busy() || document.hidden) {
    again = true;
    return;
  }
  asking = true;
  again = false;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("main[data-live]");
    const old = live();
    // A notice is told once: what the server no longer says stays until the page is left.
    const notice = old?.querySelector(":scope > [role=status]");
    if (!fresh || !old || busy()) return;
    if (notice) fresh.querySelector("h1")?.after(notice);
    const focused = document.activeElement?.getAttribute("href");
    old.replaceChildren(...fresh.childNodes);
    if (focused && document.activeElement === document.body) old.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  } finally {
    asking = false;
    if (again) setTimeout(renew, 1000);
  }
}

if (live() && "EventSource" in window) {
  const events = new EventSource("/live");
  events.addEventListener("changed", renew);
  for (const moment of ["visibilitychange", "focusout"]) document.addEventListener(moment, () => again && renew());
  window.addEventListener("pagehide", () => events.close());
}

// What cannot be taken back is asked for twice.
document.addEventListener("submit", (event) => {
  const button = event.target.querySelector("button.final");
  if (button && !window.confirm(`${button.textContent.trim()}? This cannot be taken back.\n\n${button.title}`)) event.preventDefault();
});
