"use strict";
// The window: one row at a time, its keys and buttons, progress, saving and opening.
let at = 0, seen = new Set(), handle = null, cellTyped = "", wantsCell = false;
const row = () => DATA.rows[at];
const several = () => row().several > 0;
// A row with verdicts but without a proposal: the key is one of the answers that others gave, and is not marked.
const withoutProposal = () => !DATA.blind && !DATA.masks && !row().proposed;
const answerTitle = () => (DATA.blind ? TITLES.answer : TITLES.corrected);
const filled = () => ({ ...answers.of(row().id) });
const message = (text) => { byId("message").textContent = text; };

function cellsShown(shown) {
  if (!shown.grid) return {};
  const said = answers.of(shown.id)[answerTitle()] ?? "";
  return { proposed: (shown.proposed ?? "").match(/\b[A-H][1-8]\b/g) ?? [], chosen: said.match(/\b[A-H][1-8]\b/gi)?.map((c) => c.toUpperCase()) ?? [] };
}
// Whether the outline has been on the screen: only then can it be accepted.
function onPicture() {
  if (!plates.length || !plates.every((plate) => plate.shown)) return;
  document.body.dataset.shown = String(at);
  if (row().start.every((kind) => view.layers.has(kind))) seen.add(row().id);
}

function put(cells, typing = false) {
  if (answers.locked) { message("This part is closed, so its answers cannot be changed."); return false; }
  const kept = Object.fromEntries(Object.entries(cells).filter(([, text]) => text !== "").sort(([a], [b]) => (a < b ? -1 : 1)));
  message("");
  return answers.set(row().id, kept, typing);
}
function withoutAnswer(cells) {
  delete cells[answerTitle()];
  for (const title of Object.keys(cells)) if (title.startsWith(TITLES.option)) delete cells[title];
  return cells;
}
function judge(verdict) {
  if (DATA.blind) return;
  const cells = filled();
  if (withoutProposal() && (verdict === "accept" || verdict === "fix")) { message("No answer is proposed: choose the right one."); return; }
  if (cells[TITLES.verdict] === verdict) { delete cells[TITLES.verdict]; put(withoutAnswer(cells)); return; }
  if (verdict === "accept" && !seen.has(row().id)) {
    for (const kind of row().start) view.layers.add(kind);
    drawAll();
    onPicture();
    if (!seen.has(row().id)) { message("The picture has not been shown yet, so it cannot be accepted."); return; }
    message("The outline is shown now; look at it, then accept.");
    return;
  }
  if (verdict !== "fix") withoutAnswer(cells);
  if (verdict === "accept") delete cells[TITLES.reason];
  cells[TITLES.verdict] = verdict;
  put(cells);
  wantsCell = verdict === "fix" && row().grid;
  cellTyped = "";
  if (wantsCell) message("Type the right cell, such as F4, or click it.");
}
function choose(number) {
  const shown = row();
  if (placer.asked()) { placer.choose(number); return; }
  if (DATA.masks || shown.grid || number > shown.options.length) return;
  const cells = filled();
  if (!DATA.blind) cells[TITLES.verdict] = "fix";
  if (several()) {
    const title = `${TITLES.option}${number}`, last = `${TITLES.option}${shown.options.length}`;
    if (cells[title]) delete cells[title];
    else {
      if (title === last) withoutAnswer(cells); else delete cells[last];
      cells[title] = "yes";
    }
  } else if (cells[answerTitle()] === shown.choices[number - 1]) delete cells[answerTitle()];
  else cells[answerTitle()] = shown.choices[number - 1];
  if (withoutProposal() && !isAnswered(cells)) delete cells[TITLES.verdict];
  // The proposed answer itself is no correction.
  if (!DATA.blind && sameAsProposed(cells)) { put(withoutAnswer({ ...cells, [TITLES.verdict]: "" })); judge("accept"); return; }
  put(cells);
}
const isAnswered = (cells) => Object.keys(cells).some((title) => cells[title] && (title === answerTitle() || title.startsWith(TITLES.option)));
// In training: what the key says, once an answer is given.
function feedbackOn(cells) {
  const told = row().feedback;
  if (!told || !isAnswered(cells)) return "";
  const word = !told.right.length ? "" : told.right.includes(cells[answerTitle()]) ? "Right. " : "The key says otherwise. ";
  return word + told.text;
}
function numbersOf(cells) {
  if (several()) return row().options.map((_, i) => i + 1).filter((n) => cells[`${TITLES.option}${n}`]);
  const place = row().choices.indexOf(cells[answerTitle()]);
  return place < 0 ? [] : [place + 1];
}
function proposedNumbers(shown) {
  const lines = new Set((shown.proposed ?? "").split("\n"));
  return shown.options.map((text, i) => (lines.has(text) ? i + 1 : 0)).filter(Boolean);
}
function sameAsProposed(cells) {
  const proposed = proposedNumbers(row());
  return proposed.length > 0 && String(numbersOf(cells)) === String(proposed);
}
function chooseCell(name) {
  const cells = filled();
  if (!DATA.blind) cells[TITLES.verdict] = "fix";
  cells[answerTitle()] = name;
  wantsCell = false;
  cellTyped = "";
  put(cells);
}
function clicked(plate, place) {
  if (placer.click(plate, place)) return;
  if (!row().grid || place.x < 0 || place.y < 0 || place.x >= 1 || place.y >= 1) return;
  chooseCell("ABCDEFGH"[Math.floor(place.x * 8)] + (Math.floor(place.y * 8) + 1));
}
function reason(word) {
  const cells = filled();
  if (word === "wrong answer" && cells[TITLES.verdict] === "accept") { message("This answer is accepted. If it is wrong, choose the right one, or press f first."); return; }
  cells[TITLES.reason] = cells[TITLES.reason] === word ? "" : word;
  put(cells);
}

