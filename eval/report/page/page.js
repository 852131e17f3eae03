"use strict";
// The page: switches, sections that unfold, the index, the address, and everything for print.
(() => {
  const { data, $, make, view, change, onChange, address, words, term } = report;
  const PRINT_ROWS = 600, PRINT_WIDTH = 1030;
  // More rows than these are a long table. It is made smaller, down to text of 6 points, where it then fits more than once
  // beside itself with this gap.
  const LONG = 20, SMALLEST = 0.8, GAP = 18;
  const parts = new Map([...document.querySelectorAll("details.part")].map((part) => [part.id, part]));

  const SWITCHES = [
    ["protocol", "protocol", data.protocols.map((name) => [name, words(name)])],
    ["score", "chance", [["corrected", "corrected"], ["plain", "not corrected"]]],
    ["answers", "questions", [["all", "all asked"], ["answered", "answered only"]]],
    ["others", "readers and baselines", [["with", "with"], ["without", "without"]]],
  ];

  function switches() {
    const others = data.models.some((model) => model.role !== "model");
    $("switches").replaceChildren(...SWITCHES.filter(([name, , values]) => values.length > 1 && (name !== "others" || others) && (name !== "score" || report.rows("levels").length)).map(([name, label, values]) =>
      make("label", {}, label, explained(name, make("select", { id: `s-${name}`, onchange: (event) => change({ [name]: event.target.value }) }, ...values.map(([value, text]) => make("option", { value, selected: view[name] === value }, text)))))));
  }
  // The protocol's switch says what the chosen protocol is.
  const explained = (name, select) => (name === "protocol" ? report.tell(select, () => [words(view.protocol), data.ways[view.protocol]]) : select);

  // A note and a button for each protocol that asked what the section shows, if the chosen protocol did not ask it.
  function elsewhere(section) {
    const asked = report.askedUnder(section.tables);
    if (!asked.length || asked.includes(view.protocol)) return [];
    return [make("p", { class: "elsewhere" }, `Not asked under the protocol ${words(view.protocol)}. See it under: `, ...asked.flatMap((protocol) => [
      make("button", { type: "button", onclick: () => { change({ protocol }); switches(); } }, words(protocol)), " "]))];
  }

  // What a section shows, drawn when it is open.
  function fill(part) {
    const inner = part.querySelector(".content");
    if (part.id === "compare") { inner.replaceChildren(...comparing.show().filter(Boolean)); return; }
    if (part.id === "terms") { inner.replaceChildren(make("dl", { class: "glossary" }, ...Object.entries(data.terms).flatMap(([name, meaning]) => [make("dt", {}, name), make("dd", {}, report.sentence(meaning))]))); return; }
    const section = data.sections.find((one) => one.anchor === part.id);
    if (!section) return;
    let figures = inner.querySelector(".figures");
    if (!figures) {
      figures = make("div", { class: "figures" });
      inner.replaceChildren(figures, ...section.tables.map(tables.block));
    }
    figures.replaceChildren(...elsewhere(section), ...effects.of(part.id));
    for (const fold of inner.querySelectorAll("details.table")) fold.open = view.open.has(`table.${fold.dataset.table}`);
  }

  function draw() {
    leaderboard.show();
    for (const part of parts.values()) if (part.open) fill(part);
    tables.again();
    report.settle();
    hover();
  }

  // A model under the pointer stands out in the leaderboard and in the plot beside it.
  function hover() {
    for (const node of document.querySelectorAll("#leaders tbody tr, #stops .mark")) {
      const name = node.dataset.model ?? node.querySelector("[data-model]")?.dataset.model;
      const set = (on) => { for (const other of document.querySelectorAll(`[data-model="${CSS.escape(name)}"]`)) (other.closest(".mark") ?? other).classList.toggle("lit", on); };
      for (const [event, on] of [["pointerenter", true], ["pointerleave", false], ["focusin", true], ["focusout", false]]) node.addEventListener(event, () => set(on));
    }
  }

  function unfold(part, isOpen = true) {
    const open = new Set(view.open);
    if (isOpen) open.add(part.id); else open.delete(part.id);
    change({ open }, true);
    if (part.open !== isOpen) part.open = isOpen;
    if (isOpen) fill(part);
  }

  function start() {
    switches();
    for (const part of parts.values()) {
      part.open = view.open.has(part.id);
      part.addEventListener("toggle", () => { if (!document.body.classList.contains("printed") && part.open !== view.open.has(part.id)) { view.at = part.open ? part.id : view.at === part.id ? null : view.at; unfold(part, part.open); } });
    }
    for (const link of document.querySelectorAll("a[data-part]")) {
      link.addEventListener("click", (event) => { event.preventDefault(); go(link.dataset.part); });
    }
    $("unfold").addEventListener("click", () => {
      const isOpen = ![...parts.values()].every((part) => part.open);
      // Of the tables, only those are unfolded to which the page's first screen leads.
      for (const { dataset } of document.querySelectorAll("header a[data-part]")) view.open[isOpen ? "add" : "delete"](dataset.part);
      for (const part of parts.values()) unfold(part, isOpen);
      label();
    });
    draw();
    label();
    if (view.at) go(view.at);
  }
  const label = () => { $("unfold").textContent = [...parts.values()].every((part) => part.open) ? "fold all" : "unfold all"; };

  // Go to a part of the page by its name, or to a table ("table." and its name) in its section.
  function go(name) {
    const section = data.sections.find((one) => one.tables.some((table) => `table.${table}` === name));
    const part = parts.get(section?.anchor ?? name) ?? document.getElementById(name);
    if (!part) return;
    if (section) view.open.add(name);
    if (parts.has(part.id)) unfold(part);
    change({ at: part.id === "top" ? null : part.id }, true);
    const shown = section ? document.getElementById(name) : part;
    shown.scrollIntoView();
    const target = shown.querySelector("summary") ?? shown;
    target.focus({ preventScroll: true });
  }

  onChange((changes) => { if ("protocol" in changes || "others" in changes || "a" in changes || "b" in changes || "score" in changes || "answers" in changes || "model" in changes) draw(); });
  window.addEventListener("hashchange", () => {
    if (location.hash === address()) return;
    report.read();
    for (const part of parts.values()) part.open = view.open.has(part.id);
    start_again();
  });
  function start_again() { switches(); draw(); if (view.at) go(view.at); }

  // Print: everything unfolded, every protocol, every table narrow enough for the page.
  const before = [];
  function printed() {
    if (document.body.classList.contains("printed")) return;
    document.body.classList.add("printed");
    const chosen = view.protocol;
    for (const part of parts.values()) {
      before.push([part, part.open]);
      part.open = true;
      const inner = part.querySelector(".content");
      if (part.id === "methods" || part.id === "terms" || part.id === "compare") { fill(part); continue; }
      inner.replaceChildren();
      for (const protocol of data.protocols) {
        view.protocol = protocol;
        const drawn = effects.of(part.id);
        if (drawn.length) inner.append(data.protocols.length > 1 ? make("h3", {}, `Protocol ${words(protocol)}`) : "", ...drawn);
      }
      view.protocol = chosen;
      const section = data.sections.find((one) => one.anchor === part.id);
      for (const name of section ? section.tables : []) {
        const rows = data.tables[name].rows;
        inner.append(make("h3", { class: "print-table" }, data.tables[name].caption));
        if (rows > PRINT_ROWS) inner.append(make("p", {}, `${rows.toLocaleString("en")} rows, too many to print: see tables/${name}.csv beside the page.`));
        else {
          const [table, count, { same = [] }] = tables.element(name, true, true), { note } = data.tables[name];
          inner.append(same.length ? make("p", {}, `In every row: ${same.join(", ")}.`) : "", table, note ? make("p", {}, note) : "", name === "pairs" && count < rows ? make("p", {}, `${report.plural(rows - count, "pair")} with a baseline: see tables/pairs.csv beside the page.`) : "");
        }
      }
    }
    for (const table of document.querySelectorAll("main table")) {
      // Intervals stand beside their numbers where the table is narrow enough, otherwise below them.
      table.classList.toggle("stacked", table.scrollWidth > PRINT_WIDTH);
      const wide = table.scrollWidth;
      if (wide > PRINT_WIDTH) table.style.zoom = String(Math.max(PRINT_WIDTH / wide, 0.2));
      const columns = Math.floor((PRINT_WIDTH + GAP) / (wide * SMALLEST + GAP));
      if (columns > 1 && table.rows.length > LONG && table.closest(".content")) {
        table.style.zoom = String(Math.min(((PRINT_WIDTH + GAP) / columns - GAP) / wide, 1));
        const side = make("div", { class: "side", style: `columns: ${columns}` });
        table.replaceWith(side);
        side.append(table);
      }
    }
  }
  function restored() {
    if (!document.body.classList.contains("printed")) return;
    for (const [part, open] of before.splice(0)) {
      if (part.id !== "methods") part.querySelector(".content").replaceChildren();
      part.open = open;
    }
    for (const table of document.querySelectorAll("main table")) { table.style.zoom = ""; table.classList.remove("stacked"); }
    document.body.classList.remove("printed");
    draw();
  }
  report.narrow.addEventListener("change", () => { if (!document.body.classList.contains("printed")) draw(); });
  window.addEventListener("beforeprint", printed);
  window.addEventListener("afterprint", restored);
  for (const name of document.querySelectorAll("[data-term]")) name.replaceWith(term(name.textContent, data.terms[name.dataset.term]));
  start();
})();
