// Pages stay up to date: when there is news, the page is fetched again and the parts that changed are replaced.
// Without this script a page is whole, and as old as its last reload.
"use strict";

(() => {
  const main = document.querySelector("main[data-events]");
  if (!main || !window.fetch || !window.EventSource) return;
  const POLL = 15000; // milliseconds, where events cannot be had
  let fetching = false;
  let again = false;

  // What the reader has opened stays open; where the reader is, nothing is taken away from under the cursor.
  const replace = (old, fresh) => {
    for (const details of old.querySelectorAll("details[open][id]")) {
      const twin = fresh.querySelector(`#${CSS.escape(details.id)}`);
      if (twin) twin.open = true;
    }
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const place = focused ? [...old.querySelectorAll("a, button, summary, [tabindex]")].indexOf(focused) : -1;
    old.replaceWith(fresh);
    if (place >= 0) [...fresh.querySelectorAll("a, button, summary, [tabindex]")][place]?.focus({ preventScroll: true });
  };

  const update = async () => {
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      let changed = false;
      for (const part of fresh.querySelectorAll("[data-live][id]")) {
        const old = document.getElementById(part.id);
        if (!old || old.outerHTML === part.outerHTML) continue;
        replace(old, document.adoptNode(part));
        changed = true;
      }
      if (changed) document.getElementById("news").textContent = `Updated at ${new Date().toLocaleTimeString()}.`;
    } catch {
      // the next news will do
    } finally {
      fetching = false;
      if (again) {
        again = false;
        update();
      }
    }
  };

  const events = new EventSource(main.dataset.events);
  events.addEventListener("news", update);
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) setInterval(update, POLL);
  });
  window.addEventListener("pagehide", () => events.close());
})();