function show(index) {
  editor.stop();
  endComment();
  at = Math.min(DATA.rows.length - 1, Math.max(0, index));
  delete document.body.dataset.shown;
  const shown = row();
  cellTyped = "";
  wantsCell = shown.grid && (DATA.blind || withoutProposal());
  for (const word of ["accept", "fix"]) { const button = document.querySelector(`[data-verdict=${word}]`); if (button) button.hidden = withoutProposal(); }
  byId("question").textContent = shown.question;
  byId("question").className = shown.question.length > 160 ? "long" : "";
  byId("state").hidden = !shown.state;
  byId("state").textContent = shown.state ? `said to be ${shown.state}` : "";
  byId("proposed").textContent = shown.proposed ?? "";
  for (const [box, text, value] of [["why", "evidence", shown.evidence], ["marks", "flags", shown.flags]]) {
    byId(box).hidden = !value;
    byId(text).textContent = value ?? "";
  }
  byId("others").hidden = !shown.votes.length;
  byId("votes").replaceChildren(...shown.votes.map((text) => { const line = document.createElement("li"); line.textContent = text; return line; }));
  const proposed = proposedNumbers(shown);
  // Where options are listed, the proposed ones are marked among them.
  byId("proposal").hidden = !shown.proposed || proposed.length > 0;
  byId("options").className = shown.options.length > 6 ? "many" : "";
  byId("options-title").hidden = !shown.options.length;
  byId("options-title").textContent = several() ? "Options (several can be right)" : "Options";
  byId("options").replaceChildren(...(shown.grid ? [] : shown.options.map((text, i) => {
    const button = document.createElement("button"), key = document.createElement("kbd");
    key.textContent = i < 9 ? String(i + 1) : "·";
    button.append(key, ` ${text.replace(/^\d+\. /, "")}${proposed.includes(i + 1) ? " (proposed)" : ""}`);
    button.className = proposed.includes(i + 1) ? "proposed" : "";
    button.onclick = () => choose(i + 1);
    return button;
  })));
  byId("cell").hidden = !shown.grid;
  placer.show();
  byId("id").textContent = shown.id;
  document.querySelector("aside").scrollTop = 0;
  window.scrollTo(0, 0);  // a narrow window scrolls as a whole
  message("");
  showPictures(shown);
  paint();
  for (const next of DATA.rows.slice(at + 1, at + 3)) for (const picture of next.pictures) for (const file of [picture.src, picture.over]) if (file) new Image().src = file;
  const soon = DATA.rows.slice(at + 1).find((one) => one.pictures.some((picture) => picture.source && picture.source !== view.source));
  if (soon && view.source) sources.load(view.source).then(() => sources.load(soon.pictures.find((picture) => picture.source).source)).catch(() => {});
}
function paint() {
  const shown = row(), cells = answers.of(shown.id), numbers = numbersOf(cells);
  for (const button of document.querySelectorAll("[data-verdict]")) button.setAttribute("aria-pressed", String(cells[TITLES.verdict] === button.dataset.verdict));
  for (const button of document.querySelectorAll("[data-reason]")) button.setAttribute("aria-pressed", String(cells[TITLES.reason] === button.dataset.reason));
  [...byId("options").children].forEach((button, i) => button.setAttribute("aria-pressed", String(numbers.includes(i + 1))));
  placer.paint();
  byId("cell-name").textContent = cells[answerTitle()] || cellTyped || "–";
  byId("told").textContent = feedbackOn(cells);
  byId("told").hidden = !byId("told").textContent;
  if (document.activeElement !== byId("comment")) byId("comment").value = cells[TITLES.comment] ?? "";
  const done = DATA.rows.filter((one) => answers.judged(one.id)).length;
  byId("progress").max = DATA.rows.length;
  byId("progress").value = done;
  byId("count").textContent = `${done} of ${DATA.rows.length}`;
  byId("row").value = String(at);
  const option = byId("row").options[at];
  if (option) option.textContent = nameOf(at);
  for (const control of document.querySelectorAll("[data-verdict], [data-reason], #options button, #comment, #undo, #redo, #lock")) control.disabled = answers.locked;
  paintSaved();
  drawAll();
}
function paintSaved() {
  const kept = DATA.server ? (answers.waiting ? "sending…" : "saved") : answers.pending ? "keeping…" : "kept in this browser";
  byId("saved").textContent = answers.locked ? "closed; answers cannot be changed" : answers.trouble || kept;
}
const nameOf = (index) => {
  const one = DATA.rows[index];
  return `${answers.judged(one.id) ? "✓" : "  "} ${index + 1}. ${one.finding}${one.flags ? " ⚑" : ""}`;
};
// On to the next row; at the end, what is left to do.
function goOn() {
  if (at + 1 < DATA.rows.length) { show(at + 1); return; }
  const open = DATA.rows.filter((one) => !answers.judged(one.id)).length;
  const rest = DATA.blind ? "close the part with Ctrl Enter" : DATA.server ? "you are done" : "save with Ctrl S, and send the file back";
  message(open ? `This is the last row; ${open} ${open > 1 ? "are" : "is"} still open (Space shows the next).` : `Every row is answered: ${rest}.`);
}
function find(wanted) {
  for (let step = 1; step <= DATA.rows.length; step++) {
    const index = (at + step) % DATA.rows.length;
    if (wanted(DATA.rows[index])) { show(index); return true; }
  }
  return false;
}
function turn(again) {
  const id = answers.turn(again);
  if (id === null) { message(answers.locked ? "This part is closed, so its answers cannot be changed." : `There is nothing to ${again ? "redo" : "undo"}.`); return; }
  const index = DATA.rows.findIndex((one) => one.id === id);
  if (index !== at) show(index); else paint();
  message(again ? "Done again." : "Undone.");
}
function endComment() {
  if (DATA.rows.length) answers.endTyping(row().id);
  for (const field of [byId("comment"), byId("coordinates")]) if (document.activeElement === field) field.blur();
}

