// The list: the filters in the address, the controls that change them, and cards.
const A_PAGE = 30;
const CHOICES = ["kind", "finding", "level", "stage", "path", "condition", "flag", "right", "wrong", "model", "protocol", "state", "key", "said", "confidence", "models", "difficulty", "text", "reply"];
const LABELS = { models: "models", right: "right", wrong: "not right", said: "answer", confidence: "confidence from %", text: "text", reply: "in replies" };
const TYPED = ["text", "reply"];
const SPREAD = { differ: "models differ", all_right: "all right", all_wrong: "all wrong" };
const DIFFICULTY = { hard: "hard: under a third right", middle: "middle", easy: "easy: over two thirds right" };
let choice = new URLSearchParams(), matches = [], searched = [], barred = 0, page = 0, memory = null;

// The rows of the chosen protocols; all rows if none is chosen.
const ofProtocols = () => { const chosen = choice.getAll("protocol"); return data.rows.map((_, row) => row).filter((row) => !chosen.length || chosen.includes(data.rows[row].protocol)); };

// The rows whose answers count: those of the chosen models and protocols.
function chosenRows() {
  const models = choice.getAll("model"), protocols = choice.getAll("protocol");
  return data.rows.map((_, row) => row).filter((row) =>
    (!models.length || models.includes(data.rows[row].model)) && (!protocols.length || protocols.includes(data.rows[row].protocol)));
}

// False for pictures without a right answer: of a target, or with a grid of which no cell can be hit.
const canBeRight = (entry) => entry.key !== null && (entry.kind !== "grid_cell" || entry.key !== "");

// Two tests of an entry: does it pass all choices but the search in replies, and do its replies have the searched text?
function passing() {
  const all = Object.fromEntries(CHOICES.map((name) => [name, choice.getAll(name)]));
  const rows = chosenRows(), protocols = all.protocol;
  const rowsOf = (model) => data.rows.map((_, row) => row).filter((row) => data.rows[row].model === model && (!protocols.length || protocols.includes(data.rows[row].protocol)));
  const right = all.right.map(rowsOf), wrong = all.wrong.map(rowsOf);
  const conditions = all.condition.length ? all.condition : ["original"];
  const wanted = (name, value) => !all[name].length || all[name].includes(String(value));
  const key = all.key.map(Number), said = all.said.map(Number), texts = all.text.flatMap((text) => lower(text).split(/\s+/).filter(Boolean));
  const isState = (entry, row) => !all.state.length || all.state.some((state) => (state === "not_correct" ? entry.states[row] !== "0" : stateOf(entry, row) === state));
  const isSaid = (entry, row) => !said.length || said.some((number) => saidOf(entry)[row].includes(number));
  const isSure = (entry, row) => !all.confidence.length || all.confidence.includes(`${entry.sure[row]}0`);
  const isAnswered = (entry, row) => entry.states[row] !== OUTSIDE && isState(entry, row) && isSaid(entry, row) && isSure(entry, row);
  const byRow = all.model.length || protocols.length || all.state.length || said.length || all.confidence.length;
  const found = (entry) => !replies.isOn() || rows.some((row) => isAnswered(entry, row) && replies.isFound(entry, row));
  return [(entry) => {
    if (!conditions.includes(entry.condition) || !wanted("kind", entry.kind) || !wanted("finding", entry.finding) ||
      !wanted("level", entry.level ?? "none") || !wanted("stage", entry.stage) || !wanted("path", entry.path)) return false;
    if (all.flag.length && !all.flag.some((flag) => entry.flags.includes(flag))) return false;
    if (key.length && !key.some((number) => keyOf(entry).includes(number))) return false;
    if (right.some((own) => !own.some((row) => entry.states[row] === "0"))) return false;
    if (wrong.some((own) => !own.some((row) => entry.states[row] !== "0" && isJudged(entry, row)))) return false;
    if (byRow && !rows.some((row) => isAnswered(entry, row))) return false;
    if (all.models.length || all.difficulty.length) {
      if (!canBeRight(entry)) return false;
      const asked = rows.filter((row) => isJudged(entry, row)), share = asked.filter((row) => entry.states[row] === "0").length / asked.length;
      if (!asked.length) return false;
      if (!wanted("models", share === 1 ? "all_right" : share === 0 ? "all_wrong" : "differ")) return false;
      if (!wanted("difficulty", share < 1 / 3 ? "hard" : share <= 2 / 3 ? "middle" : "easy")) return false;
    }
    return texts.every((word) => data.lowTexts[entry.text].includes(word) || data.lowLists[entry.list].includes(word) ||
      lower(entry.id).includes(word) || lower(entry.source).includes(word) || entry.flags.some((flag) => words(flag).includes(word) || flag.includes(word)));
  }, found];
}

