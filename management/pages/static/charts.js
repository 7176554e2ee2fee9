// Draws the charts of a page, and of each part of it that htmx renews. A chart's latest figures are text beside it.
"use strict";

(() => {
  const HEIGHT = 180;
  const DASHES = [[], [8, 4], [2, 3]]; // lines differ by more than their colour

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function minute(seconds) {
    return new Date(seconds * 1000).toISOString().slice(11, 16); // UTC, as all times of the page
  }

  function draw(place) {
    const { times, series } = JSON.parse(place.dataset.chart);
    const axis = {
      stroke: colour("--ink-2"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
    };
    const lines = series.map((each, at) => ({
      label: each.label,
      stroke: colour(`--series-${at + 1}`),
      dash: DASHES[at],
      width: 2,
      points: { show: false },
    }));
    const options = {
      width: place.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (_, __, most) => [0, Math.max(most, 1) * 1.05] } },
      axes: [
        { ...axis, size: 30, incrs: [60, 120, 300], values: (_, ticks) => ticks.map(minute) },
        { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) },
      ],
      series: [{}, ...lines],
    };
    const plot = new uPlot(options, [times, ...series.map((each) => each.values)], place);
    new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
  }

  document.addEventListener("htmx:load", (event) => {
    event.detail.elt.querySelectorAll("[data-chart]").forEach(draw);
  });
})();