async function save() {
  const text = JSON.stringify(answers.saved()), name = `${DATA.page}.json`, back = answers.locked ? " Send this file back." : "";
  try {
    if (window.showSaveFilePicker) {
      handle = handle ?? await window.showSaveFilePicker({ suggestedName: name, types: [{ accept: { "application/json": [".json"] } }] });
      const file = await handle.createWritable();
      await file.write(text);
      await file.close();
      message(`Saved as ${handle.name}.${back}`);
      return;
    }
  } catch (error) {
    if (error.name === "AbortError") { message("Not saved: no file was chosen."); return; }
    handle = null;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  message(`Saved as ${name} in the folder of downloads.${back}`);
}

const KEYS = {
  ArrowUp: () => shade(1, 0), ArrowDown: () => shade(-1, 0), ".": () => shade(0, 1), ",": () => shade(0, -1), "*": zoomToPixels,
  ArrowRight: () => show(at + 1), ArrowLeft: () => show(at - 1), PageDown: () => scroll(1), PageUp: () => scroll(-1),
  Enter: () => { if (!placer.close()) goOn(); }, " ": () => { if (!find((one) => !answers.judged(one.id))) message("Every row is answered."); },
  Home: () => show(0), End: () => show(DATA.rows.length - 1), Backspace: () => show(at - 1),
  "+": () => zoomTo(view.zoom * 1.25), "=": () => zoomTo(view.zoom * 1.25), "-": () => zoomTo(view.zoom / 1.25), 0: resetView,
  i: () => byId("invert").click(), o: () => byId("outline")?.click(), z: () => byId("zones")?.click(), v: () => byId("places")?.click(), e: () => byId("edit")?.click(),
  k: () => byId("comment").focus(), c: () => { if (placer.asked()) byId("coordinates").focus(); }, j: () => { if (!find((one) => one.flags)) message("No row is flagged."); }, "?": () => byId("about").showModal(),
  a: () => judge("accept"), f: () => judge("fix"), r: () => judge("reject"), u: () => judge("unsure"),
};
// A narrow window scrolls as a whole, a wide one beside the pictures.
function scroll(way) {
  const box = [document.scrollingElement, document.querySelector("aside")].find((one) => one.scrollHeight > one.clientHeight + 1);
  if (box) box.scrollBy(0, way * 0.8 * box.clientHeight);
}
function cellKey(key) {
  if (!wantsCell) return false;
  const letter = key.toUpperCase();
  if (/^[A-H]$/.test(letter)) cellTyped = letter;
  else if (/^[1-8]$/.test(key) && cellTyped) { chooseCell(cellTyped[0] + key); return true; }
  else return false;
  byId("cell-name").textContent = `${cellTyped}…`;
  return true;
}
document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  const typing = event.target === byId("comment") || event.target === byId("coordinates"), letter = event.key;
  if ((event.ctrlKey || event.metaKey) && !event.altKey) {
    if (letter.toLowerCase() === "s") { event.preventDefault(); endComment(); save(); }
    else if (letter === "Enter" && byId("lock")) { event.preventDefault(); endComment(); byId("lock").click(); }
    else if (["z", "y"].includes(letter.toLowerCase()) && !typing) {
      event.preventDefault();
      (editor.on ? editor.turn : turn)(event.shiftKey || letter.toLowerCase() === "y");
    }
    return;
  }
  if (event.altKey) return;
  if (typing) {
    if (letter === "Escape" || (letter === "Enter" && !event.shiftKey)) { event.preventDefault(); endComment(); }
    return;
  }
  if (event.target.tagName === "SELECT" || event.target.type === "range") return;
  if (event.shiftKey && letter.startsWith("Arrow")) {
    event.preventDefault();
    panBy({ ArrowLeft: -1, ArrowRight: 1 }[letter] ?? 0, { ArrowUp: -1, ArrowDown: 1 }[letter] ?? 0);
    return;
  }
  // A focused button keeps its own Space; Enter goes on, unless the page's own tools have the focus.
  if (letter === " " && event.target.tagName === "BUTTON") return;
  let action = null;
  if (editor.on) {
    const tools = ["move", "add", "delete", "paint", "erase"];
    if (letter === "Enter" || letter === "Escape") action = editor.stop;
    else if (/^[1-5]$/.test(letter)) action = () => editor.choose(tools[letter - 1]);
  }
  if (!action && letter === "Escape" && placer.clear()) action = () => {};
  if (!action && letter === "Escape") action = () => { wantsCell = row().grid && (DATA.blind || withoutProposal()); cellTyped = ""; paint(); };
  if (!action && letter.length === 1 && cellKey(letter)) { event.preventDefault(); return; }
  if (!action && /^[1-9]$/.test(letter)) action = () => choose(Number(letter));
  const small = letter.length === 1 ? letter.toLowerCase() : letter;  // Caps Lock may be on
  if (!action) action = KEYS[small] ?? null;
  if (!action) {
    const chosen = DATA.reasons.find((one) => one.key === small);
    if (chosen) action = () => reason(chosen.word);
  }
  if (action) { event.preventDefault(); action(); }
});

