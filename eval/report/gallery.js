"use strict";
// The gallery: filters over an index of all items, and one case's whole conversation on a page of its own.
// What models said is only ever set as text.
const chexqa = (() => {
  const A_PAGE = 48;
  const MARKS = { correct: "✓", wrong: "✗", unparsed: "?", truncated: "…", refused: "!", empty: "0", overflow: "↑", error: "E", not_asked: "·" };
  const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  const OUTSIDE = "-";
  let data = null, matches = [], page = 0;
  const chunks = new Map(), waiting = new Map();
  const $ = (id) => document.getElementById(id);

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null).map((child) => (typeof child === "string" ? child.replace(CONTROL, "\ufffd") : child)));
    return node;
  }
  // An item has one state character for each model; keep those of the models that were to be asked the item.
  const asked = (digits) => [...digits].filter((digit) => digit !== OUTSIDE);
  const words = (name) => name.replaceAll("_", " ");
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const code = (character) => "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

  // Untrusted text: invisible and direction-changing characters are shown by name.
  function plain(text) {
    const parts = [];
    let last = 0;
    for (const found of text.matchAll(CONTROL)) {
      parts.push(text.slice(last, found.index), make("span", { class: "mark" }, `[${code(found[0])}]`));
      last = found.index + found[0].length;
    }
    parts.push(text.slice(last));
    return parts;
  }

  function option(select, value, label) { select.append(make("option", { value }, label)); }

  function index(record) {
    data = record;
    const severalProtocols = new Set(data.rows.map((row) => row.protocol)).size > 1;
    data.labels = data.rows.map((row) => (severalProtocols ? `${row.model}, ${words(row.protocol)}` : row.model));
    data.rows.forEach((row, number) => option($("f-model"), number, data.labels[number]));
    for (const [id, names] of [["f-finding", data.findings], ["f-path", data.paths], ["f-kind", data.kinds]]) {
      names.forEach((name, number) => option($(id), number, words(name)));
    }
    option($("f-state"), "right", "right");
    option($("f-state"), "not-right", "not right");
    data.states.forEach((name, number) => { if (name !== "correct") option($("f-state"), number, words(name)); });
    for (const id of ["f-model", "f-finding", "f-path", "f-kind", "f-state"]) $(id).addEventListener("change", filter);
    $("previous").addEventListener("click", () => turn(-1));
    $("next").addEventListener("click", () => turn(1));
    window.addEventListener("hashchange", route);
    document.addEventListener("keydown", keys);
    filter();
    route();
  }

  function filter() {
    const [model, finding, path, kind, state] = ["f-model", "f-finding", "f-path", "f-kind", "f-state"].map((id) => $(id).value);
    const fits = (digits) => {
      const states = asked(model === "" ? digits : digits[Number(model)]);
      if (!states.length) return false;
      if (state === "") return true;
      if (state === "right") return states.includes("0");
      if (state === "not-right") return states.some((digit) => digit !== "0");
      return states.includes(state);
    };
    matches = data.items.filter(([number, itemKind, digits]) => {
      const about = data.cases[number];
      return (finding === "" || about[1] === Number(finding)) && (path === "" || about[2] === Number(path)) &&
        (kind === "" || itemKind === Number(kind)) && fits(digits);
    });
    page = 0;
    list();
  }

  function turn(step) { page += step; list(); $("gallery").scrollIntoView(); }

  function list() {
    const pages = Math.max(1, Math.ceil(matches.length / A_PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    $("count").textContent = `${matches.length.toLocaleString("en")} of ${data.items.length.toLocaleString("en")} items; page ${page + 1} of ${pages}`;
    $("previous").disabled = page === 0;
    $("next").disabled = page === pages - 1;
    $("cards").replaceChildren(...matches.slice(page * A_PAGE, (page + 1) * A_PAGE).map(card));
  }

  function card([number, kind, digits]) {
    const [caseId, finding, path, thumb] = data.cases[number];
    const name = data.kinds[kind];
    const strip = make("div", { class: "strip", "aria-hidden": "true" }, ...[...digits].map((digit, row) => {
      if (digit === OUTSIDE) return make("i", { title: `${data.labels[row]}: not in its run` });
      const state = data.states[Number(digit)];
      return make("i", { class: state, title: `${data.labels[row]}: ${words(state)}` }, MARKS[state]);
    }));
    const right = [...digits].filter((digit) => digit === "0").length;
    const about = make("div", { class: "about" }, make("strong", {}, words(name)), make("br"),
      `${words(data.findings[finding])}${path < 0 ? "" : ", " + words(data.paths[path])}`, make("br"),
      make("span", { class: "pale" }, `${right} of ${asked(digits).length} right`), strip);
    return make("li", {}, make("a", { href: `#case/${caseId}/${name}` },
      make("img", { src: `gallery/${thumb}`, alt: "", loading: "lazy" }), about));
  }

  function chunk(number, record) {
    chunks.set(number, record);
    (waiting.get(number) || []).forEach((done) => done());
    waiting.delete(number);
  }

  function load(number) {
    if (chunks.has(number)) return Promise.resolve();
    return new Promise((done, failed) => {
      if (waiting.has(number)) { waiting.get(number).push(done); return; }
      waiting.set(number, [done]);
      const script = make("script", { src: `gallery/cases-${String(number).padStart(4, "0")}.js` });
      script.addEventListener("error", () => { waiting.delete(number); failed(new Error(script.src)); });
      document.head.append(script);
    });
  }

  async function route() {
    const [where, caseId, kind] = location.hash.slice(1).split("/");
    const opened = where === "case" && data !== null;
    $("report").hidden = opened;
    $("case").hidden = !opened;
    if (!opened) {
      if (where) { const part = $(where); if (part) part.scrollIntoView(); }
      return;
    }
    const number = data.cases.findIndex((entry) => entry[0] === caseId);
    if (number < 0) { $("case").replaceChildren(make("p", {}, "There is no such case in this report. "), back()); return; }
    const file = Math.floor(number / data.casesAFile);
    try { await load(file); } catch {
      $("case").replaceChildren(make("p", {}, "The case's file is missing in the folder 'gallery' beside this page. "), back());
      return;
    }
    if (location.hash.slice(1).split("/")[1] !== caseId) return;
    showCase(number, chunks.get(file)[caseId], kind);
  }

  function back() { return make("a", { href: "#gallery" }, "Back to the gallery"); }

  // The cases before and after this one among those that pass the filters.
  function neighbours(number) {
    const shown = [...new Set(matches.map((match) => match[0]))];
    const place = shown.indexOf(number);
    return place < 0 ? [undefined, undefined] : [shown[place - 1], shown[place + 1]];
  }

  function showCase(number, record, kind) {
    const [caseId, finding] = data.cases[number];
    const [before, after] = neighbours(number);
    const link = (to, text, key) => (to === undefined ? null : make("a", { href: `#case/${data.cases[to][0]}`, id: key }, text));
    const facts = [record.path && words(record.path), record.view && `view ${record.view}`, record.sex && `sex ${record.sex}`,
      record.age !== null && `age ${record.age}`, `source ${record.source}`].filter(Boolean).join("; ");
    $("case").replaceChildren(
      make("p", {}, back(), " ", link(before, "← previous case", "case-before"), " ", link(after, "next case →", "case-after"),
        make("span", { class: "pale small" }, "  keys: ← → between cases, Esc back")),
      make("h2", { tabindex: "-1", id: "case-title" }, `Case ${caseId}: ${words(data.findings[finding])}`),
      make("p", { class: "pale" }, facts),
      evidence(record.measures, "Measurements of the case"),
      ...record.items.map((item) => showItem(item, item.kind === kind)));
    $("case-title").focus({ preventScroll: true });
    const target = document.querySelector(".item.target");
    if (target) target.scrollIntoView(); else window.scrollTo(0, 0);
  }

  function showItem(item, isTarget) {
    const right = new Set(item.answer);
    const drawn = item.options.some(([, image]) => image !== null);
    const long = item.options.length > 8;
    const options = drawn ? null : make("ol", { class: `options${long ? "" : " short"}` },
      ...item.options.filter((entry, place) => !long || right.has(place + 1)).map(([text, , color]) => {
        const place = item.options.findIndex((entry) => entry[0] === text && entry[2] === color) + 1;
        return make("li", { value: place, class: right.has(place) ? "key" : null }, text, right.has(place) ? " ✓" : "");
      }));
    const pictures = item.drawn ? [places(item)] : item.pictures.map(([role, image]) => picture(image, words(role), false));
    if (drawn) item.options.forEach(([, image], place) => pictures.push(picture(image, `option ${place + 1}`, right.has(place + 1))));
    const chance = `chance ${percent(item.chance)}, most frequent answer ${percent(item.prior)}`;
    const flags = item.flags.length ? `; flags: ${item.flags.map(words).join(", ")}` : "";
    const key = item.answer.length ? item.answer.map((n) => (item.options[n - 1][0] === null ? `option ${n}` : item.options[n - 1][0])).join("; ") : "no cell can be hit";
    return make("article", { class: `item${isTarget ? " target" : ""}` },
      make("h3", {}, words(item.kind)), make("p", { class: "question" }, item.question),
      make("div", { class: "pictures" }, ...pictures),
      long ? make("p", {}, make("strong", {}, `${item.options.length} options; right: ${key}`)) : options,
      drawn ? make("p", {}, make("strong", {}, `Right: ${key}`)) : null,
      make("p", { class: "pale small" }, chance + flags), evidence(item.evidence, "Evidence behind the key"), said(item));
  }

  function picture(image, caption, isKey) {
    return make("figure", { class: isKey ? "key" : null },
      make("img", { src: `gallery/${image}`, alt: caption }), make("figcaption", {}, caption + (isKey ? " ✓" : "")));
  }

  // A radiograph with the key's place and each answer's place. A legend tells whose is whose; its boxes hide a place.
  function places(item) {
    const [width, height] = item.drawn.size, side = Math.max(width, height), wide = side / 250;
    const lines = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const groups = new Map();
    for (const { letter, color, lines: own, labels } of item.drawn.strokes) {
      const path = own.map((line) => "M" + line.join(" ")).join("");
      const thick = letter === "key" ? 1.7 * wide : wide;
      groups.set(letter, svg("g", { "data-letter": letter },
        svg("path", { d: path, class: "edge", "stroke-width": thick + wide }),
        svg("path", { d: path, stroke: color, "stroke-width": thick }),
        ...labels.map(([text, x, y]) => Object.assign(svg("text", { x, y, fill: color, "stroke-width": wide, "font-size": side / 30 }), { textContent: text }))));
    }
    lines.append(...groups.values());
    const legend = make("ul", { class: "legend" }, entry("key", "#ff4040", "key", item.answer[0] === 1 ? "" : "nowhere"),
      ...data.rows.map((row, number) => {
        const said = item.said[number];
        if (said === null) return null;
        const state = data.states[said[0]], given = said[1] === null ? words(state) : said[1][0] === 1 ? state : `nowhere, ${state}`;
        return entry(row.letter, row.color, data.labels[number], given, row.letter);
      }));
    function entry(letter, color, name, given, shown) {
      const group = groups.get(letter), box = make("input", { type: "checkbox", checked: "" });
      box.disabled = !group;
      box.addEventListener("change", () => { group.style.display = box.checked ? "" : "none"; });
      const patch = make("i", { class: "patch" });
      patch.style.background = color;
      return make("li", {}, make("label", {}, group ? box : make("span", { class: "no-box" }, ""), patch,
        shown ? make("b", {}, shown) : null, make("span", {}, name, given ? make("span", { class: "pale" }, `: ${given}`) : null)));
    }
    const image = make("img", { src: `gallery/${item.pictures[0][1]}`, alt: "radiograph with places" });
    return make("figure", { class: "places" }, make("div", { class: "over" }, image, lines), legend);
  }

  function svg(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function evidence(record, title) {
    const rows = Object.entries(record).filter(([, value]) => value !== null);
    if (!rows.length) return make("span");
    const show = (value) => (typeof value === "number" ? String(Math.round(value * 1e4) / 1e4) : typeof value === "string" ? value : JSON.stringify(value));
    return make("details", { class: "evidence" }, make("summary", {}, title),
      make("table", {}, make("tbody", {}, ...rows.map(([name, value]) => make("tr", {}, make("td", { class: "pale" }, words(name)), make("td", {}, show(value)))))));
  }

  function said(item) {
    const head = make("tr", {}, ...["model", "state", "read as", "reply"].map((name) => make("th", { class: "text" }, name)));
    const rows = item.said.map((entry, row) => {
      if (entry === null) return make("tr", {}, make("td", {}, data.labels[row]), make("td", { class: "pale", colspan: 3 }, "not in its run"));
      const [state, parsed, raw, left, reasoning] = entry;
      const name = data.states[state];
      const more = (count) => (count ? ` … (${count.toLocaleString("en")} more characters in the log)` : "");
      const apart = reasoning ? make("details", {}, make("summary", {}, "reasoning"), make("div", { class: "pale" }, ...plain(reasoning[0]), more(reasoning[1]))) : "";
      const reply = [...plain(raw === null ? "" : raw), more(left)];
      const text = make("td", { class: "raw", dir: "ltr" }, apart, ...(raw !== null && raw.length > 1200 ? [make("div", { class: "long", tabindex: "0" }, ...reply)] : reply));
      const read = parsed === null ? "–" : parsed.map((n) => (item.drawn || item.options.length > 8 ? item.options[n - 1][0] : n)).join(", ");
      return make("tr", {}, make("td", {}, data.labels[row]), make("td", {}, make("span", { class: `state ${name}` }, `${MARKS[name]} ${words(name)}`)), make("td", {}, read), text);
    });
    return make("div", { class: "scroll" }, make("table", { class: "said" }, make("thead", {}, head), make("tbody", {}, ...rows)));
  }

  function keys(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || $("case").hidden || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const link = { ArrowLeft: "case-before", ArrowRight: "case-after" }[event.key];
    if (link && $(link)) $(link).click();
    if (event.key === "Escape") location.hash = "#gallery";
  }

  return { index, chunk };
})();
