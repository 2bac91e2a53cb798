// Draws the explorer that rc_studies.explorer writes: labels on a triangular lattice as hexagons, one picture a run.
"use strict";

(() => {
  // Lengths in the units of the pictures' viewBox.
  const SIDE = 60;
  const HEIGHT = SIDE * Math.sqrt(0.75);
  const CORNERS = [[0, HEIGHT], [SIDE, HEIGHT], [SIDE / 2, 0]];
  const IMAGE = 14;
  const VIEW_BOX = "-11 -16 82 89";
  // Corners of the hexagon around a point; between corners k and k + 1 lies the neighbour STEPS[k].
  const HEXAGON = [0, 1, 2, 3, 4, 5].map((k) => {
    const angle = ((2 * k - 1) * Math.PI) / 6;
    return [Math.cos(angle) / Math.sqrt(3), Math.sin(angle) / Math.sqrt(3)];
  });
  // Steps in the weights of the second and third corner, anticlockwise from the right; y points up here.
  const STEPS = [[1, 0], [0, 1], [-1, 1], [-1, 0], [0, -1], [1, -1]];

  const element = (name, attributes, parent) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };

  /** The points of a lattice in the order of its labels, and a function from weights to the position in that order. */
  function lattice(resolution) {
    const points = [];
    const starts = [];
    for (let i = 0; i < resolution; i++) {
      starts.push(points.length);
      for (let j = 0; j < resolution - i; j++) points.push([i, j]);
    }
    const at = (i, j) => (i < 0 || j < 0 || i + j >= resolution ? -1 : starts[i] + j);
    return { points, at, step: SIDE / (resolution - 1) };
  }

  /** SVG paths: one filled path a class, and the lines between cells of different label. */
  function paths({ points, at, step }, labels) {
    const cells = {};
    let lines = "";
    points.forEach(([i, j], index) => {
      const label = labels[index];
      const [x, y] = [(i + j / 2) * step, HEIGHT - j * Math.sqrt(0.75) * step];
      const corners = HEXAGON.map(([u, v]) => `${(x + u * step).toFixed(2)} ${(y - v * step).toFixed(2)}`);
      cells[label] = `${cells[label] ?? ""}M${corners.join("L")}Z`;
      for (let k = 0; k < 3; k++) {
        const other = at(i + STEPS[k][0], j + STEPS[k][1]);
        if (other >= 0 && labels[other] !== label) lines += `M${corners[k]}L${corners[k + 1]}`;
      }
    });
    return { cells, lines };
  }

  function draw(svg, data, grid, labels, triangle, clip) {
    svg.replaceChildren();
    const outline = CORNERS.map((corner) => corner.join(",")).join(" ");
    element("polygon", { points: outline }, element("clipPath", { id: clip }, svg));
    const inside = element("g", { "clip-path": `url(#${clip})` }, svg);
    const { cells, lines } = paths(grid, labels);
    for (const [label, d] of Object.entries(cells)) {
      const { colour } = data.classes[label];
      element("path", { d, fill: colour, stroke: colour, "stroke-width": 0.15 }, inside);
    }
    element("path", { d: lines, class: "rc-border" }, inside);
    element("polygon", { points: outline, class: "rc-outline" }, svg);
    CORNERS.forEach(([x, y], k) => {
      const isTop = k === 2;
      const edge = isTop ? y - IMAGE - 1 : y + 1.5;
      const frame = { x: x - IMAGE / 2, y: edge, width: IMAGE, height: IMAGE };
      element("image", { ...frame, href: triangle.images[k], preserveAspectRatio: "none" }, svg);
      const beside = { x: x + IMAGE / 2 + 1.5, y: edge + IMAGE / 2 + 1.2 };
      const below = { x, y: edge + IMAGE + 4.5, "text-anchor": "middle" };
      element("text", isTop ? beside : below, svg).textContent = data.classes[triangle.classes[k]].name;
    });
  }

  const regions = (count) => `${count} region${count === 1 ? "" : "s"}`;

  /** What a picture shows, in words. */
  function description(data, labels, triangle, count) {
    const shares = new Map();
    for (const label of labels) shares.set(label, (shares.get(label) ?? 0) + 100 / labels.length);
    const parts = [...shares].sort((a, b) => b[1] - a[1])
      .map(([label, share]) => `${data.classes[label].name} ${share < 1 ? "under 1" : Math.round(share)} %`);
    const [left, right, top] = triangle.classes.map((k) => data.classes[k].name);
    return `Triangle with the images ${left} at the bottom left, ${right} at the bottom right and ${top} at the top: ` +
      `${regions(count)}; predicted ${parts.join(", ")} of the area.`;
  }

  const text = (words) => new Option(words).innerHTML;

  /** Controls, panels and legend as HTML. */
  function parts(data) {
    const names = data.triangles.map(({ classes }) => text(classes.map((k) => data.classes[k].name).join(", ")));
    const radios = names.map((name, t) =>
      `<label><input type="radio" name="rc-triangle" value="${t}"${t ? "" : " checked"}> ${t + 1}: ${name}</label>`);
    const last = data.epochs.length - 1;
    const panels = data.runs.map(({ name }) => `<figure><figcaption><span>${text(name)}</span> <strong></strong>` +
      `</figcaption><svg viewBox="${VIEW_BOX}" role="img" aria-label=""></svg><p></p></figure>`);
    const legend = data.classes.map(({ name, colour }) => `<li><span style="background:${colour}"></span>${text(name)}</li>`);
    return `<form><fieldset><legend>Triangle</legend>${radios.join("")}</fieldset><button type="button">Play</button>` +
      '<label class="rc-epoch"><span>Epoch <output></output></span>' +
      `<input type="range" aria-label="Epoch" min="0" max="${last}" value="${last}"></label></form>` +
      `<div class="rc-panels">${panels.join("")}</div><p class="rc-status" role="status"></p>` +
      `<ul class="rc-legend" aria-label="Colours of the predicted classes"><li>predicted class:</li>${legend.join("")}</ul>`;
  }

  function start(root, number) {
    const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    root.querySelector(".rc-explorer-off").outerHTML = parts(data);
    const grid = lattice(data.resolution);
    const runs = data.runs.map((run) => ({ ...run, labels: Uint8Array.from(atob(run.labels), (c) => c.charCodeAt(0)) }));
    const form = root.querySelector("form");
    const slider = form.querySelector("input[type=range]");
    const figures = [...root.querySelectorAll(".rc-panels figure")];

    function show() {
      const t = Number(form.querySelector("input[type=radio]:checked").value);
      const e = Number(slider.value);
      const epoch = `${data.epochs[e]} of ${data.epochs.at(-1)}`;
      form.querySelector("output").textContent = epoch;
      slider.setAttribute("aria-valuetext", `epoch ${epoch}`);
      runs.forEach((run, r) => {
        const size = grid.points.length;
        const first = (t * data.epochs.length + e) * size;
        const labels = run.labels.subarray(first, first + size);
        const svg = figures[r].querySelector("svg");
        draw(svg, data, grid, labels, data.triangles[t], `rc-clip-${number}-${r}`);
        svg.setAttribute("aria-label", description(data, labels, data.triangles[t], run.counts[t][e]));
        figures[r].querySelector("strong").textContent = regions(run.counts[t][e]);
        figures[r].querySelector("p").textContent = run.notes[e];
      });
      const counts = runs.map((run) => `${regions(run.counts[t][e])} with ${run.name}`);
      root.querySelector(".rc-status").textContent = `Triangle ${t + 1}, epoch ${epoch}: ${counts.join(", ")}.`;
    }

    const button = form.querySelector("button");
    let timer = 0;

    function stop() {
      clearInterval(timer);
      timer = 0;
      button.textContent = "Play";
    }

    function step() {
      if (slider.value === slider.max) stop();
      else {
        slider.value = Number(slider.value) + 1;
        show();
      }
    }

    button.addEventListener("click", () => {
      if (timer) {
        stop();
        return;
      }
      if (slider.value === slider.max) slider.value = 0;
      button.textContent = "Pause";
      timer = setInterval(step, 800);
      show();
    });
    form.addEventListener("input", (event) => {
      if (event.target === slider) stop();
      show();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  }

  const startAll = () => document.querySelectorAll(".rc-explorer").forEach(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
  else startAll();
})();
