"use strict";
// Data of the page, small helpers, numbers as text, and the view: what the switches choose, kept in the address.
// Untrusted text, such as names of models, is inserted only as text.
const report = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  const $ = (id) => document.getElementById(id);
  const visible = (text) => String(text).replace(CONTROL, "\ufffd");
  const words = (name) => String(name).replaceAll("_", " ");

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : visible(value));
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined)
      .map((child) => (child instanceof Node ? child : visible(child))));
    return node;
  }
  const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  // A table's rows as objects, made once. Columns are packed: constants, texts by number, or plain lists.
  const made = new Map();
  function rows(name) {
    if (!made.has(name)) {
      const table = data.tables[name], list = Array.from({ length: table ? table.rows : 0 }, () => ({}));
      for (const [column, packed] of Object.entries(table ? table.values : {})) {
        const at = Array.isArray(packed) ? (n) => packed[n] : "same" in packed ? () => packed.same : (n) => packed.texts[packed.at[n]];
        list.forEach((row, number) => { row[column] = at(number); });
      }
      made.set(name, list);
    }
    return made.get(name);
  }

  const DOMAINS = new Map(data.models.map((model) => [model.name, model]));
  const about = (name) => DOMAINS.get(name) || { name, domain: null, role: "model" };

  // The view. Each entry: its default, and the values it may have (null: any text).
  const RULES = {
    protocol: [data.protocols[0], () => data.protocols], score: ["corrected", () => ["corrected", "plain"]],
    answers: ["all", () => ["all", "answered"]], others: ["with", () => ["with", "without"]],
    a: [null, names], b: [null, names], model: [null, names], at: [null, null],
  };
  const LISTS = ["open", "sort"];
  const view = {};
  const listeners = [];
  function names() { return data.models.map((model) => model.name); }

  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const [name, [standard, allowed]] of Object.entries(RULES)) {
      const value = given.get(name);
      view[name] = value !== null && (!allowed || allowed().includes(value)) ? value : standard;
    }
    if (view.a === view.b) view.b = null;
    for (const name of LISTS) view[name] = new Set(given.getAll(name));
  }

  function address() {
    const parts = new URLSearchParams();
    for (const [name, [standard]] of Object.entries(RULES)) if (view[name] !== standard) parts.set(name, view[name]);
    for (const name of LISTS) for (const value of view[name]) parts.append(name, value);
    return "#" + parts.toString();
  }

  // Change the view, the address and what is drawn. ``quietly``: nothing needs drawing again.
  function change(changes, quietly = false) {
    Object.assign(view, changes);
    history.replaceState(null, "", address());
    if (!quietly) for (const listener of listeners) listener(changes);
  }
  const onChange = (listener) => listeners.push(listener);

  // The address of the gallery with filtered items.
  function gallery(choice) {
    const parts = new URLSearchParams();
    for (const [name, value] of Object.entries(choice)) {
      for (const one of [value].flat()) if (one !== null && one !== undefined) parts.append(name, one);
    }
    return "gallery.html#" + parts.toString();
  }

  // A followed link to the gallery gets the view in its address, so that the gallery can lead back to the same view.
  for (const name of ["click", "auxclick"]) document.addEventListener(name, (event) => {
    const link = event.target.closest('a[href^="gallery.html"]');
    if (!link) return;
    const part = link.closest("details.part");
    if (part) change({ at: part.id }, true);
    const [page, choice] = link.getAttribute("href").split("#"), parts = new URLSearchParams(choice ?? "");
    parts.delete("report");
    if (address() !== "#") parts.set("report", address().slice(1));
    link.setAttribute("href", String(parts) ? `${page}#${parts}` : page);
  }, true);

  // The column of scores that the switches choose.
  function measure() {
    const stem = view.score === "plain" ? "accuracy" : "corrected";
    return view.answers === "answered" ? `${stem}_answered` : stem;
  }
  // The column of scores to show: the chosen one if ``columns`` has it, otherwise accuracy among answered questions or the first.
  const measureOf = (columns) => (columns.includes(measure()) ? measure() : view.answers === "answered" && columns.includes("accuracy_answered") ? "accuracy_answered" : columns[0]);
  const scoreWords = () => (view.score === "plain" ? "accuracy" : "score corrected for chance") + (view.answers === "answered" ? " among answered questions" : "");
  const isShown = (name) => view.others === "with" || about(name).role === "model";
  // The protocols with rows in some of these tables.
  const askedUnder = (names) => data.protocols.filter((protocol) => names.some((name) => rows(name).some((row) => row.protocol === protocol)));
  const here = (row) => !("protocol" in row) || row.protocol === view.protocol;

  // The models of the protocol from best to worst by the mean of levels (otherwise by the grid or by places), as the switches say.
  function order() {
    const value = new Map();
    for (const row of rows("levels")) if (here(row) && row.level === data.overall) value.set(row.model, row[measure()]);
    if (!value.size) for (const row of rows("grid")) if (here(row) && row.finding === data.macro) value.set(row.model, row.hit_rate);
    if (!value.size) for (const row of rows("places")) if (here(row) && row.finding === data.macro && row.net !== null) value.set(row.model, (value.get(row.model) ?? 0) + row.net);
    const asked = [...new Set(rows("states").filter(here).map((row) => row.model))].filter(isShown);
    return asked.sort((one, other) => (value.get(other) ?? -9) - (value.get(one) ?? -9));
  }

  function number(value, form) {
    if (value === null || value === undefined) return "–";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value !== "number") return words(value);
    if (form === "p") return value >= 0.0001 ? value.toFixed(4) : "< 0.0001";
    if (form === "count") return value.toLocaleString("en");
    const text = typeof form === "number" ? value.toFixed(form) : (100 * value).toFixed(1);
    return /^-0\.?0*$/.test(text) ? text.slice(1) : text.startsWith("-") ? "−" + text.slice(1) : text;
  }
  const interval = (low, high, form) => (low === null || low === undefined || high === null || high === undefined ? "" : `[${number(low, form)}, ${number(high, form)}]`);
  const estimate = (row, column, form) => `${number(row[column], form)} ${interval(row[`${column}_low`], row[`${column}_high`], form)}`.trim();
  // Why a score of a row has no interval, in a few words.
  const bare = (row) => (row.patients < data.least ? `no interval: fewer than ${data.least} ${data.unit}` : "no interval: one of its kinds or findings has fewer than 2 " + data.unit);
  // A name that goes whole to the next line of a text, and breaks only where it is longer than a line.
  const whole = (name) => make("span", { class: "whole" }, name);
  // A name that may break after a slash or an underscore, not within a word.
  const breakable = (name) => visible(name).split(/(?<=[/_])/).flatMap((part, place) => (place ? [make("wbr"), part] : [part]));
  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
  const unit = (count) => `${count.toLocaleString("en")} ${count === 1 ? data.unit.replace(/ies$/, "y").replace(/s$/, "") : data.unit}`;

  // The gallery's filters for the items that count in a level's score, or in the mean of levels: not those on the finding that is left out.
  const counted = (level) => {
    const findings = unique(rows("finding_kinds").filter(here).map((row) => row.finding));
    return { level: level === data.overall ? data.levels : level, ...(findings.includes(data.not_compared) ? { finding: findings.filter((name) => name !== data.not_compared) } : {}) };
  };
  // The verdict on a model's net grounding; an undecided one says which number of patients the other verdicts need.
  const looks = (row) => (row.looks !== data.verdicts[2] || row.patients >= data.least_not_shown ? row.looks :
    `${row.looks} (${unit(row.patients)}; ${row.patients < data.least ? `a verdict needs ${data.least}` : `“${data.verdicts[1]}” needs ${data.least_not_shown}`})`);

  // A narrow window, in which wide plots are drawn with fewer units so that their text stays readable.
  const narrow = window.matchMedia("screen and (max-width: 760px)");

  // One box with the explanation of a mark or a term, shown on hover and focus: beside a row of a plot if there is room,
  // otherwise below or above. If the page scrolls under a resting pointer, the box stays with the mark that keys have reached.
  const tip = $("tip"), shows = new WeakMap();
  // The last line of the explanation of what opens items.
  const OPENS = "Open these items in the gallery";
  let told = null, byKeys = false, isHeld = false, pointer = "";
  document.addEventListener("keydown", (event) => { byKeys = true; if (event.key === "Escape") tip.hidden = true; }, true);
  // A browser also reports a move when the page moves under a pointer that rests.
  document.addEventListener("pointermove", (event) => {
    const place = `${event.screenX} ${event.screenY}`;
    if (place !== pointer) byKeys = false;
    pointer = place;
  }, true);
  function place(node) {
    const box = node.getBoundingClientRect(), own = tip.getBoundingClientRect(), gap = 8;
    const width = document.documentElement.clientWidth, height = document.documentElement.clientHeight;
    // A row that is explained stays readable: the box stands beside a row of a plot, and below or above a row of a table.
    const row = node.closest("tr")?.getBoundingClientRect() ?? box;
    const isMark = "mark" in node.dataset && node.querySelector(".hit, .funnel, circle"), isRight = isMark && box.right + gap + own.width + gap <= width, isLeft = isMark && box.left - gap - own.width >= gap;
    const below = row.bottom + gap + own.height <= height || row.top - gap - own.height < 0;
    const middle = Math.max(gap, Math.min(box.top + box.height / 2 - own.height / 2, height - own.height - gap));
    const left = isRight ? box.right + gap : isLeft ? box.left - gap - own.width : Math.max(gap, Math.min(box.left + box.width / 2 - own.width / 2, width - own.width - gap));
    tip.style.left = `${left + window.scrollX}px`;
    tip.style.top = `${(isRight || isLeft ? middle : below ? row.bottom + gap : row.top - own.height - gap) + window.scrollY}px`;
  }
  // A finger has no pointer that hovers: its tap explains, and the explanation holds the link until the next tap elsewhere.
  document.addEventListener("pointerdown", (event) => {
    if (isHeld && !tip.contains(event.target)) { isHeld = false; told = null; tip.hidden = true; }
  }, true);
  function tell(node, lines) {
    const show = () => {
      const said = typeof lines === "function" ? lines() : lines;
      tip.replaceChildren(...said.filter(Boolean).map((line, place) => make(place || said.length === 1 ? "span" : "b", {}, line)));
      isHeld = false;
      tip.classList.remove("held");
      told = node;
      tip.hidden = false;
      place(node);
    };
    const tap = (event) => {
      if (event.pointerType !== "touch" || !node.hasAttribute("href")) return;
      event.preventDefault();
      show();
      isHeld = true;
      tip.classList.add("held");
      tip.lastChild.replaceWith(make("a", { href: node.getAttribute("href") }, OPENS));
      place(node);
    };
    const hide = () => { if (told === node && !isHeld) { told = null; tip.hidden = true; } };
    const leave = () => {
      if (told !== node || isHeld) return;
      const focused = document.activeElement?.matches(":focus-visible") ? shows.get(document.activeElement) : null;
      if (focused) focused(); else hide();
    };
    shows.set(node, show);
    node.addEventListener("focus", show);
    node.addEventListener("pointerenter", () => { if (!byKeys) show(); });
    node.addEventListener("pointermove", () => { if (!byKeys && told !== node) show(); });
    node.addEventListener("pointerleave", leave);
    node.addEventListener("blur", hide);
    node.addEventListener("click", tap);
    return node;
  }

  // Hide what is said of a node that was drawn anew.
  const settle = () => { if (told && !told.isConnected) { told = null; isHeld = false; tip.hidden = true; } };

  // A word with its meaning from the glossary: a dotted underline, and a sentence on hover and focus.
  function term(label, meaning = data.terms[label]) {
    if (!meaning) return make("span", {}, label);
    return tell(make("button", { type: "button", class: "term", "aria-description": meaning }, label), [label, sentence(meaning)]);
  }
  const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

  // Arrow keys go from mark to mark; the Tab key reaches one mark of each plot.
  function rove(container) {
    const marks = () => [...container.querySelectorAll("[data-mark]")];
    marks().forEach((mark, place) => mark.setAttribute("tabindex", place ? "-1" : "0"));
    container.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], list = marks();
      const place = list.indexOf(event.target.closest("[data-mark]"));
      if (!step || place < 0) return;
      event.preventDefault();
      const next = list[(place + step + list.length) % list.length];
      list[place].setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
    return container;
  }

  const unique = (list) => [...new Set(list)];
  // The value of a column if it is the same in all rows (such as chance for models asked the same items), otherwise null.
  const shared = (list, column) => { const all = unique(list.map((row) => row[column])); return all.length === 1 ? all[0] : null; };

  read();
  return { data, $, visible, words, make, draw, rows, about, view, read, address, change, onChange, gallery, measure, measureOf, scoreWords, OPENS,
    isShown, here, askedUnder, order, number, interval, estimate, plural, breakable, whole, bare, unit, counted, looks, tell, settle, term, sentence, rove, unique, shared, narrow };
})();
