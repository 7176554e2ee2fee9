// Dialogs of the page, and its tabs: what HTML alone does not do.
"use strict";

(() => {
  function open(dialog) {
    dialog.showModal();
    htmx.trigger(dialog, "opened"); // what will be lost is counted anew
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-opens]");
    if (button) open(document.getElementById(button.dataset.opens));
  });

  // A form that was refused is shown again; in a dialog, that one opens by itself.
  document.addEventListener("htmx:load", (event) => {
    event.detail.elt.querySelectorAll("dialog[data-failed]").forEach(open);
  });

  // The page of an error is a page, also where a tab was asked for.
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.boosted) location.assign(event.detail.pathInfo.requestPath);
  });

  // All messages of a page are marked by one box, and how many are is said beside what is done with them.
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (!form || !form.querySelector("[data-marks]")) return;
    const boxes = [...form.querySelectorAll("[name=message]")];
    if (event.target.matches("[data-marks]")) boxes.forEach((box) => (box.checked = event.target.checked));
    const marked = boxes.filter((box) => box.checked).length;
    form.querySelector("[data-marked]").textContent = marked;
  });
})();
