// An item's page: its pictures with key and answers drawn on them, options, evidence, every reply, its conversation.
const GRID = 8;

function back() { return make("a", { href: address(), id: "back" }, "← All items"); }

function showItem(entry, record, outline) {
  const own = record.items[entry.id], place = matches.indexOf(entry);
  const original = entry.condition === "original" ? null : data.byId.get(entry.id.split("@")[0]) ?? null;
  const step = (to, text, key) => (matches[to] ? make("a", { href: address({ item: matches[to].id }), id: key }, text) : make("span", { class: "pale" }, text));
  const facts = [record.view && `view ${record.view}`, record.sex && `sex ${record.sex}`, record.age !== null && `age ${record.age}`, entry.path && words(entry.path), `source ${record.source}`].filter(Boolean).join(" · ");
  const drawing = original ? null : new Drawing(entry, own, record, outline);
  // Beside a picture the answers stay in sight of what is drawn on it.
  const said = [make("h3", {}, "Answers"), ...byProtocol(entry, own, drawing, original, record)];
  $("item").replaceChildren(
    make("p", { class: "bar" }, back(), make("span", { class: "turn" }, step(place - 1, "← previous", "before"), make("span", { class: "pale" }, place < 0 ? "" : ` ${(place + 1).toLocaleString("en")} of ${matches.length.toLocaleString("en")} `), step(place + 1, "next →", "after"))),
    make("h2", { tabindex: "-1", id: "item-title" }, `${words(entry.kind)}: ${words(entry.finding)}${original ? ` (${alteration(entry.condition)})` : ""}`),
    make("p", { class: "pale small" }, facts, ...entry.flags.map((flag) => make("span", { class: `flag ${flag === "contested" ? "contested" : ""}` }, words(flag)))),
    steps(entry),
    make("div", { class: "sides" },
      original ? pair(original, entry) : drawing.node,
      make("div", { class: "words" }, make("p", { class: "question" }, ...plain(data.texts[entry.text])),
        original && original.text !== entry.text ? make("p", { class: "pale" }, "Original: ", ...plain(data.texts[original.text])) : null, optionList(entry, own), keyLine(entry, own),
        own.why ? make("p", { class: "why" }, make("b", {}, "Why: "), own.why) : null,
        details("Measurements", own.evidence, own.difficulty, own.review), details("The case's measurements", record.measures), ...(drawing ? said : []))),
    ...(drawing ? [] : said),
    ...altered(entry, record), conversation(entry, record));
  document.title = `${words(entry.kind)}: ${words(entry.finding)}`;
  $("item-title").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

// The questions of the case, in the order of asking, with the number of models that are right.
function steps(entry) {
  const others = entries.filter((other) => other.place === entry.place && other.condition === "original");
  return make("nav", { class: "steps", "aria-label": "Questions of this case" }, ...others.map((other) => {
    const asked = shownRows(other).filter((row) => isJudged(other, row)), right = asked.filter((row) => other.states[row] === "0").length;
    return make("a", { href: address({ item: other.id }), "aria-current": other === entry ? "page" : null }, words(other.kind), make("small", {}, ` ${right}/${asked.length}`));
  }));
}

// The rows that were asked the item under a chosen protocol; all asked rows if there is no such row.
function shownRows(entry) {
  const asked = askedRows(entry), chosen = new Set(ofProtocols()), own = asked.filter((row) => chosen.has(row));
  return own.length ? own : asked;
}

// The shown rows that named each option.
function bySaid(entry) {
  const found = new Map(), shown = new Set(shownRows(entry));
  saidOf(entry).forEach((numbers, row) => shown.has(row) && numbers.forEach((number) => found.set(number, [...(found.get(number) ?? []), row])));
  return found;
}

function optionList(entry, own) {
  if (own.drawn) return null;
  const said = bySaid(entry), key = new Set(keyOf(entry)), asked = shownRows(entry).length || 1, all = options(entry);
  let shown = all.map((_, index) => index + 1);
  if (all.length > 10) shown = shown.filter((number) => key.has(number) || said.has(number)).sort((one, other) => key.has(other) - key.has(one) || (said.get(other)?.length ?? 0) - (said.get(one)?.length ?? 0));
  const list = make("ol", { class: "options" }, ...shown.map((number) => {
    const rows = said.get(number) ?? [], [, color, letter] = all[number - 1];
    const bar = make("i", { class: "share" });
    bar.style.width = `${100 * rows.length / asked}%`;
    const dot = color ? make("i", { class: "dot" }) : null;
    if (dot && CSS.supports("color", color)) dot.style.background = color;
    return make("li", { class: key.has(number) ? "key" : null, value: number }, make("div", {}, dot, ...plain(optionName(entry, number)), key.has(number) ? make("b", { class: "tag" }, "key") : null),
      make("div", { class: "meter", title: listed(rows) }, bar), make("small", { class: "pale" }, rows.length ? `${rows.length}${data.several ? " · " : ": "}${listed(rows)}` : "no answer"));
  }));
  return all.length > 10 ? make("div", {}, make("p", { class: "pale small" }, `${all.length} options; these are in the key or were answered:`), list) : list;
}

function keyLine(entry, own) {
  const said = entry.key === null ? "This picture has no right answer. An answer counts as changed if it differs from the answer to the original, from yes to no or from no to yes." :
    `Key: ${keyOf(entry).map((number) => optionName(entry, number)).join("; ") || "no cell can be hit: the area fills none to the share asked, and the published rule counts no other"}`;
  const chance = own.chance === undefined ? "" : ` · chance ${percent(own.chance)} · most frequent answer ${percent(own.frequent)}`;
  return make("p", {}, make("b", {}, said), make("span", { class: "pale" }, chance));
}

function details(title, ...records) {
  const rows = records.flatMap((record) => Object.entries(record ?? {})).filter(([, value]) => value !== null);
  if (!rows.length) return null;
  const show = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  return make("details", { class: "evidence" }, make("summary", {}, title), make("table", {}, make("tbody", {}, ...rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, words(name)), make("td", {}, ...plain(show(value))))))));
}

