// Beside what htmx does: times in the zone of the browser, keys, the chosen virtual host, and how old the picture is.
"use strict";

(() => {
  const two = (number) => String(number).padStart(2, "0");
  const clock = (date) => [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  const day = (date) => [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  const exact = (date) => `${day(date)} ${clock(date)}`;

  function tell(time) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) return;
    if ("ago" in time.dataset) time.title = exact(date);
    else time.textContent = "clock" in time.dataset ? clock(date) : exact(date);
  }

  // The picture: live where a part of the page is renewed, and how long it has not been.
  const STALE_SECONDS = 20;
  let renewed = Date.now();

  function picture() {
    const place = document.getElementById("picture");
    if (!place) return;
    const isLive = document.querySelector("[hx-trigger*='every']") !== null;
    const seconds = Math.round((Date.now() - renewed) / 1000);
    place.classList.toggle("live", isLive && seconds < STALE_SECONDS);
    place.classList.toggle("stale", isLive && seconds >= STALE_SECONDS);
    const age = `${Math.floor(seconds / 60)}:${two(seconds % 60)} min old`;
    place.querySelector("span").textContent = seconds >= STALE_SECONDS ? `, ${age}` : isLive ? ", live" : "";
  }

  // A part in which somebody marks, writes or opens something stays as it is until that is done.
  function isInUse(part) {
    const active = document.activeElement;
    return (
      part.querySelector("input[type=checkbox]:checked, details[open], dialog[open], :popover-open") !== null ||
      (part.contains(active) && active.matches("input, select, textarea"))
    );
  }

  document.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.detail.elt;
    if (part.getAttribute("hx-trigger")?.includes("every") && isInUse(part)) event.preventDefault();
  });
  document.addEventListener("htmx:afterSwap", () => {
    renewed = Date.now();
  });
  document.addEventListener("htmx:load", (event) => {
    event.detail.elt.querySelectorAll("time").forEach(tell);
    document.querySelectorAll("#picture time").forEach(tell);
    picture();
  });
  setInterval(picture, 1000);

  // A choice that is sent at once.
  document.addEventListener("change", (event) => {
    if ("sends" in event.target.dataset) event.target.form.requestSubmit();
  });

  // `/` searches; the arrows go through what is found, Escape leaves it.
  document.addEventListener("keydown", (event) => {
    const search = document.getElementById("search");
    if (!search || event.ctrlKey || event.metaKey || event.altKey) return;
    const isWriting = document.activeElement.matches("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !isWriting) {
      event.preventDefault();
      search.select();
      return;
    }
    const form = search.form;
    if (!form.contains(document.activeElement)) return;
    const stops = [search, ...form.querySelectorAll("#found a")];
    const at = stops.indexOf(document.activeElement);
    if (event.key === "Escape") {
      search.value = "";
      document.getElementById("found").replaceChildren();
      search.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : stops.length - 1;
      stops[(at + step) % stops.length].focus();
    }
  });
  document.addEventListener("click", (event) => {
    const search = document.getElementById("search");
    if (search && !search.form.contains(event.target)) document.getElementById("found").replaceChildren();
  });
})();
