// What a reader would trip over on a page, as lists of texts; test_browser.py calls one at a time.
({
  rawFormulas: () => [...document.querySelectorAll(".math")]
    .filter((e) => !e.querySelector("mjx-container") || e.querySelector("mjx-merror"))
    .map((e) => e.textContent.trim()),

  async brokenImages() {
    const images = [...document.images].filter((e) => e.getAttribute("src"));
    images.forEach((e) => { e.loading = "eager"; });
    await Promise.allSettled(images.map((e) => e.decode()));
    return images.filter((e) => !e.complete || !e.naturalWidth).map((e) => e.src.slice(0, 100));
  },

  // Of a page in dark colours, the colours in which it is printed, unless they are light.
  printed() {
    window.dispatchEvent(new Event("beforeprint"));
    const { theme } = document.documentElement.dataset;
    window.dispatchEvent(new Event("afterprint"));
    return theme === "dark" ? [theme] : [];
  },

  // docutils writes the name of the file where no text was given. A label names its first control alone.
  noName: () => [...document.querySelectorAll(
    "main figure img, main .cell_output img, main figure svg, main input")]
    .filter((e) => e.tagName !== "INPUT" || (e.getClientRects().length && !e.labels.length))
    .map((e) => [e, (e.getAttribute("alt") || e.getAttribute("aria-label") || "").trim()])
    .filter(([e, text]) => !text || e.src?.endsWith(text.split("/").at(-1)))
    .map(([e]) => (e.src || e.outerHTML).slice(0, 100)),

  // Tables, figures and formulas that are wider than the box around them, which clips the rest.
  cutOff() {
    const isShown = (e) => e.getClientRects().length > 0;
    const clips = (e) =>
      getComputedStyle(e).overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1;
    const wide = "main table, main figure, main img, main mjx-container[display]";
    const found = [];
    for (const e of document.querySelectorAll(wide)) {
      let box = e;
      while (isShown(e) && box && box.tagName !== "MAIN" && !clips(box)) box = box.parentElement;
      if (isShown(e) && box && box.tagName !== "MAIN" && !box.closest("pre"))
        found.push(`${box.scrollWidth} px in ${box.clientWidth}: ${e.outerHTML.slice(0, 80)}`);
    }
    return found;
  },

  // Words and numbers of tables that a line breaks within, but for paths and hyphened words; on a
  // phone numbers alone.
  brokenWords() {
    const isNarrow = window.innerWidth <= 700;
    const found = [], lines = (range) => new Set([...range.getClientRects()].map((r) => r.top));
    for (const cell of document.querySelectorAll("main td, main th")) {
      const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      while (texts.nextNode())
        for (const word of texts.currentNode.data.matchAll(/\S+/g)) {
          if (isNarrow ? !/^\[?-?\d[\d.,]*\]?$/.test(word[0]) : /[/_]|\w-\w/.test(word[0])) continue;
          const range = document.createRange();
          range.setStart(texts.currentNode, word.index);
          range.setEnd(texts.currentNode, word.index + word[0].length);
          if (lines(range).size > 1) found.push(word[0]);
        }
    }
    return found;
  },

  // The elements that stick out, where the page can be scrolled sideways.
  tooWide() {
    const root = document.documentElement;
    if (root.scrollWidth <= root.clientWidth) return [];
    const sticksOut = (e) => e.getBoundingClientRect().right > root.clientWidth + 1;
    const out = [...document.querySelectorAll("main *")].filter(sticksOut);
    return [`${root.scrollWidth} px`, ...out.slice(0, 3).map((e) => e.outerHTML.slice(0, 100))];
  },

  // Marks the first place of each look, that is, of each colour and font on its backgrounds.
  markFirst() {
    const seen = new Set(), behind = new Map([[null, ""]]); // all that is behind a box
    const shows = (value) => !["rgba(0, 0, 0, 0)", "none", "1"].includes(value);
    for (const e of document.querySelectorAll("html, body, body *")) {
      const style = getComputedStyle(e);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity].filter(shows);
      behind.set(e, [...own, behind.get(e.parentElement)].join());
      e.removeAttribute("data-first");
      const texts = [...e.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
      const hasText = texts.some((node) => node.data.trim());
      if (!(hasText || e.matches("input, select")) || !e.getClientRects().length) continue;
      const key = [style.color, style.fontSize, style.fontWeight, behind.get(e)].join();
      if (!seen.has(key)) e.setAttribute("data-first", "");
      seen.add(key);
    }
  },
})