// Pictures of an item, the large one with drawings: the lesion, the key, and how many answers name each place.
class Drawing {
  constructor(entry, own, record, outline) {
    Object.assign(this, { entry, own });
    this.size = own.drawn?.size ?? outline?.size ?? (record.measures.working_size ? [...record.measures.working_size].reverse() : [1024, 1024]);
    this.lines = svg("svg", { viewBox: `0 0 ${this.size.join(" ")}`, "aria-hidden": "true" });
    this.layers = { lesion: svg("g"), key: svg("g"), answers: svg("g"), one: svg("g") };
    this.wide = Math.max(...this.size) / 250;
    this.lines.append(...Object.values(this.layers));
    if (outline?.lesion) this.layers.lesion.append(svg("path", { d: outline.lesion, class: "lesion", "stroke-width": this.wide / 1.6 }));
    const boxes = Object.keys(this.layers).filter((name) => name !== "one");
    if (own.options) this.node = this.optionPictures();
    else {
      const last = own.pictures.length - 1;
      this.image = picture(own.pictures[last][1], words(own.pictures[last][0]), true);
      const others = own.pictures.length < 2 ? null : make("div", { class: "others", role: "group", "aria-label": "pictures of the question" }, ...own.pictures.map(([role, number]) => {
        const button = make("button", { type: "button" }, picture(number, words(role), true), make("small", {}, words(role)));
        button.addEventListener("click", () => { this.image.dataset.number = number; this.image.alt = words(role); fill(this.image); });
        return button;
      }));
      this.draw();
      const present = boxes.filter((name) => this.layers[name].childNodes.length);
      const bar = make("p", { class: "layers" }, ...present.map((name) => {
        const box = make("input", { type: "checkbox", checked: "" });
        box.addEventListener("change", () => { this.layers[name].style.display = box.checked ? "" : "none"; });
        return make("label", {}, box, { lesion: "lesion's outline", key: "key", answers: "answers" }[name]);
      }));
      this.node = make("figure", { class: "large" }, make("div", { class: "over" }, this.image, this.lines), present.length ? bar : null, others, this.legend ?? null);
    }
  }

