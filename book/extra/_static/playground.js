// Trains two-layer ReLU networks on points of the plane and counts their regions exactly. Its page is book/playground.md.
// The first half computes and knows nothing of the page: `rcPlayground`, for tests and for the console of a browser.
"use strict";

(() => {
  // Narrower regions are rounding, as in rc_utils.exact_segment.
  const REGION_TOLERANCE = 1e-12;
  // A loss this many times the first one is divergence, as in rc_theory.two_layer.
  const DIVERGED = 1e4;
  // Half the loss of f = 0. A network above it has not learned its points, often since its neurons died: few regions mean nothing.
  const LEARNED = 0.25;

  /** Uniform numbers in [0, 1) that depend on `seed` alone: a counter, hashed. */
  function generator(seed) {
    let counter = Math.imul(seed | 0, 0x9e3779b1) | 0;
    return () => {
      counter = (counter + 0x6d2b79f5) | 0;
      let mixed = Math.imul(counter ^ (counter >>> 16), 0x85ebca6b);
      mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
      return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
    };
  }

  function normal(uniform) {
    return Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  }

  /** f(x) = sum_j a_j relu(w_j . (x, 1)): `weights` (w, w, bias) of one neuron after the other, `signs` a_j = +-1. */
  function randomNetwork(width, seed) {
    const uniform = generator(seed);
    const weights = Float64Array.from({ length: 3 * width }, () => normal(uniform) / Math.sqrt(3));
    const signs = Float64Array.from({ length: width }, () => (uniform() < 0.5 ? -1 : 1));
    return { weights, signs };
  }

  /** w_j . (x, 1) of every neuron j. */
  function inputsOf({ weights, signs }, [x, y]) {
    return signs.map((_, j) => weights[3 * j] * x + weights[3 * j + 1] * y + weights[3 * j + 2]);
  }

  function output(network, point) {
    return inputsOf(network, point).reduce((sum, input, j) => sum + network.signs[j] * Math.max(input, 0), 0);
  }

  /** f on a segment, from the inputs u and v of all neurons at its ends: where f bends, and its values there. */
  function bendsOf(u, v, signs) {
    const bends = [];
    let value = 0, slope = 0, size = 0;
    for (let j = 0; j < signs.length; j++) {
      size += Math.abs(u[j]) + Math.abs(v[j]);
      if (u[j] > 0) {
        value += signs[j] * u[j];
        slope += signs[j] * (v[j] - u[j]);
      }
      if (u[j] > 0 !== v[j] > 0) bends.push([u[j] / (u[j] - v[j]), signs[j] * Math.abs(v[j] - u[j])]);
    }
    bends.sort((one, other) => one[0] - other[0]);
    const at = [0], values = [value];
    for (const [place, rise] of [...bends, [1, 0]]) {
      value += slope * (place - at[at.length - 1]);
      at.push(place);
      values.push(value);
      slope += rise;
    }
    return { at, values, rounding: 4 * Number.EPSILON * signs.length * size };
  }

  /** The regions of the label [f > 0]: between two bends f is a line, and has one zero where its sign changes. */
  function regionsOf({ at, values, rounding }) {
    const boundaries = [];
    for (let k = 1; k < at.length; k++) {
      const [before, after] = [values[k - 1], values[k]];
      if (before > rounding === after > rounding) continue;
      const share = Math.min(1, Math.max(0, before / (before - after)));
      const place = at[k - 1] + share * (at[k] - at[k - 1]);
      if (boundaries.length && place - boundaries[boundaries.length - 1] < REGION_TOLERANCE) boundaries.pop();
      else boundaries.push(place);
    }
    return { boundaries, first: values[0] > rounding, count: boundaries.length + 1 };
  }

  /** f at the middles of `size` pixels of the row at height y: each neuron is active on one part of a row. */
  function valuesOfRow({ weights, signs }, y, size) {
    const offsets = new Float64Array(size + 1), slopes = new Float64Array(size + 1), values = new Float64Array(size);
    for (let j = 0; j < signs.length; j++) {
      const first = weights[3 * j] * (1 / size - 1) + weights[3 * j + 1] * y + weights[3 * j + 2];
      const step = (weights[3 * j] * 2) / size;
      const turn = Math.min(size, Math.max(0, step ? Math.ceil(-first / step) : 0));
      const [from, to] = step > 0 ? [turn, size] : step < 0 ? [0, turn] : [0, first > 0 ? size : 0];
      offsets[from] += signs[j] * first;
      slopes[from] += signs[j] * step;
      offsets[to] -= signs[j] * first;
      slopes[to] -= signs[j] * step;
    }
    for (let column = 0, offset = 0, slope = 0; column < size; column++) {
      offset += offsets[column];
      slope += slopes[column];
      values[column] = offset + slope * column;
    }
    return values;
  }

  /** Exact regions on the segment from `start` to `end`: boundaries in (0, 1), label of the first region, count. */
  function segment(network, start, end) {
    const bends = bendsOf(inputsOf(network, start), inputsOf(network, end), network.signs);
    return { ...regionsOf(bends), at: bends.at, values: bends.values };
  }

  /** The mean count over all N^2 ordered pairs of points: the left side of Theorem 6. */
  function meanCount(network, points) {
    const inputs = points.map((point) => inputsOf(network, point));
    let sum = points.length;
    for (let i = 0; i < points.length; i++) {
      for (let k = 0; k < i; k++) sum += 2 * regionsOf(bendsOf(inputs[i], inputs[k], network.signs)).count;
    }
    return sum / points.length ** 2;
  }

  /** Largest eigenvalue of the Hessian of L = 1/(2N) sum_i (y_i - f(x_i))^2, by power iteration on an N x N matrix. */
  function sharpness(network, points) {
    const number = points.length;
    const inputs = points.map((point) => inputsOf(network, point));
    const gram = points.map(([x, y], i) => points.map(([s, t], k) => {
      let shared = 0;
      for (let j = 0; j < network.signs.length; j++) shared += inputs[i][j] > 0 && inputs[k][j] > 0;
      return ((x * s + y * t + 1) * shared) / number;
    }));
    let vector = points.map((_, i) => 1 + (i % 7) / 7), value = 0;
    for (let round = 0; round < 500; round++) {
      const next = gram.map((row) => row.reduce((sum, entry, k) => sum + entry * vector[k], 0));
      const length = Math.hypot(...next);
      if (length === 0) return 0;
      const before = value;
      value = length / Math.hypot(...vector);
      vector = next.map((entry) => entry / length);
      if (Math.abs(value - before) < 1e-10 * value) break;
    }
    return value;
  }

  /** Theorem 6: the mean count is at most 2 N lambda / r^2 + 2; r is the smallest norm of a point (x, 1). */
  function bound(points, lambda) {
    const r2 = Math.min(...points.map(([x, y]) => x * x + y * y + 1));
    return (2 * points.length * lambda) / r2 + 2;
  }

  function loss(network, points, targets) {
    const sum = points.reduce((total, point, i) => total + (output(network, point) - targets[i]) ** 2, 0);
    return sum / (2 * points.length);
  }

  function fitted(network, points, targets) {
    return points.filter((point, i) => output(network, point) > 0 === targets[i] > 0).length;
  }

  /** One step of gradient descent on the points with the indices `batch`, in place. */
  function descend({ weights, signs }, points, targets, batch, lr) {
    const change = new Float64Array(weights.length), inputs = new Float64Array(signs.length);
    for (const i of batch) {
      const [x, y] = points[i];
      let residual = -targets[i];
      for (let j = 0; j < signs.length; j++) {
        inputs[j] = weights[3 * j] * x + weights[3 * j + 1] * y + weights[3 * j + 2];
        if (inputs[j] > 0) residual += signs[j] * inputs[j];
      }
      const rate = (lr * residual) / batch.length;
      for (let j = 0; j < signs.length; j++) {
        if (inputs[j] <= 0) continue;
        change[3 * j] += rate * signs[j] * x;
        change[3 * j + 1] += rate * signs[j] * y;
        change[3 * j + 2] += rate * signs[j];
      }
    }
    for (let k = 0; k < weights.length; k++) weights[k] -= change[k];
  }

  const LABELLINGS = {
    disc: (x, y) => x * x + y * y < 0.45,
    quadrants: (x, y) => x * y > 0,
    random: (x, y, uniform) => uniform() < 0.5,
    line: (x, y, uniform, i) => i % 2 === 0,
  };

  /** `number` points of the square [-1, 1]^2 with targets +-1, each flipped with probability `noise`. */
  function trainingSet(kind, number, noise, seed) {
    const uniform = generator(seed + 0x51ed);
    const spread = () => 1.8 * uniform() - 0.9;
    const onLine = (i) => [(1.8 * (i + 0.5)) / number - 0.9, 0];
    const points = Array.from({ length: number }, (_, i) => (kind === "line" ? onLine(i) : [spread(), spread()]));
    const targets = points.map(([x, y], i) => (LABELLINGS[kind](x, y, uniform, i) ? 1 : -1));
    // All draws are made whatever the noise is: a larger one flips the same points and more.
    return { points, targets: targets.map((target) => (uniform() < noise ? -target : target)) };
  }

  /** A network in training. `history` has {step, loss, count, lambda} at steps that grow by a twentieth, and where it rests. */
  class Training {
    constructor({ kind, number, noise, width, batch, seed }, lr) {
      Object.assign(this, trainingSet(kind, number, noise, seed), { lr, step: 0, history: [], diverged: false });
      this.network = randomNetwork(width, seed);
      this.batch = Math.min(batch || number, number);
      this.uniform = generator(seed + 0xba7c);
      this.waiting = [];
      this.record();
    }

    /** The indices of the next batch: every point once before any comes again. */
    draw() {
      if (this.waiting.length < this.batch) {
        this.waiting = this.points.map((_, i) => i);
        for (let i = this.waiting.length - 1; i > 0; i--) {
          const k = Math.floor(this.uniform() * (i + 1));
          [this.waiting[i], this.waiting[k]] = [this.waiting[k], this.waiting[i]];
        }
      }
      return this.waiting.splice(0, this.batch);
    }

    advance() {
      if (this.diverged) return;
      descend(this.network, this.points, this.targets, this.draw(), this.lr);
      this.step += 1;
      if (this.step >= this.next) this.record();
    }

    /** The loss, count and sharpness of this step: `recorded`, to which all that is shown as numbers belongs. */
    record() {
      this.next = Math.ceil((this.step + 1) * 1.05);
      this.loss = loss(this.network, this.points, this.targets);
      const limit = DIVERGED * (this.history[0] ?? this).loss;
      this.diverged = !(this.loss <= limit);
      if (this.diverged) return;
      this.recorded = this.step;
      this.fitted = fitted(this.network, this.points, this.targets);
      this.count = meanCount(this.network, this.points);
      this.lambda = sharpness(this.network, this.points);
      this.history.push({ step: this.step, loss: this.loss, count: this.count, lambda: this.lambda });
    }

    /** Record the present step, where that has not been done. */
    rest() {
      if (this.recorded !== this.step && !this.diverged) this.record();
    }
  }

  /** The counts of two trainings where each first had a loss that both have reached; null where that is the first. */
  function atEqualLoss(one, other) {
    const least = (training) => Math.min(...training.history.map((point) => point.loss));
    const level = Math.max(least(one), least(other));
    const [first, second] = [one, other].map((t) => t.history.find((point) => point.loss <= level));
    return first.step && second.step ? { loss: level, counts: [first.count, second.count] } : null;
  }

  const shown = (count) => count.toFixed(2);
  const rateText = (lr) => String(Number(lr.toPrecision(2)));

  /** Whether the larger learning rate has fewer regions, in words; counts are compared as they are shown. */
  function claimText(larger, smaller) {
    if (Number(shown(larger)) < Number(shown(smaller))) return "As claimed.";
    const than = shown(larger) === shown(smaller) ? "as many regions as the smaller one" : "more regions, not fewer";
    return `The claim does not show: the larger learning rate has ${than}.`;
  }

  /** What two trainings say about the claim: sentences. */
  function verdict(one, other) {
    if (one.lr === other.lr) return ["Both learning rates are the same: choose two to compare."];
    const gone = [one, other].filter((training) => training.diverged);
    if (gone.length) {
      const rates = gone.map((training) => rateText(training.lr)).join(" and ");
      return [`The training with learning rate ${rates} diverged, so there is nothing to compare. Choose a smaller one.`];
    }
    if (!one.recorded) return ["Both networks begin with the same weights. Start the training."];
    const behind = [one, other].filter((training) => training.loss > LEARNED);
    if (behind.length) {
      const rates = behind.map((training) => rateText(training.lr)).join(" and ");
      return [`With learning rate ${rates} the loss is above ${LEARNED}, half that of f = 0: too little is learned so far to compare regions.`];
    }
    const [larger, smaller] = one.lr > other.lr ? [one, other] : [other, one];
    const numbers = ([many, few]) =>
      `${shown(many)} regions with learning rate ${rateText(larger.lr)}, ${shown(few)} with ${rateText(smaller.lr)}.`;
    const sentences = [`After ${one.recorded.toLocaleString("en")} steps: ${numbers([larger.count, smaller.count])}`];
    sentences[0] += ` ${claimText(larger.count, smaller.count)}`;
    const equal = atEqualLoss(larger, smaller);
    if (equal) sentences.push(`At equal loss (${equal.loss.toPrecision(2)}): ${numbers(equal.counts)} ${claimText(...equal.counts)}`);
    return sentences;
  }

  const library = {
    generator, randomNetwork, output, valuesOfRow, segment, meanCount, sharpness, bound, loss, descend, trainingSet, Training,
    atEqualLoss, verdict,
  };
  if (typeof module === "object") module.exports = library;
  if (typeof document === "undefined") return;
  window.rcPlayground = library;
  library.playgrounds = []; // the state of each on the page

  // From here on: the page.

  const COLOURS = {
    light: { text: "#222832", muted: "#5a6270", back: [255, 255, 255], networks: ["#0b6b50", "#8a3a80"] },
    dark: { text: "#e8eaed", muted: "#a9b1bd", back: [20, 24, 30], networks: ["#4fd6a8", "#e79bd8"] },
    classes: { true: [0, 114, 178], false: [230, 159, 0] },
  };
  // Pixels along a side of a picture, and milliseconds of a frame that training may take.
  const PIXELS = 180, BUDGET = 7;
  const SEEDS = 20, SEED_STEPS = 2000;

  function start(root) {
    const find = (name) => root.querySelector(`[data-rc="${name}"]`);
    const all = (name) => [...root.querySelectorAll(`[data-rc="${name}"]`)];
    const control = Object.fromEntries([...root.querySelectorAll("[name]")].map((input) => [input.name, input]));
    const state = { ends: [[-0.85, -0.7], [0.85, 0.6]], running: false, trainings: [], comparison: null, written: 0, waiting: 0 };
    const theme = () => {
      const chosen = document.documentElement.dataset.theme;
      const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      return COLOURS[dark ? "dark" : "light"];
    };
    const css = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`;
    const rates = () => [control.lrA, control.lrB].map((input) => 10 ** Number(input.value));
    const settings = () => ({
      kind: control.kind.value,
      number: Number(control.number.value),
      noise: Number(control.noise.value) / 100,
      width: Number(control.width.value),
      batch: Number(control.batch.value),
      seed: seedOf(control.seed),
    });

    /** The whole number in a field, within the field's own limits; what stands there is written back. */
    function seedOf(field) {
      const seed = Math.min(Math.max(Math.trunc(Number(field.value)) || 0, Number(field.min)), Number(field.max));
      if (field.value !== "" && field.value !== String(seed)) field.value = seed;
      return seed;
    }

    /** One loop at most, whoever asks for it. */
    function animate() {
      if (!state.waiting) state.waiting = requestAnimationFrame(frame);
    }

    function reset() {
      state.running = false;
      state.comparison = null;
      state.trainings = rates().map((lr) => new Training(settings(), lr));
      find("seeds").textContent = "";
      refresh();
    }

    /** A drawing context whose units are CSS pixels. */
    function paper(canvas) {
      const [width, height] = [canvas.clientWidth, canvas.clientHeight];
      const ratio = window.devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
      }
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      context.font = "12px system-ui, sans-serif";
      return { context, width, height };
    }

    const scratch = document.createElement("canvas");

    function paintRegions({ network }, canvas) {
      scratch.width = scratch.height = PIXELS;
      const pen = scratch.getContext("2d"), image = pen.createImageData(PIXELS, PIXELS);
      const { back } = theme();
      for (let row = 0; row < PIXELS; row++) {
        valuesOfRow(network, 1 - (2 * row + 1) / PIXELS, PIXELS).forEach((f, column) => {
          const colour = COLOURS.classes[f > 0], share = 0.45 + 0.35 * Math.min(1, Math.abs(f));
          const place = 4 * (row * PIXELS + column);
          for (let k = 0; k < 3; k++) image.data[place + k] = share * colour[k] + (1 - share) * back[k];
          image.data[place + 3] = 255;
        });
      }
      pen.putImageData(image, 0, 0);
      const made = paper(canvas);
      made.context.drawImage(scratch, 0, 0, made.width, made.height);
      return made;
    }

    function drawPlane(training, canvas, found) {
      const { context, width } = paintRegions(training, canvas);
      const place = ([x, y]) => [((x + 1) / 2) * width, ((1 - y) / 2) * width];
      const radius = Math.max(3.5, width / 70);
      training.points.forEach((point, i) => {
        const [x, y] = place(point), positive = training.targets[i] > 0;
        context.fillStyle = css(COLOURS.classes[positive]);
        context.beginPath();
        if (positive) context.arc(x, y, radius, 0, 7);
        else context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
        for (const [colour, thickness] of [["#fff", 5], ["#000", 2]]) {
          context.strokeStyle = colour;
          context.lineWidth = thickness;
          context.stroke();
        }
        context.fill();
      });
      const [from, to] = state.ends.map(place);
      for (const [colour, thickness] of [["#000", 5], ["#fff", 2.5]]) {
        context.strokeStyle = colour;
        context.lineWidth = thickness;
        context.beginPath();
        context.moveTo(...from);
        context.lineTo(...to);
        context.stroke();
      }
      context.strokeStyle = "#000";
      context.lineWidth = 1.5;
      context.fillStyle = "#fff";
      for (const at of found.boundaries) {
        context.beginPath();
        context.arc(from[0] + at * (to[0] - from[0]), from[1] + at * (to[1] - from[1]), 4.5, 0, 7);
        context.fill();
        context.stroke();
      }
    }

    /** f along the segment, on its regions. */
    function drawProfile(canvas, found) {
      const { context, width, height } = paper(canvas), { text, back } = theme();
      const edges = [0, ...found.boundaries, 1];
      for (let k = 1; k < edges.length; k++) {
        const colour = COLOURS.classes[found.first === (k % 2 === 1)];
        context.fillStyle = css(colour.map((value, c) => 0.6 * value + 0.4 * back[c]));
        context.fillRect(edges[k - 1] * width, 0, (edges[k] - edges[k - 1]) * width, height);
      }
      const top = Math.max(0.5, ...found.values.map(Math.abs));
      const y = (value) => height / 2 - (value / top) * (height / 2 - 4);
      context.strokeStyle = text;
      context.lineWidth = 1;
      context.strokeRect(0, y(0), width, 0);
      context.lineWidth = 2;
      context.beginPath();
      found.at.forEach((at, k) => context.lineTo(at * width, y(found.values[k])));
      context.stroke();
    }

    /** Lines over the steps on a logarithmic axis: [{points: [[step, value]], network, dashes, named}]. */
    function drawChart(canvas, lines, logarithmic) {
      const { context, width, height } = paper(canvas), colours = theme();
      const box = { left: 40, right: width - 22, top: 10, bottom: height - 34 };
      const values = lines.flatMap(({ points }) => points.map(([, value]) => value));
      const last = Math.max(10, ...lines.flatMap(({ points }) => points.map(([step]) => step)));
      const scale = logarithmic ? Math.log10 : (value) => value;
      let low = scale(logarithmic ? 1 : Math.min(...values)), high = scale(Math.max(...values));
      if (logarithmic) high = Math.max(1, high);
      else [low, high] = [Math.floor(2 * low - 0.1) / 2, Math.ceil(2 * high + 0.1) / 2];
      const x = (step) => box.left + (Math.log(1 + step) / Math.log(1 + last)) * (box.right - box.left);
      const y = (value) => box.bottom - ((scale(value) - low) / (high - low)) * (box.bottom - box.top);
      context.fillStyle = colours.muted;
      context.strokeStyle = colours.muted;
      context.lineWidth = 1;
      context.strokeRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
      context.textBaseline = "middle";
      context.textAlign = "right";
      const spacing = logarithmic ? 1 : Math.max(0.5, Math.ceil(high - low) / 4);
      for (let tick = Math.ceil(low); tick <= high; tick += spacing) {
        const value = logarithmic ? 10 ** tick : tick;
        context.fillText(String(value), box.left - 5, y(value));
      }
      context.textAlign = "center";
      for (let step = 1; step <= last; step *= 10) context.fillText(step.toLocaleString("en"), x(step), box.bottom + 11);
      context.fillText("steps", (box.left + box.right) / 2, box.bottom + 26);
      for (const { points, network, dashes, named } of lines) {
        context.strokeStyle = colours.networks[network];
        context.setLineDash(dashes);
        context.lineWidth = 2;
        context.beginPath();
        points.forEach(([step, value]) => context.lineTo(x(step), y(value)));
        context.stroke();
        context.setLineDash([]);
        if (!named || points.length < 2) continue; // before the start the letters would overlap
        const end = points[points.length - 1];
        context.fillStyle = colours.networks[network];
        context.textAlign = "left";
        context.fillText("AB"[network], Math.min(x(end[0]), box.right) + 5, y(end[1]) + (network ? 5 : -5));
      }
    }

    function drawCharts() {
      const lineOf = (training, network, dashes, value, named = true) =>
        ({ network, dashes, named, points: training.history.map((point) => [point.step, value(point)]) });
      const styles = [[], [6, 3]];
      const [counts, bounds] = ["counts", "bounds"].map(find);
      drawChart(counts, state.trainings.map((t, k) => lineOf(t, k, styles[k], (point) => point.count)), false);
      const allowed = (t) => (point) => bound(t.points, point.lambda);
      const lines = state.trainings.flatMap((t, k) =>
        [lineOf(t, k, styles[k], allowed(t)), lineOf(t, k, styles[k], (point) => point.count, false)]);
      drawChart(bounds, lines, true);
    }

    /** All that is words: written a few times a second, and at once when the training rests. */
    function write(found) {
      state.trainings.forEach((training, k) => {
        const cells = {
          lr: rateText(training.lr),
          step: training.recorded.toLocaleString("en"),
          loss: training.diverged ? "diverged" : training.loss.toPrecision(2),
          fitted: `${training.fitted} of ${training.points.length}`,
          count: shown(training.count),
          bound: bound(training.points, training.lambda).toFixed(0),
          edgeBound: bound(training.points, 2 / training.lr).toFixed(0),
          edge: ((training.lr * training.lambda) / 2).toFixed(2),
        };
        for (const [name, text] of Object.entries(cells)) all(name)[k].textContent = text;
        const number = found[k].count === 1 ? "1 region" : `${found[k].count} regions`;
        all("regions")[k].textContent = number;
        all("pieces")[k].textContent = `${found[k].at.length - 1} linear pieces`;
        all("plane")[k].setAttribute("aria-label",
          `Decision regions of network ${"AB"[k]}, with the training points and the segment: ${number} on it.`);
      });
      const sentences = verdict(...state.trainings);
      find("verdict").replaceChildren(...sentences.map((sentence) => {
        const paragraph = document.createElement("p");
        paragraph.textContent = sentence;
        return paragraph;
      }));
      const ends = state.ends.map(([x, y]) => `(${x.toFixed(2)}, ${y.toFixed(2)})`);
      all("handle").forEach((handle, k) => handle.setAttribute("aria-label",
        `${k % 2 ? "End" : "Start"} of the segment at ${ends[k % 2]}, network ${"AB"[k >> 1]}. Arrow keys move it.`));
      const announcement = `Network A: ${found[0].count}, network B: ${found[1].count} regions on the segment.`;
      if (!state.running) find("status").textContent = `${announcement} ${sentences.join(" ")}`;
      find("start").textContent = state.running ? "Pause" : "Start";
    }

    function refresh() {
      if (!state.running) state.trainings.forEach((training) => training.rest());
      const found = state.trainings.map(({ network }) => segment(network, ...state.ends));
      state.trainings.forEach((training, k) => {
        drawPlane(training, all("plane")[k], found[k]);
        drawProfile(all("profile")[k], found[k]);
      });
      all("handle").forEach((handle, k) => {
        const [x, y] = state.ends[k % 2];
        handle.style.left = `${(x + 1) * 50}%`;
        handle.style.top = `${(1 - y) * 50}%`;
      });
      const recorded = state.trainings.map((training) => training.history.length).join();
      if (!state.running || recorded !== state.recorded) drawCharts();
      state.recorded = recorded;
      if (!state.running || performance.now() - state.written > 200) {
        write(found);
        state.written = performance.now();
      }
    }

    function frame() {
      state.waiting = 0;
      const begin = performance.now(), { trainings } = state;
      if (state.comparison) compareMore();
      else if (state.running) {
        for (let k = Number(control.speed.value); k > 0 && performance.now() - begin < BUDGET; k--) {
          trainings.forEach((training) => training.advance());
        }
        if (trainings.some((training) => training.diverged)) state.running = false;
        refresh();
      }
      if (state.running || state.comparison) animate();
    }

    function toggle() {
      if (state.comparison) find("seeds").textContent = "";
      state.comparison = null;
      state.running = !state.running && !state.trainings.some((training) => training.diverged);
      refresh();
      if (state.running) animate();
    }

    /** The same comparison for many seeds, without pictures. */
    function compare() {
      state.running = false;
      state.comparison = { seed: settings().seed, pairs: [], current: null };
      refresh();
      animate();
    }

    function compareMore() {
      const { comparison } = state, begin = performance.now();
      while (performance.now() - begin < 2 * BUDGET && comparison.pairs.length < SEEDS) {
        const lrs = rates().sort((one, other) => other - one);
        const seed = comparison.seed + comparison.pairs.length;
        comparison.current ??= lrs.map((lr) => new Training({ ...settings(), seed }, lr));
        for (let k = 0; k < 20; k++) comparison.current.forEach((training) => training.advance());
        if (comparison.current.every((training) => training.diverged || training.step >= SEED_STEPS)) {
          comparison.current.forEach((training) => training.rest());
          comparison.pairs.push(comparison.current);
          comparison.current = null;
        }
      }
      const done = comparison.pairs.length === SEEDS;
      find("seeds").textContent = done ? seedsText(comparison.pairs) : `Seed ${comparison.pairs.length + 1} of ${SEEDS} …`;
      if (done) {
        state.comparison = null;
        find("status").textContent = find("seeds").textContent;
      }
    }

    function seedsText(pairs) {
      const sound = pairs.filter((pair) => pair.every((training) => !training.diverged && training.loss <= LEARNED));
      const tally = (counts) => {
        const fewer = counts.filter(([larger, smaller]) => larger < smaller - 1e-9).length;
        const more = counts.filter(([larger, smaller]) => larger > smaller + 1e-9).length;
        return `fewer regions in ${fewer} seeds of ${counts.length}, more in ${more}`;
      };
      if (!sound.length) return "In all of these seeds a training diverged or learned too little. Choose other learning rates.";
      const [larger, smaller] = sound[0].map((training) => rateText(training.lr));
      const equal = sound.map((pair) => atEqualLoss(...pair)?.counts).filter(Boolean);
      let text = `${SEEDS} seeds, ${SEED_STEPS.toLocaleString("en")} steps each. Learning rate ${larger} has `;
      text += `${tally(sound.map((pair) => pair.map((training) => training.count)))}, beside ${smaller}. `;
      if (equal.length) text += `At equal loss it has ${tally(equal)}. `;
      const lost = pairs.length - sound.length;
      return lost ? `${text}In ${lost} other seeds a training diverged or learned too little.` : text;
    }

    function moveEnd(index, x, y) {
      const inside = (value) => Math.min(0.97, Math.max(-0.97, value));
      state.ends[index] = [inside(x), inside(y)];
      refresh();
    }

    all("handle").forEach((handle, k) => {
      const plane = all("plane")[k >> 1], index = k % 2;
      handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
      handle.addEventListener("pointermove", (event) => {
        if (!handle.hasPointerCapture(event.pointerId)) return;
        const box = plane.getBoundingClientRect();
        moveEnd(index, (2 * (event.clientX - box.left)) / box.width - 1, 1 - (2 * (event.clientY - box.top)) / box.height);
      });
      handle.addEventListener("keydown", (event) => {
        const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (!direction) return;
        event.preventDefault();
        const size = event.shiftKey ? 0.1 : 0.02, [x, y] = state.ends[index];
        moveEnd(index, x + size * direction[0], y + size * direction[1]);
      });
    });

    function showValues() {
      const texts = { lrA: rateText(rates()[0]), lrB: rateText(rates()[1]), noise: `${control.noise.value} %` };
      for (const [name, text] of Object.entries(texts)) {
        control[name].setAttribute("aria-valuetext", text);
        find(`${name}-value`).textContent = text;
      }
    }

    for (const input of Object.values(control)) {
      input.addEventListener("input", () => {
        showValues();
        if (input !== control.speed) reset();
      });
    }
    find("start").addEventListener("click", toggle);
    find("reset").addEventListener("click", reset);
    find("compare").addEventListener("click", compare);
    new ResizeObserver(() => state.running || refresh()).observe(root);
    new MutationObserver(refresh).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
    root.hidden = false; // before the first drawing, which asks for sizes
    showValues();
    reset();
    library.playgrounds.push(state);
  }

  function startAll() {
    document.querySelectorAll(".rc-playground").forEach(start);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startAll);
  else startAll();
})();