// Seconds count while the page is looked at, at most a minute without a sign of the reader.
let lastSign = Date.now();
for (const sign of ["keydown", "pointermove", "wheel"]) document.addEventListener(sign, () => { lastSign = Date.now(); }, { passive: true });
setInterval(() => { if (!document.hidden && Date.now() - lastSign < 60_000 && DATA.rows.length) answers.spend(row().id, 0.5); }, 500);

function help() {
  const add = (name, text) => { const node = document.createElement(name); node.textContent = text; byId("about-text").append(node); };
  for (const text of DATA.task) add("p", text);
  if (!DATA.blind) for (const [word, text] of Object.entries(DATA.verdicts)) add("p", `${word}: ${text}`);
  add("p", "Each button shows its key. 1 to 9 choose an option, letters choose a verdict or a reason, Enter goes to the next row, ← goes back, Ctrl Z undoes the last step and Ctrl Y (or Ctrl Shift Z) does it again, also after the page was closed. "
    + "On the grid, type a cell such as F4. A place is clicked on the radiograph, or typed after c; Esc drops what is half clicked.");
  add("p", "The wheel, + and − zoom all pictures together; * shows them at full size (1:1). Dragging, or Shift with an arrow key, moves them. "
    + "↑ ↓ change brightness and . , contrast (for source pixels: level and window). Dragging with the right button changes both. 0 resets everything.");
  add("p", DATA.server ? "Every answer is sent to the server at once; without a connection it waits in this browser."
    : "Every answer is kept in this browser at once. Save writes a file that you send back. Open reads a saved file, also on another computer.");
  if (DATA.parts > 1) add("p", `This is part ${DATA.part} of ${DATA.parts}. When you close it, its answers can no longer be changed, and you get the next part.`);
}

