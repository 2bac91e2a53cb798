// When do fewer regions mean better? Triangles before and after a change of training, and the step that it makes in the
// plane of region count and gap. Everything that is drawn is in the JSON inside the page.
"use strict";

(() => {
  const SIDE = 240;
  const HEIGHT = SIDE * Math.sqrt(0.75);
  const IMAGE = 54;
  const BOX = { left: 46, right: 330, top: 8, bottom: 232 };

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  function make(name, attributes, parent, text) {
    const isDrawing = parent.namespaceURI.endsWith("svg") || name === "svg";
    const made = isDrawing ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  function radios(form, legend, name, names) {
    const fieldset = make("fieldset", {}, form);
    make("legend", {}, fieldset, legend);
    names.forEach((text, value) => {
      const label = make("label", {}, fieldset);
      make("input", { type: "radio", name, value, ...(value ? {} : { checked: "" }) }, label);
      label.append(` ${text}`);
    });
    return fieldset;
  }

  /** The sentence under the pictures: what changes from the first level to the chosen one, and whether as claimed. */
  function sentence(first, now) {
    if (first === now) return "The change begins here: move the slider.";
    const moves = now.count.map((count, seed) => [count - first.count[seed], now.gap[seed] - first.gap[seed]]);
    const [count, gap] = [0, 1].map((k) => mean(moves.map((move) => move[k])));
    const along = count * gap > 0;
    const seeds = moves.filter(([x, y]) => x * y > 0 === along).length;
    const step = (key, digits) => `${mean(first[key]).toFixed(digits)} to ${mean(now[key]).toFixed(digits)}`;
    return `${count < 0 ? "Fewer" : "More"} regions (${step("count", 2)}) and a ${gap < 0 ? "smaller" : "larger"} gap ` +
      `(${step("gap", 3)}): ${along ? "along" : "against"} the claim, in ${seeds} of ${moves.length} seeds.`;
  }

  function drawTriangle(figure, level, triangle, place, labels) {
    const drawn = level.triangles[place];
    const regions = `${drawn.regions} region${drawn.regions === 1 ? "" : "s"}`;
    const svg = figure.querySelector("svg");
    figure.querySelector("figcaption").replaceChildren();
    make("span", {}, figure.querySelector("figcaption"), level.name);
    make("strong", {}, figure.querySelector("figcaption"), regions);
    svg.replaceChildren();
    svg.setAttribute("aria-label", `${level.name}: the triangle between images of ${triangle.classes.join(", ")} has ` +
      `${regions}, predicted ${Object.keys(drawn.paths).map((k) => labels[k].name).join(", ")}.`);
    for (const [label, d] of Object.entries(drawn.paths)) {
      make("title", {}, make("path", { d, fill: labels[label].colour }, svg), labels[label].name);
    }
    [[0, HEIGHT + 4], [SIDE - IMAGE, HEIGHT + 4], [(SIDE - IMAGE) / 2, -IMAGE - 4]].forEach(([x, y], k) => {
      make("image", { x, y, width: IMAGE, height: IMAGE, href: triangle.images[k] }, svg);
      const name = [{ x: 0 }, { x: SIDE, "text-anchor": "end" }, { x: x + IMAGE + 4 }][k];
      make("text", { ...name, y: k < 2 ? y + IMAGE + 17 : y + IMAGE / 2 + 5 }, svg, triangle.classes[k]);
    });
  }

  function plane(svg, data) {
    const points = data.changes.flatMap((change) => change.bases.flatMap((base) => base.levels));
    const range = (key, pad) => {
      const values = points.flatMap((point) => point[key]);
      return [Math.min(...values) - pad, Math.max(...values) + pad];
    };
    const [counts, gaps] = [range("count", 0.1), range("gap", 0.01)];
    const x = (v) => BOX.left + ((v - counts[0]) / (counts[1] - counts[0])) * (BOX.right - BOX.left);
    const y = (v) => BOX.bottom - ((v - gaps[0]) / (gaps[1] - gaps[0])) * (BOX.bottom - BOX.top);
    const at = (level) => [x(mean(level.count)), y(mean(level.gap))];
    const shades = [0, 1].map(() => make("rect", { class: "rc-along" }, svg));
    make("path", { class: "rc-axes", d: `M${BOX.left},${BOX.top}V${BOX.bottom}H${BOX.right}` }, svg);
    for (let v = Math.ceil(counts[0] * 2) / 2; v < counts[1]; v += 0.5) {
      make("text", { x: x(v), y: BOX.bottom + 16, "text-anchor": "middle" }, svg, v.toFixed(1));
    }
    for (let v = Math.ceil(gaps[0] * 20) / 20; v < gaps[1]; v += 0.05) {
      make("text", { x: BOX.left - 5, y: y(v) + 5, "text-anchor": "end" }, svg, v.toFixed(2));
    }
    make("text", { x: (BOX.left + BOX.right) / 2, y: BOX.bottom + 34, "text-anchor": "middle" }, svg, "regions on a segment");
    make("text", { x: BOX.left + 6, y: BOX.top + 10 }, svg, "gap");
    points.map(at).forEach(([cx, cy]) => make("circle", { cx, cy, r: 2.5, class: "rc-other" }, svg));
    const path = make("path", { class: "rc-path" }, svg);
    const seeds = make("g", {}, svg);
    const ring = make("circle", { r: 6, class: "rc-first" }, svg);
    const dot = make("circle", { r: 6, class: "rc-now" }, svg);
    return (levels, now) => {
      const [x0, y0] = at(levels[0]);
      const corners = [[BOX.left, y0, x0 - BOX.left, BOX.bottom - y0], [x0, BOX.top, BOX.right - x0, y0 - BOX.top]];
      corners.forEach((box, k) => ["x", "y", "width", "height"].forEach((key, j) => shades[k].setAttribute(key, box[j])));
      path.setAttribute("d", `M${levels.map(at).join("L")}`);
      seeds.replaceChildren();
      now.count.forEach((v, k) => make("circle", { cx: x(v), cy: y(now.gap[k]), r: 2.5, class: "rc-seed" }, seeds));
      ring.style.transform = `translate(${x0}px, ${y0}px)`;
      dot.style.transform = `translate(${at(now).join("px, ")}px)`;
      const where = (level) => `${mean(level.count).toFixed(2)} regions and a gap of ${mean(level.gap).toFixed(3)}`;
      svg.setAttribute("aria-label", `Plane of regions on a segment and gap. ${levels[0].name}: ${where(levels[0])}. ` +
        `${now.name}: ${where(now)}.`);
    };
  }

  document.querySelectorAll(".rc-changes").forEach((root) => {
    const data = JSON.parse(root.querySelector("script").textContent);
    root.querySelector("p")?.remove();
    const form = make("form", {}, root);
    radios(form, "What is changed", "rc-change", data.changes.map((change) => change.name));
    const bases = radios(form, "At learning rate", "rc-base", data.bases);
    radios(form, "Triangle", "rc-triangle", data.triangles.map((_, k) => k + 1));
    const label = make("label", { class: "rc-level" }, form, "Change ");
    const slider = make("input", { type: "range", min: 0, max: 1, value: 1 }, label);
    const output = make("output", {}, label);
    const panels = make("div", { class: "rc-panels" }, root);
    const figures = ["", "", "rc-plane"].map((name) => make("figure", { class: name }, panels));
    const boxes = ["-2 -60 244 348", "-2 -60 244 348", "0 0 340 270"];
    figures.forEach((figure, k) => {
      make("figcaption", {}, figure);
      make("svg", { viewBox: boxes[k], role: "img", "aria-label": "" }, figure);
    });
    figures[2].querySelector("figcaption").textContent = "Shaded: as the claim says. Grey: other levels. Rings: single seeds";
    const move = plane(figures[2].querySelector("svg"), data);
    const status = make("p", { class: "rc-sentence", role: "status" }, root);
    const note = make("p", { class: "rc-note" }, root);
    const legend = make("ul", { class: "rc-legend", "aria-label": "Colours of the predicted classes" }, root);
    data.labels.forEach(({ name, colour }) => {
      const item = make("li", {}, legend);
      make("span", { style: `background:${colour}` }, item);
      item.append(name);
    });

    const chosen = (name) => Number(form.querySelector(`[name=${name}]:checked`).value);
    let last = -1;
    function show() {
      const change = data.changes[chosen("rc-change")];
      const { levels } = change.bases[Math.min(chosen("rc-base"), change.bases.length - 1)];
      bases.disabled = change.bases.length === 1;
      if (last !== chosen("rc-change")) slider.value = slider.max = levels.length - 1;
      last = chosen("rc-change");
      const now = levels[Number(slider.value)];
      output.textContent = now.name;
      slider.setAttribute("aria-valuetext", now.name);
      [levels[0], now].forEach((level, k) => {
        const place = chosen("rc-triangle");
        drawTriangle(figures[k], level, data.triangles[place], place, data.labels);
      });
      move(levels, now);
      status.textContent = sentence(levels[0], now);
      note.textContent = change.note;
    }
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  });
})();
