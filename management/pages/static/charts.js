// Draws the charts of a page, and of each part of it that htmx renews. A chart's latest figures are text beside it;
// where the pointer is, they are those of that time.
"use strict";

(() => {
  const HEIGHT = 190;
  // Lines differ by more than their colour.
  const DASHES = { in: [], ready: [], out: [7, 4], unacked: [7, 4], ack: [2, 3] };
  const DAY_SECONDS = 86400;

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  const two = (number) => String(number).padStart(2, "0");

  function clock(seconds) {
    const date = new Date(seconds * 1000);
    return `${two(date.getHours())}:${two(date.getMinutes())}`;
  }

  // Three digits and a unit, as in the texts of the page.
  function short(value, unit) {
    const units = unit === "octet_rate" ? ["B", "kB", "MB", "GB", "TB"] : ["", "k", "M", "G", "T"];
    let at = 0;
    while (Math.abs(value) >= 999.5 && at < units.length - 1) {
      value /= 1000;
      at += 1;
    }
    const digits = at === 0 && unit === "count" ? 0 : Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
    const text = value.toFixed(digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
    return `${text} ${units[at]}`.trim();
  }

  function told(value, unit) {
    if (value === null) return "–";
    if (unit === "count") return Math.round(value).toLocaleString("en");
    return value ? `${short(value, unit)}/s` : "0";
  }

  // The figures of the keys: of a time, or again the latest ones.
  function tell(place, data, at) {
    const keys = place.parentElement.querySelectorAll(".key b");
    const time = place.parentElement.querySelector(".chart-time");
    time.textContent = at === null ? "" : `at ${clock(data.times[at])}`;
    keys.forEach((key, number) => {
      key.dataset.latest ??= key.textContent;
      key.textContent = at === null ? key.dataset.latest : told(data.series[number].values[at], data.unit);
    });
  }

  function draw(place) {
    const data = JSON.parse(place.dataset.chart);
    const { times, series, unit } = data;
    // Before the node began nothing is known.
    const began = Number(document.querySelector("[data-began]").dataset.began);
    for (const each of series) each.values = each.values.map((value, at) => (times[at] < began ? null : value));
    const axis = {
      stroke: colour("--ink-3"),
      font: `11px ${colour("--sans")}`,
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false },
    };
    const lines = series.map((each, at) => ({
      fill: at === 0 ? `${colour(`--${each.colour}`)}1c` : undefined, // tokens of colours are six hex digits
      stroke: colour(`--${each.colour}`),
      dash: DASHES[each.colour],
      width: 2,
      points: { show: each.values.filter((value) => value !== null).length < 3, size: 6 }, // too few for a line
    }));
    const most = Math.max(0, ...series.flatMap((each) => each.values));
    const options = {
      width: place.clientWidth,
      height: HEIGHT,
      padding: [8, 10, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 7 }, drag: { setScale: false, x: false, y: false } },
      scales: { y: { range: () => [0, Math.max(most * 1.08, 1)] } },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 24,
          gap: 6,
          space: 70,
          incrs: [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, DAY_SECONDS],
          values: (_, ticks) => ticks.map(clock),
        },
        { ...axis, size: 52, space: 36, values: (_, ticks) => ticks.map((tick) => short(tick, unit)) },
      ],
      series: [{}, ...lines],
      hooks: { setCursor: [(plot) => tell(place, data, plot.cursor.idx ?? null)] },
    };
    const plot = new uPlot(options, [times, ...series.map((each) => each.values)], place);
    new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
  }

  document.addEventListener("htmx:load", (event) => {
    event.detail.elt.querySelectorAll("[data-chart]").forEach(draw);
  });
})();
