"use strict";
// Data of the gallery: scripts beside the page call the functions of `gallery`. Untrusted text is only ever set as text.
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const OUTSIDE = "-", LETTERS = "0123456789abc";
const MARKS = { correct: "✓", wrong: "✗", unparsed: "?", truncated: "…", refused: "!", empty: "0", overflow: "↑", error: "E", not_asked: "·", changed: "≠", kept: "=", "no original": "·", "frame not proved": "~" };
const images = new Map(), outlines = new Map(), packs = new Map(), scripts = new Map();
let data = null, entries = [];

const $ = (id) => document.getElementById(id);
const words = (name) => name.replaceAll("_", " ");
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const lower = (text) => (text || "").toLowerCase();

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, typeof value === "string" ? value.replace(CONTROL, "\ufffd") : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (typeof child === "string" ? child.replace(CONTROL, "\ufffd") : child)));
  return node;
}

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Invisible and direction-changing characters are shown by name.
function plain(text) {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(CONTROL)) {
    const code = "U+" + found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(text.slice(last, found.index), make("span", { class: "mark" }, `[${code}]`));
    last = found.index + found[0].length;
  }
  parts.push(text.slice(last));
  return parts;
}

const gallery = {
  index(record) {
    data = record;
    data.several = new Set(data.rows.map((row) => row.protocol)).size > 1;
    data.labels = data.rows.map((row) => (data.several ? `${row.model} (${words(row.protocol)})` : row.model));
    entries = data.items.map(([place, kind, id, states, said, key, flags, text, list, card, condition, sure], number) => ({
      number, place, kind: data.kinds[kind][0], level: data.kinds[kind][1], stage: data.kinds[kind][2], form: data.kinds[kind][3],
      id, states, said, key, flags: flags.map((flag) => data.flags[flag]), text, list, card, condition: data.conditions[condition], sure,
      caseId: data.cases[place][0], finding: data.findings[data.cases[place][1]], path: data.paths[data.cases[place][2]] || null,
      source: data.cases[place][3],
    }));
    data.byId = new Map(entries.map((entry) => [entry.id, entry]));
    for (const entry of entries) entry.rank = null;
    data.chosen.forEach((number, rank) => { entries[number].rank = rank; });
    data.ofCondition = new Map(data.conditions.map((name) => [name, entries.filter((entry) => entry.condition === name).length]));
    data.lowTexts = data.texts.map(lower);
    data.lowLists = data.lists.map((list) => lower(list.map((option) => option[0]).join("\n")));
  },
  pictures(own, drawn) {
    for (const [number, picture] of Object.entries(own)) images.set(Number(number), picture);
    for (const [caseId, outline] of Object.entries(drawn)) outlines.set(caseId, outline);
  },
  cases(number, packed) { packs.set(number, packed); },
};

// Names of rows, grouped by protocol if there are several, those of chosen models first: a list of [protocol, names].
function grouped(rows) {
  const models = choice.getAll("model"), found = new Map(), isFirst = (row) => models.includes(data.rows[row].model);
  for (const row of [...rows.filter(isFirst), ...rows.filter((row) => !isFirst(row))]) {
    const { model, protocol } = data.rows[row];
    found.set(protocol, [...(found.get(protocol) ?? []), model]);
  }
  return [...found].map(([protocol, names]) => [data.several ? words(protocol) : null, names]);
}
const listed = (rows) => grouped(rows).map(([protocol, names]) => (protocol ? `${protocol}: ` : "") + names.join(", ")).join("; ");

const stateOf = (entry, row) => data.states[LETTERS.indexOf(entry.states[row])] || null;
// False where no answer was asked for, and for a place in a coordinate system that is not proved.
const isJudged = (entry, row) => entry.states[row] !== OUTSIDE && stateOf(entry, row) !== "frame not proved";
const askedRows = (entry) => data.rows.map((_, row) => row).filter((row) => entry.states[row] !== OUTSIDE);
const saidOf = (entry) => (entry.saidRows ??= entry.said.split(",").map((one) => (one ? one.split(".").map(Number) : [])));
const keyOf = (entry) => (entry.key ? entry.key.split(".").map(Number) : []);
const options = (entry) => data.lists[entry.list];