  path(d, name, color = null) {
    return [svg("path", { d, class: "edge", "stroke-width": 2 * this.wide }), svg("path", { d, class: name, stroke: color, "stroke-width": this.wide })];
  }

  text(words, x, y, name) {
    const node = svg("text", { x, y, class: name, "font-size": 7 * this.wide, "stroke-width": 1.5 * this.wide });
    node.textContent = words;
    return node;
  }

  // Where an option lies: its outline and the middle of its label; null for an option that is no place.
  shape(number) {
    const [width, height] = this.size;
    if (this.entry.form === "cell") {
      const edge = (side, place) => Math.round((side * place) / GRID), column = (number - 1) % GRID, row = Math.floor((number - 1) / GRID);
      const [x0, x1, y0, y1] = [edge(width, column), edge(width, column + 1), edge(height, row), edge(height, row + 1)];
      return { d: `M${x0} ${y0}H${x1}V${y1}H${x0}Z`, at: [(x0 + x1) / 2, (y0 + y1) / 2] };
    }
    const given = this.own.shapes?.[number];
    if (given === undefined) return null;
    if (typeof given === "string") {
      const numbers = [...given.matchAll(/[ML](\d+) (\d+)/g)].map((found) => [Number(found[1]), Number(found[2])]);
      const middle = (axis) => numbers.reduce((sum, point) => sum + point[axis], 0) / (numbers.length || 1);
      return { d: given, at: [middle(0), middle(1)] };
    }
    const [x, y] = given, r = 4.5 * this.wide;
    return { d: `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`, at: [x, y + 10 * this.wide] };
  }

  draw() {
    if (this.own.drawn) { this.places(); return; }
    const said = bySaid(this.entry), key = new Set(keyOf(this.entry));
    for (let number = 1; number <= options(this.entry).length; number += 1) {
      const shape = this.shape(number), rows = said.get(number) ?? [];
      if (shape === null) continue;
      if (key.has(number)) this.layers.key.append(...this.path(shape.d, "key"));
      else if (typeof this.own.shapes?.[number] === "string") this.layers.key.append(...this.path(shape.d, "other"));
      if (rows.length) this.layers.answers.append(this.text(String(rows.length), ...shape.at, "said"));
    }
  }

  // Show the answer of one model alone in its colour; null shows all again.
  show(row) {
    this.layers.one.replaceChildren();
    this.layers.answers.style.opacity = row === null ? "" : ".15";
    if (row === null || this.own.options) { for (const figure of this.figures ?? []) figure.classList.toggle("said", row !== null && saidOf(this.entry)[row].includes(Number(figure.dataset.option))); return; }
    if (this.groups) { const group = this.groups.get(data.rows[row].letter); if (group) this.layers.one.append(group.cloneNode(true)); return; }
    for (const number of saidOf(this.entry)[row]) {
      const shape = this.shape(number);
      if (shape) this.layers.one.append(...this.path(shape.d, "mine", data.rows[row].color));
    }
  }