// The number of items that pass another choice and are of a sort.
function count(other, isOfSort = () => true) {
  const kept = choice;
  choice = new URLSearchParams(other);
  const [passes] = passing();
  choice = kept;
  return entries.filter((entry) => isOfSort(entry) && passes(entry)).length;
}

// Find the items that pass. The items that are shown first come first. With a search in replies, which reads case after
// case, the items have the order of the cases.
function filter() {
  replies.take(choice.get("reply") ?? "");
  page = 0;
  const [passes, found] = passing();
  searched = entries.filter(passes);
  barred = countBarred();
  const gather = () => { matches = replies.isOn() ? searched.filter(found) : [...searched.filter((entry) => entry.rank !== null).sort((one, other) => one.rank - other.rank), ...searched.filter((entry) => entry.rank === null)]; };
  gather();
  replies.search(searched, () => { gather(); if (!$("list").hidden) cards(); });
}

// The number of items that a filter on shares of right answers leaves out, because no answer to them can be right.
function countBarred() {
  if (!choice.has("models") && !choice.has("difficulty")) return 0;
  return count([...choice].filter(([name]) => name !== "models" && name !== "difficulty"), (entry) => !canBeRight(entry));
}

function address(changes = {}) {
  const next = new URLSearchParams(choice);
  for (const [name, value] of Object.entries(changes)) { next.delete(name); if (value !== null) next.append(name, value); }
  return `#${next}`;
}

function setUp() {
  const counts = (values) => [...new Set(values)];
  const choices = {
    kind: data.kinds.map((kind) => [kind[0], words(kind[0])]), finding: data.findings.map((name) => [name, words(name)]),
    level: [...data.levels, "none"].filter((name) => entries.some((entry) => (entry.level ?? "none") === name)).map((name) => [name, name === "none" ? "no level" : name]),
    path: data.paths.filter((name) => entries.some((entry) => entry.path === name)).map((name) => [name, words(name)]),
    flag: data.flags.map((name) => [name, words(name)]), models: Object.entries(SPREAD), difficulty: Object.entries(DIFFICULTY),
    model: counts(data.rows.map((row) => row.model)).map((name) => [name, name]),
    protocol: counts(data.rows.map((row) => row.protocol)).map((name) => [name, words(name)]),
    state: [["not_correct", "not correct"], ...data.states.filter((_, number) => entries.some((entry) => entry.states.includes(LETTERS[number]))).map((name) => [name, words(name)])],
    condition: ["", ...data.conditions].filter((name) => name !== "original" && (name === "" || entries.some((entry) => entry.condition === name))).map((name) => [name, alteration(name)]),
  };
  choices.right = choices.wrong = choices.model;
  for (const select of document.querySelectorAll(".filters select")) {
    const name = select.name;
    if (choices[name].length < 2) { select.parentElement.hidden = true; continue; }
    for (const [value, label] of choices[name]) if (value) select.append(make("option", { value }, label));
    select.addEventListener("change", () => { location.hash = address({ [name]: select.value || null }); });
  }
  for (const name of TYPED) {
    let typing = null;
    $(name).addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => { history.replaceState(null, "", address({ [name]: $(name).value.trim() || null })); route(); }, 120);
    });
  }
  $("stop").addEventListener("click", () => { if (replies.isStopped()) { replies.goOn(); filter(); } else replies.stop(); cards(); });
  $("clear").addEventListener("click", () => { location.hash = "#"; });
  for (const [id, step] of [["previous", -1], ["next", 1]]) $(id).addEventListener("click", () => { page += step; cards(); window.scrollTo(0, 0); });
}

function showList() {
  for (const select of document.querySelectorAll(".filters select")) select.value = choice.getAll(select.name).at(-1) ?? "";
  for (const name of TYPED) if (document.activeElement !== $(name)) $(name).value = choice.get(name) ?? "";
  const own = [...choice].filter(([name]) => CHOICES.includes(name));
  $("chips").replaceChildren(...own.map(([name, value], number) => {
    const rest = own.filter((_, other) => other !== number);
    return make("a", { href: `#${new URLSearchParams(rest)}`, class: "chip", "aria-label": `remove ${LABELS[name] ?? name}: ${value}` }, shownChoice(name, value), make("b", { "aria-hidden": "true" }, " ×"));
  }));
  $("clear").hidden = !own.length;
  cards();
}

const shownChoice = (name, value) => `${LABELS[name] ?? name}: ${SPREAD[value] ?? words(value)}`;