// The name of an option by its number, as a reader would say it.
function optionName(entry, number) {
  const option = options(entry)[number - 1];
  return option && option[0] !== null ? option[0] : `option ${number}`;
}

// The difference from the original item, in words: the picture, the wording, or a false history.
const ALTERED = { target: "lesion filled in", irrelevant: "other lung tissue filled in", partial: "a part of the lesion filled in", mirror: "left and right exchanged" };
function alteration(condition) {
  if (ALTERED[condition]) return `${condition} picture: ${ALTERED[condition]}`;
  if (condition === "history") return "after a false history";
  return condition.startsWith("wording-") ? `in other words (${condition.slice(8)})` : `${condition} picture`;
}

function script(name) {
  if (!scripts.has(name)) {
    scripts.set(name, new Promise((done, failed) => {
      const node = make("script", { src: `gallery/${name}.js` });
      node.addEventListener("load", done);
      node.addEventListener("error", () => { scripts.delete(name); failed(new Error(`gallery/${name}.js`)); });
      document.head.append(node);
    }));
  }
  return scripts.get(name);
}

const numbered = (name, number) => `${name}-${String(number).padStart(3, "0")}`;
const fileOfCase = (entry) => Math.floor(entry.place / data.ofFile);

function fileOfPicture(number) {
  let low = 0, high = data.firstPictures.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (data.firstPictures[middle] <= number) low = middle; else high = middle - 1;
  }
  return low;
}

// A picture's address. A drawing over a radiograph is stored as the radiograph's number and the drawing alone.
const sources = new Map();
function loadPicture(number) {
  if (!sources.has(number)) {
    sources.set(number, decodePicture(number));
    sources.get(number).catch(() => sources.delete(number));
  }
  return sources.get(number);
}

async function decodePicture(number) {
  if (!images.has(number)) await script(numbered("pictures", fileOfPicture(number)));
  const [packed, below] = images.get(number).split(":").reverse();
  const source = `data:image/${packed.startsWith("UklGR") ? "webp" : packed.startsWith("iVBOR") ? "png" : "jpeg"};base64,${packed}`;
  if (below === undefined) return source;
  const layers = await Promise.all([await loadPicture(Number(below)), source].map(async (one) => { const layer = new Image(); layer.src = one; await layer.decode(); return layer; }));
  const board = make("canvas", { width: String(layers[0].naturalWidth), height: String(layers[0].naturalHeight) }), pen = board.getContext("2d");
  for (const layer of layers) pen.drawImage(layer, 0, 0);
  return board.toDataURL("image/jpeg", 0.9);
}

async function loadOutline(entry) {
  if (!outlines.has(entry.caseId)) await script(numbered("pictures", fileOfCase(entry)));
  return outlines.get(entry.caseId) || null;
}

// The records of a file of cases; it stays packed until one of its cases is opened.
async function unpacked(number) {
  await script(numbered("cases", number));
  const record = packs.get(number);
  if (typeof record !== "string") return record;
  const bytes = Uint8Array.from(atob(record), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

async function loadCase(entry) {
  const number = fileOfCase(entry), record = await unpacked(number);
  packs.set(number, record);
  return record[entry.caseId];
}

// An image that is loaded when it comes into view, or at once.
const waiting = new IntersectionObserver((seen) => {
  for (const one of seen) if (one.isIntersecting) { waiting.unobserve(one.target); fill(one.target); }
}, { rootMargin: "300px" });

function fill(node) {
  return loadPicture(Number(node.dataset.number)).then((source) => { node.src = source; }, () => { node.alt = "picture is missing"; });
}

function picture(number, alt, atOnce = false) {
  const node = make("img", { alt, "data-number": number });
  if (atOnce || images.has(number)) fill(node); else waiting.observe(node);
  return node;
}