  // Answers that are places by coordinates: the key's and every model's, with letters.
  places() {
    this.groups = new Map();
    for (const { letter, color, lines, labels } of this.own.drawn.strokes) {
      const group = svg("g", { "data-letter": letter }, ...lines.flatMap((line) => this.path("M" + line.join(" "), "stroke", color)),
        ...labels.map(([text, x, y]) => { const node = this.text(text, x, y, "letter"); node.setAttribute("fill", color); return node; }));
      this.groups.set(letter, group);
      this.layers[letter === "key" ? "key" : "answers"].append(group);
    }
    const line = (letter, color, name, given) => {
      const group = this.groups.get(letter), box = group ? make("input", { type: "checkbox", checked: "" }) : make("span", { class: "no-box" });
      if (group) box.addEventListener("change", () => { group.style.display = box.checked ? "" : "none"; });
      const patch = make("i", { class: "dot" });
      patch.style.background = color;
      return make("li", {}, make("label", {}, box, patch, letter === "key" ? null : make("b", {}, letter), make("span", {}, name, given ? make("span", { class: "pale" }, `: ${given}`) : null)));
    };
    this.legend = make("ul", { class: "legend" }, line("key", "#ff4040", "key", this.entry.key === "1" ? "" : "nowhere"), ...askedRows(this.entry).map((row) => {
      const given = saidOf(this.entry)[row], state = words(stateOf(this.entry, row));
      return line(data.rows[row].letter, data.rows[row].color, data.labels[row], !given.length || given[0] === 1 ? state : `nowhere, ${state}`);
    }));
  }

  optionPictures() {
    const said = bySaid(this.entry), key = new Set(keyOf(this.entry));
    this.figures = this.own.options.map((number, index) => {
      const count = said.get(index + 1)?.length ?? 0;
      return make("figure", { class: key.has(index + 1) ? "key" : null, "data-option": index + 1 }, picture(number, `option ${index + 1}`, true), make("figcaption", {}, `option ${index + 1}`, key.has(index + 1) ? make("b", { class: "tag" }, "key") : null, make("span", { class: "pale" }, ` ${count} ${count === 1 ? "answer" : "answers"}`)));
    });
    return make("div", { class: "four" }, ...this.figures);
  }
}

// The original and the altered picture of a question, side by side.
function pair(original, entry) {
  const figure = (number, name) => make("figure", {}, picture(number, name, true), make("figcaption", {}, name));
  if (isSame(entry)) return make("div", { class: "pair" }, ...entry.card.map((number) => figure(number, "the same picture")));
  const several = (place) => (entry.card.length > 1 ? `, option ${place + 1}` : "");
  return make("div", { class: "pair" }, ...entry.card.flatMap((number, place) => [figure(original.card.at(place - entry.card.length), `original${several(place)}`), figure(number, `${entry.condition}${several(place)}`)]));
}

function badge(state) { return make("span", { class: `state ${state}` }, `${MARKS[state] ?? "?"} ${words(state)}`); }

function reading(entry, numbers) { return numbers.length ? numbers.map((number) => optionName(entry, number)).join("; ") : "–"; }

// The answers under the chosen protocols, and those under the others folded.
function byProtocol(entry, own, drawing, original, record) {
  const asked = askedRows(entry), shown = shownRows(entry), others = asked.filter((row) => !shown.includes(row));
  const names = (rows, name) => [...new Set(rows.map((row) => data.rows[row][name]))], count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
  const said = (rows) => `${count(rows.length, "answer", "answers")} of ${count(names(rows, "model").length, "model", "models")} under ${count(names(rows, "protocol").length, "protocol", "protocols")}`;
  const table = (rows) => answers(entry, own, drawing, original, record, rows);
  if (!data.several) return [table(shown)];
  return [make("p", { class: "pale small" }, `${said(asked)}${others.length ? `; counted above and shown here: ${names(shown, "protocol").map(words).join(", ")}` : ""}`), table(shown),
    others.length ? make("details", { class: "other-protocols" }, make("summary", {}, `${said(others)}: ${names(others, "protocol").map(words).join(", ")}`), table(others)) : null].filter(Boolean);
}