function cards() {
  const pages = Math.max(1, Math.ceil(matches.length / A_PAGE));
  page = Math.min(Math.max(page, 0), pages - 1);
  const conditions = choice.getAll("condition"), whole = (conditions.length ? conditions : ["original"]).reduce((sum, name) => sum + (data.ofCondition.get(name) ?? 0), 0);
  $("count").textContent = `${matches.length.toLocaleString("en")} of ${whole.toLocaleString("en")} items${pages > 1 ? `; page ${page + 1} of ${pages}` : ""}${barred ? `; not counted: ${barred.toLocaleString("en")} without a possible right answer, such as grids of which no cell can be hit` : ""}${replies.progress(searched)}`;
  $("stop").hidden = !replies.isOpen(searched);
  $("stop").textContent = replies.isStopped() ? "Continue" : "Stop";
  $("previous").disabled = page === 0;
  $("next").disabled = page === pages - 1;
  loosen();
  $("cards").replaceChildren(...matches.slice(page * A_PAGE, (page + 1) * A_PAGE).map(card));
}

// Where no item passes: the choices of which one alone keeps items out, each with the number of items that pass without
// it. A search in replies is not repeated for these numbers.
function loosen() {
  const isNone = !matches.length && !replies.isOpen(searched), own = [...choice].filter(([name]) => CHOICES.includes(name));
  $("loosen").hidden = !isNone;
  if (!isNone) return;
  const most = replies.isOn() ? "up to " : "";
  const lines = own.map(([name, value], number) => {
    const rest = own.filter((_, other) => other !== number), found = count(rest);
    return found ? make("li", {}, make("a", { href: `#${new URLSearchParams(rest)}` }, `without ${shownChoice(name, value)}`), `: ${name === "reply" ? "" : most}${found.toLocaleString("en")} ${found === 1 ? "item" : "items"}`) : null;
  }).filter(Boolean);
  $("loosen").replaceChildren(make("p", {}, lines.length ? "No item passes all filters. Leave one out:" : "No item passes all filters, and none passes if one of them is left out: ", lines.length ? null : make("a", { href: "#" }, "all items")), make("ul", {}, ...lines));
}

function card(entry) {
  const rows = chosenRows(), asked = askedRows(entry).filter((row) => rows.includes(row));
  const shown = entry.condition === "original" || isSame(entry) ? entry.card : [...(data.byId.get(entry.id.split("@")[0])?.card ?? []), ...entry.card];
  const pictures = make("div", { class: `pictures n${Math.min(shown.length, 4)}` }, ...shown.map((number) => picture(number, "")));
  if (entry.level === "semantic" && entry.condition === "original") outlined(pictures, entry);
  const names = (state, chosen) => chosen.length ? make("span", { class: `names ${state}`, title: listed(chosen) },
    make("b", {}, `${MARKS[state]} ${chosen.length}`), ...grouped(chosen).flatMap(([protocol, models]) => [protocol ? make("i", {}, ` ${protocol}:`) : null, ...models.flatMap((model, place) => [" ", make("span", {}, model + (place < models.length - 1 ? "," : ""))])])) : null;
  const by = new Map();
  for (const row of asked) { const state = stateOf(entry, row), group = ["correct", "changed", "kept", "frame not proved"].includes(state) ? state : "wrong"; by.set(group, [...(by.get(group) ?? []), row]); }
  return make("li", {}, make("a", { href: address({ item: entry.id }) }, pictures,
    make("div", { class: "about" }, make("strong", {}, words(entry.kind)), make("span", { class: "pale" }, ` ${words(entry.finding)}${entry.condition === "original" ? "" : `, ${alteration(entry.condition)}`}`),
      ...entry.flags.map((flag) => make("span", { class: `flag ${flag === "contested" ? "contested" : ""}` }, words(flag))),
      names("correct", by.get("correct") ?? []), names("wrong", by.get("wrong") ?? []), names("changed", by.get("changed") ?? []), names("kept", by.get("kept") ?? []), names("frame not proved", by.get("frame not proved") ?? []), replies.excerpt(entry, asked))));
}

// True if an altered question shows the pictures of its original, such as a question in other words.
const isSame = (entry) => entry.condition !== "original" && String(data.byId.get(entry.id.split("@")[0])?.card) === String(entry.card);

// The lesion's outline over the radiograph of a card, once its file is there.
function outlined(pictures, entry) {
  const draw = () => loadOutline(entry).then((outline) => {
    if (outline) pictures.append(svg("svg", { viewBox: `0 0 ${outline.size.join(" ")}`, "aria-hidden": "true" }, svg("path", { d: outline.lesion, class: "lesion" })));
  }, () => {});
  if (outlines.has(entry.caseId)) draw();
  else new IntersectionObserver((seen, observer) => { if (seen.some((one) => one.isIntersecting)) { observer.disconnect(); draw(); } }, { rootMargin: "300px" }).observe(pictures);
}
