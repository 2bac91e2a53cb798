// Search, filters and sorting for the scorecard. Groups and verdicts are read from the table, which works without this too.
"use strict";

(() => {
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  function enhance(box) {
    const table = box.querySelector("table"), body = table.tBodies[0], rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells], names = heads.map((head) => head.textContent.trim());
    const text = (row, name) => row.cells[names.indexOf(name)].textContent.trim();
    const found = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const values = (name) => [...new Set(rows.map((row) => text(row, name)))];
    const verdicts = values("Verdict"), styled = (verdict) => `rc-${verdict.replaceAll(" ", "-")}`;
    for (const row of rows) {
      [...row.cells].forEach((cell, k) => { cell.dataset.label = names[k]; });
      row.cells[names.indexOf("Verdict")].classList.add(styled(text(row, "Verdict")));
    }

    const search = make("input", { type: "search", autocomplete: "off" });
    const choose = (name) => {
      const options = values(name).map((value) => make("option", { value, textContent: value }));
      return make("select", {}, make("option", { value: "", textContent: "all" }), ...options);
    };
    const filters = Object.fromEntries(["Group", "Verdict", "Printed follows"].map((name) => [name, choose(name)]));
    const clear = make("button", { type: "button", textContent: "Show all rows" });
    const labels = Object.entries({ Search: search, ...filters }).map(([name, input]) => make("label", {}, name, input));
    const bar = make("div", { className: "rc-bar", ariaHidden: "true" }), legend = make("ul", { className: "rc-legend" });
    const status = make("p", { className: "rc-count" });
    status.setAttribute("role", "status");
    box.prepend(make("div", { className: "rc-filters" }, ...labels, clear), bar, legend, status);

    // The choice is in the address of the page, so that a filtered table can be sent to somebody.
    const inputs = Object.entries({ Search: search, ...filters });
    const given = new URLSearchParams(location.search);
    inputs.forEach(([name, input]) => { input.value = given.get(name) ?? ""; });
    function remember() {
      const chosen = new URLSearchParams(inputs.filter(([, input]) => input.value).map(([name, input]) => [name, input.value]));
      history.replaceState(null, "", `${location.pathname}${chosen.size ? `?${chosen}` : ""}${location.hash}`);
    }

    function show() {
      const words = search.value.toLowerCase().split(/\s+/);
      const fits = (row) => words.every((word) => found.get(row).includes(word))
        && Object.entries(filters).every(([name, input]) => !input.value || text(row, name) === input.value);
      const shown = rows.filter((row) => !(row.hidden = !fits(row)));
      const counts = verdicts.map((verdict) => shown.filter((row) => text(row, "Verdict") === verdict).length);
      status.textContent = `${shown.length} of ${rows.length} rows are shown.`;
      const part = (name, k, ...inside) => make(name, { className: styled(verdicts[k]) }, ...inside);
      bar.replaceChildren(...counts.map((count, k) => {
        const piece = part("span", k);
        piece.style.flexGrow = count;
        return piece;
      }));
      legend.replaceChildren(...counts.flatMap((count, k) => (count ? [part("li", k, `${verdicts[k]} ${count}`)] : [])));
    }

    const order = [...rows];
    function sort(head, name) {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const number = (row) => (/^[-+]?[\d.,]+/.test(text(row, name)) ? parseFloat(text(row, name).replace(/,/g, "")) : NaN);
      const compare = (one, other) => {
        const [a, b] = [number(one), number(other)];
        if (Number.isNaN(a) !== Number.isNaN(b)) return Number.isNaN(a) ? 1 : -1; // words and empty cells last
        const sign = Number.isNaN(a) ? text(one, name).localeCompare(text(other, name)) : a - b;
        return (descending ? -sign : sign) || order.indexOf(one) - order.indexOf(other);
      };
      body.append(...rows.sort(compare));
    }

    heads.forEach((head, k) => {
      const button = make("button", { type: "button", textContent: names[k] });
      button.addEventListener("click", () => sort(head, names[k]));
      head.replaceChildren(button);
    });
    inputs.forEach(([, input]) => input.addEventListener("input", () => { remember(); show(); }));
    clear.addEventListener("click", () => {
      inputs.forEach(([, input]) => { input.value = ""; });
      remember();
      body.append(...rows.sort((one, other) => order.indexOf(one) - order.indexOf(other)));
      heads.forEach((head) => head.removeAttribute("aria-sort"));
      show();
    });
    show();
  }

  const start = () => document.querySelectorAll(".rc-scorecard").forEach(enhance);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