// The questions on the reader, in the dialog that closes the first part of a study.
function askAbout() {
  const lines = (DATA.questions ?? []).map((question) => {
    const label = document.createElement("label"), input = document.createElement("input");
    input.value = answers.about[question] ?? "";
    input.maxLength = 1000;
    input.oninput = () => answers.say(question, input.value.trim());
    label.append(question, input);
    return label;
  });
  const fields = lines.map((line) => line.lastChild);
  fields.forEach((field, i) => { field.onkeydown = (event) => { if (event.key === "Enter") { event.preventDefault(); (fields[i + 1] ?? byId("closing-yes")).focus(); } }; });
  const why = document.createElement("p");
  why.textContent = "Please say once, in your own words; your answers are reported with the study, without your name:";
  byId("asked").replaceChildren(...(lines.length ? [why, ...lines] : []));
}
async function begin() {
  await answers.load();
  byId("part").textContent = `${DATA.reviewer}${DATA.parts > 1 ? `, part ${DATA.part} of ${DATA.parts}` : ""}`;
  DATA.rows.forEach((_, index) => { const option = document.createElement("option"); option.value = String(index); option.textContent = nameOf(index); byId("row").append(option); });
  for (const button of document.querySelectorAll("[data-verdict]")) button.onclick = () => judge(button.dataset.verdict);
  for (const button of document.querySelectorAll("[data-reason]")) button.onclick = () => reason(button.dataset.reason);
  byId("row").onchange = (event) => { show(Number(event.target.value)); event.target.blur(); };
  byId("previous").onclick = () => show(at - 1);
  byId("next").onclick = goOn;
  byId("undo").onclick = () => turn(false);
  byId("redo").onclick = () => turn(true);
  byId("flagged").onclick = KEYS.j;
  byId("flagged").hidden = !DATA.rows.some((one) => one.flags);
  byId("unanswered").onclick = KEYS[" "];
  byId("save").onclick = save;
  byId("open").onclick = () => byId("file").click();
  byId("file").onchange = async (event) => { const [file] = event.target.files; if (file) { const wrong = answers.open(await file.text()); paint(); message(wrong || `Read ${file.name}.`); } event.target.value = ""; };
  byId("help").onclick = () => byId("about").showModal();
  byId("about-close").onclick = () => byId("about").close();
  if (byId("edit")) byId("edit").onclick = () => { if (editor.on) editor.stop(); else editor.start(row()); };
  byId("comment").oninput = (event) => put({ ...filled(), [TITLES.comment]: event.target.value }, true);
  byId("timing").checked = answers.timing;
  byId("timing").onchange = (event) => { answers.timing = event.target.checked; };
  if (byId("lock")) {
    byId("lock").onclick = () => {
      const open = DATA.rows.filter((one) => !answers.judged(one.id)).length;
      const left = `${open} of its rows ${open > 1 ? "have" : "has"} no answer. Where you cannot answer, choose the reason “cannot tell” (t) before you close it. `;
      byId("closing-text").textContent = `${open ? left : ""}Once it is closed, nothing in it can be changed, and the next part can be opened.`;
      askAbout();
      byId("closing").showModal();
    };
    byId("closing-no").onclick = () => byId("closing").close();
    byId("closing-yes").onclick = async () => { byId("closing").close(); await closePart(); };
  }
  help();
  answers.on((id) => { if (id === "kept" || id === "sent") paintSaved(); else if (id === null || id === row().id) paint(); else byId("row").options[DATA.rows.findIndex((one) => one.id === id)].textContent = nameOf(DATA.rows.findIndex((one) => one.id === id)); });
  const first = DATA.rows.findIndex((one) => !answers.judged(one.id));
  show(first < 0 ? 0 : first);
  if (DATA.server && answers.locked) message("This part is closed. Thank you. If there is more for you to answer, the address that you were given shows it.");
  document.body.dataset.ready = "yes";
}
async function closePart() {
  if (DATA.server) {
    if (answers.waiting) { message("Some answers are not sent yet; close the part when all are sent."); return; }
    const reply = await fetch(`${DATA.server}lock`, { method: "POST", body: JSON.stringify({ about: answers.about }), headers: { "Content-Type": "application/json" } }).catch(() => null);
    if (!reply || !reply.ok) { message("The server does not answer, so the part is still open."); return; }
    await reply.text();
    answers.lock();
    location.assign("../");
    return;
  }
  answers.lock();
  paint();
  await save();
}
begin();