function answers(entry, own, drawing, original, record, wanted = askedRows(entry)) {
  const before = original ? record.items[original.id] : null;
  const heads = ["model", "state", ...(before ? ["to the original", isSame(entry) ? "to this question" : "to this picture"] : ["read as"]), "reply"];
  const more = (count) => (count ? ` … (${count.toLocaleString("en")} more characters in the log)` : "");
  const models = choice.getAll("model"), rank = (row) => (models.includes(data.rows[row].model) ? 0 : 1);
  const rows = [...wanted].sort((one, other) => rank(one) - rank(other)).map((row) => {
    const said = own.said[row];
    if (!said) return null;
    const [state, parsed, raw, left, reasoning] = said, text = [...replies.marked(raw ?? ""), more(left)];
    const apart = reasoning ? make("details", { open: replies.has(reasoning[0]) ? "" : null }, make("summary", {}, "reasoning"), make("div", { class: "long pale", tabindex: "0" }, ...replies.marked(reasoning[0]), more(reasoning[1]))) : null;
    const reply = (raw ?? "").length > 400 ? make("details", { open: replies.has(raw) ? "" : null }, make("summary", {}, ...plain(raw.slice(0, 160).replace(/\s+/g, " ")), " …"), make("div", { class: "long", tabindex: "0" }, ...text)) : make("div", {}, ...text);
    const name = drawing ? make("button", { type: "button", class: "who", "aria-pressed": "false", title: "show this answer alone" }, data.labels[row]) : make("span", {}, data.labels[row]);
    if (drawing) name.addEventListener("click", () => {
      const on = name.getAttribute("aria-pressed") !== "true";
      for (const other of document.querySelectorAll("#item .who")) other.setAttribute("aria-pressed", "false");
      name.setAttribute("aria-pressed", String(on));
      drawing.show(on ? row : null);
    });
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "badge" }, badge(data.states[state])),
      before ? make("td", { "data-head": heads[2] }, before.said[row] ? reading(original, before.said[row][1] ?? []) : "–") : null,
      make("td", { "data-head": heads.at(-2) }, reading(entry, parsed ?? [])), make("td", { class: "raw", dir: "ltr" }, apart, reply));
  });
  return make("div", { class: "scroll", tabindex: "0" }, make("table", { class: "said" }, make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...rows)));
}

// The same question with altered pictures, each beside the original with both answers.
function altered(entry, record) {
  if (entry.condition !== "original") return [];
  return entries.filter((other) => other.id.startsWith(`${entry.id}@`)).flatMap((other) => [
    make("h3", {}, make("a", { href: address({ item: other.id, condition: other.condition }) }, alteration(other.condition))),
    make("div", { class: "sides even" }, pair(entry, other), answers(other, record.items[other.id], null, entry, record)),
  ]);
}

// What one model was asked and said about this case, one question after the other.
function conversation(entry, record) {
  const others = entries.filter((other) => other.place === entry.place && other.condition === "original" && record.items[other.id]);
  const select = make("select", { "aria-label": "model" }, ...askedRows(entry).map((row) => make("option", { value: row }, data.labels[row])));
  const turns = make("ol", { class: "turns" });
  const tell = () => turns.replaceChildren(...others.map((other) => {
    const own = record.items[other.id], said = own.said[Number(select.value)];
    const shown = (own.options ?? own.pictures.slice(-1).map((one) => one[1])).map((number) => picture(number, ""));
    return make("li", {}, make("div", { class: "small-pictures" }, ...shown), make("p", { class: "question" }, make("a", { href: address({ item: other.id }) }, words(other.kind)), ": ", ...plain(data.texts[other.text])),
      said ? make("blockquote", { dir: "ltr" }, badge(data.states[said[0]]), " ", ...plain(said[2] ?? "")) : make("p", { class: "pale" }, "not asked"));
  }));
  select.addEventListener("change", tell);
  const node = make("details", { class: "conversation" }, make("summary", {}, "The whole conversation of this case"), make("p", {}, make("label", {}, "with ", select)), turns);
  node.addEventListener("toggle", () => { if (node.open && !turns.childNodes.length) tell(); });
  return node;
}
