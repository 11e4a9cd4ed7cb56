// What a report of `vernier verify` can do beside being read: filter the ledger, walk along the chart.
// Put into the program at build time (cmake/embed.cmake). Everything is on the page without it.
"use strict";

// ---- ledger: #ledger=TEXT in the address searches it, so that a search can be sent to somebody
function ledger() {
  const section = document.getElementById("ledger");
  const search = document.getElementById("ledger-search");
  if (!section || !search) return;
  const rows = Array.from(section.querySelectorAll("tbody tr"), (row) => ({
    row, text: row.textContent.toLowerCase()}));
  const filters = Array.from(section.querySelectorAll("select[data-filter]"));
  const count = document.getElementById("ledger-count");

  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text } of rows) {
      const fits = words.every((word) => text.includes(word)) &&
        filters.every((f) => !f.value || row.dataset[f.dataset.filter] === f.value);
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    count.textContent = `${shown} of ${rows.length} nodes`;
  };
  const remember = () => {
    const hash = search.value ? "#ledger=" + encodeURIComponent(search.value) : "#ledger";
    history.replaceState(null, "", hash);
  };
  const read = () => {
    const found = /^#ledger=(.*)$/.exec(location.hash);
    if (!found) return;
    try {
      search.value = decodeURIComponent(found[1]);
    } catch (error) {
      search.value = found[1];  // a stray % is searched as it stands
    }
    section.scrollIntoView();
    apply();
  };
  section.querySelector(".filters").hidden = false;
  search.addEventListener("input", () => { apply(); remember(); });
  for (const filter of filters) filter.addEventListener("change", apply);
  window.addEventListener("hashchange", read);
  apply();
  read();
}

// ---- error growth: the step under the pointer, or under the cursor that the arrow keys move
function growth() {
  const readout = document.getElementById("growth-readout");
  if (!readout) return;
  for (const chart of document.querySelectorAll(".growth-chart")) walk(chart, readout);
}

function walk(chart, readout) {
  const cursor = chart.querySelector(".cursor");
  const hits = Array.from(chart.querySelectorAll(".hit"));
  let at = -1;

  const show = (index) => {
    at = Math.max(0, Math.min(hits.length - 1, index));
    const hit = hits[at];
    const x = Number(hit.getAttribute("x")) + Number(hit.getAttribute("width")) / 2;
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.classList.add("on");
    readout.textContent = hit.dataset.text;
  };
  hits.forEach((hit, index) => hit.addEventListener("pointerenter", () => show(index)));
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    const end = { Home: 0, End: hits.length - 1 }[event.key];
    if (step === undefined && end === undefined) return;
    event.preventDefault();
    show(end !== undefined ? end : at + step);
  });
}

ledger();
growth();
