"use strict";
// The answers: what each row says, every change of it, and where it is kept.
const DATA = JSON.parse(document.getElementById("data").textContent);
const BARE = { layers: [], size: [], mask: null };
for (const row of DATA.rows) Object.assign(row, DATA.cases[row.case] ?? BARE);
const TITLES = DATA.titles;
const byId = (id) => document.getElementById(id);
const now = () => new Date().toISOString();

const answers = (() => {
  const prefix = `chexqa ${DATA.batch} ${DATA.page} `;
  const tab = [...crypto.getRandomValues(new Uint32Array(2))].map((n) => n.toString(36)).join("");
  const records = new Map(DATA.rows.map((row) => [row.id, { cells: {}, changes: [], seconds: null }]));
  const contours = new Map();  // row id -> { size, counts, changes }
  const drawnAt = new Map();  // row id -> time at which its outline was last changed or dropped
  const about = {};  // question -> what a reader of a study says of himself
  const listeners = [];
  let count = 0, latest = 0, locked = false, timing = false, trouble = "", database = null, waiting = new Set(), sending = new Set(), pending = 0;

  const tell = (id) => listeners.forEach((listener) => listener(id));
  const read = (key) => { try { return localStorage.getItem(prefix + key); } catch { return null; } };
  function write(key, text) {
    try { localStorage.setItem(prefix + key, text); trouble = ""; } catch {
      if (!database) trouble = "This browser does not store answers: press Save often.";
    }
  }
  // IndexedDB with strict durability is on the disk when it says so; the browser's other storage is a few seconds late.
  function put(table, key, value) {
    if (!database) return;
    const change = database.transaction(table, "readwrite", { durability: "strict" });
    if (value === null) change.objectStore(table).delete(prefix + key);
    else change.objectStore(table).put(value, prefix + key);
    pending++;
    change.oncomplete = change.onabort = () => { pending--; if (!pending) tell("kept"); };
  }
  function keep(id) {
    const text = JSON.stringify(records.get(id));
    write(`row ${id}`, text);
    put("rows", `row ${id}`, text);
    if (DATA.server) { waiting.add(id); send(); }
  }

  // The time of a new change is later than that of every known one, also where the clock was set back.
  const stamp = () => new Date(latest = Math.max(Date.now(), latest + 1)).toISOString();

  // Changes have names of their own, so that those of two tabs, a file and a server can be put together without loss.
  function merge(id, other) {
    const record = records.get(id);
    if (!record || !other || !Array.isArray(other.changes)) return false;
    const known = new Map(record.changes.map((change) => [change.id, change]));
    let fresh = false;
    for (const change of other.changes) {
      latest = Math.max(latest, Date.parse(change.at) || 0);
      const mine = known.get(change.id);
      if (!mine || mine.at < change.at) { known.set(change.id, change); fresh = true; }
    }
    if (typeof other.seconds === "number" && other.seconds > (record.seconds ?? 0)) { record.seconds = other.seconds; }
    if (!fresh) return false;
    record.changes = [...known.values()].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : a.id < b.id ? -1 : 1));
    record.cells = { ...record.changes.at(-1).cells };
    return true;
  }
  function absorb(id, text) {
    try { return merge(id, JSON.parse(text)); } catch { return false; }
  }

  function set(id, cells, typing = false) {
    if (locked) return false;
    const record = records.get(id), last = record.changes.at(-1);
    if (JSON.stringify(cells) === JSON.stringify(record.cells)) return true;
    if (typing && last && last.typing === tab) {
      last.cells = cells;
      last.at = stamp();
    } else {
      record.changes.push({ id: `${tab}-${++count}`, at: stamp(), cells, ...(typing ? { typing: tab } : {}) });
    }
    record.cells = cells;
    keep(id);
    tell(id);
    return true;
  }
  function endTyping(id) {
    for (const change of records.get(id).changes) delete change.typing;
  }
  // All rows' changes in the order of time: those that count, and those taken back since the last new one. A change that
  // takes another back, or does it again, names it, so the order is known after a reload, too.
  function steps() {
    const done = [], undone = [];
    const move = (from, to, name) => { const place = from.findLastIndex((step) => step.change.id === name); if (place >= 0) to.push(...from.splice(place, 1)); };
    const all = [...records].flatMap(([id, { changes }]) => changes.map((change, i) => ({ id, change, before: i ? changes[i - 1].cells : {} })));
    for (const step of all.sort((a, b) => (a.change.at < b.change.at ? -1 : a.change.at > b.change.at ? 1 : 0))) {
      if (step.change.undoes) move(done, undone, step.change.undoes);
      else if (step.change.redoes) move(undone, done, step.change.redoes);
      else { done.push(step); undone.length = 0; }
    }
    return { done, undone };
  }
  // Takes the last step back or, with `again`, does the one again that was taken back last; returns its row, or null.
  function turn(again) {
    const { done, undone } = steps(), step = (again ? undone : done).at(-1);
    if (locked || !step) return null;
    const record = records.get(step.id), cells = again ? step.change.cells : step.before;
    endTyping(step.id);
    record.changes.push({ id: `${tab}-${++count}`, at: stamp(), cells, [again ? "redoes" : "undoes"]: step.change.id });
    record.cells = cells;
    keep(step.id);
    tell(step.id);
    return step.id;
  }
  function drawn(id, contour, at = now()) {
    if (locked) return;
    takeContour(id, contour, at);
    put("contours", id, JSON.stringify({ at, contour }));
    records.get(id).contourAt = at;
    keep(id);
    tell(id);
  }
  function takeContour(id, contour, at) {
    if (contour) contours.set(id, contour); else contours.delete(id);
    drawnAt.set(id, at);
  }
  // Reads the outline that this browser keeps; true if it is not older than the time `at`.
  async function readContour(id, at) {
    const text = await got("contours", id), stored = text ? JSON.parse(text) : null;
    // An outline of an earlier version of this page has no time.
    const { at: time, contour } = stored && stored.size ? { at: "", contour: stored } : stored ?? { at: "", contour: null };
    if (stored && time >= (drawnAt.get(id) ?? "")) takeContour(id, contour, time);
    return time >= at;
  }
  // Another tab has changed the outline; its text may reach the database a little later than the news of it.
  async function followContour(id, at, tries = 50) {
    if (!database || at <= (drawnAt.get(id) ?? "")) return;
    if (await readContour(id, at)) { tell(id); if (DATA.server) { waiting.add(id); send(); } }
    else if (tries) setTimeout(() => followContour(id, at, tries - 1), 100);
  }

  function say(question, text) {
    if (locked) return;
    if (text) about[question] = text; else delete about[question];
    write("about", JSON.stringify(about));
    put("rows", "about", JSON.stringify(about));
  }
  function takeAbout(text) {
    let found;
    try { found = JSON.parse(text ?? "{}"); } catch { return; }
    for (const question of DATA.questions ?? []) if (found[question] && !about[question]) about[question] = String(found[question]);
  }

  function judged(id) {
    const cells = records.get(id).cells;
    if (DATA.blind) return Object.keys(cells).some((title) => title !== TITLES.comment && cells[title]);
    return Boolean(cells[TITLES.verdict]);
  }
  function saved() {
    const rows = DATA.rows.filter((row) => records.get(row.id).changes.length).map((row) => {
      const record = records.get(row.id);
      return {
        tab: row.tab, row: row.row, cells: { ...row.cells, ...record.cells },
        changes: record.changes.map(({ id, at, cells }) => ({ id, at, cells })),
        seconds: timing && record.seconds !== null ? Math.round(record.seconds * 10) / 10 : null,
        contour: record.cells[TITLES.verdict] === "fix" ? contours.get(row.id) ?? null : null,
        ...(drawnAt.get(row.id) ? { contour_at: drawnAt.get(row.id) } : {}),
      };
    });
    return { what: "chexqa review page", schema_version: 1, page: DATA.page, batch: DATA.batch, sheet: DATA.sheet,
             reviewer: DATA.reviewer, saved: now(), locked, rows, ...(Object.keys(about).length ? { about } : {}) };
  }
  // Returns what was wrong with the file, or nothing.
  function open(text) {
    let file;
    try { file = JSON.parse(text); } catch { return "That file is not JSON; choose a file that this page saved."; }
    if (!file || file.what !== "chexqa review page" || !Array.isArray(file.rows)) return "That file was not saved by a review page.";
    if (file.batch !== DATA.batch || file.page !== DATA.page) return `That file belongs to the page ${String(file.page)}, not to ${DATA.page}.`;
    if (locked) return "This part is closed, so no file can be opened in it.";
    for (const row of file.rows) {
      const id = row.cells && row.cells[TITLES.id];
      if (!records.has(id)) continue;
      if (merge(id, row)) keep(id);
      const at = String(row.contour_at ?? "");
      if (row.contour && (!contours.has(id) || at > (drawnAt.get(id) ?? ""))) drawn(id, row.contour, at || now());
    }
    takeAbout(JSON.stringify(file.about ?? {}));
    if (file.locked) lock();
    tell(null);
    return "";
  }
  function lock() {
    locked = true;
    write("locked", "yes");
    put("rows", "locked", "yes");
    tell(null);
  }

  // The server gets whole rows and puts changes together by their names, so a row sent twice counts once.
  async function send() {
    if (!DATA.server || sending.size || !waiting.size) return;
    const ids = [...waiting];
    sending = new Set(ids);
    waiting.clear();  // a row that changes while it is sent waits again
    const rows = ids.map((id) => {
      const { changes, seconds } = records.get(id), at = drawnAt.get(id);
      return { id, seconds: timing ? seconds : null, contour: contours.get(id) ?? null, ...(at ? { contour_at: at } : {}),
        changes: changes.map((change) => ({ id: change.id, at: change.at, cells: change.cells })) };
    });
    try {
      const reply = await fetch(`${DATA.server}rows`, { method: "POST", body: JSON.stringify(rows), headers: { "Content-Type": "application/json" } });
      if (!reply.ok) throw new Error(await reply.text());
      if ((await reply.json()).locked) locked = true;
      trouble = "";
    } catch (error) {
      ids.forEach((id) => waiting.add(id));
      trouble = `Not sent yet: ${ids.length} row${ids.length > 1 ? "s" : ""} (kept in this browser).`;
      setTimeout(send, 2000);
    }
    sending = new Set();
    tell("sent");
    if (waiting.size && !trouble) send();
  }
  async function fetchAll() {
    const reply = await fetch(`${DATA.server}rows`);
    if (!reply.ok) throw new Error("no reply");
    const state = await reply.json();
    const there = new Map(state.rows.map((row) => [row.id, row]));
    for (const [id, record] of records) {
      const row = there.get(id) ?? { changes: [] }, at = row.contour_at ?? "", names = new Set(row.changes.map((change) => change.id));
      if (row.contour && (!contours.has(id) || at > (drawnAt.get(id) ?? ""))) takeContour(id, row.contour, at);
      // A change that the server does not know is sent, whichever tab has made it.
      if (record.changes.some((change) => !names.has(change.id)) || (drawnAt.get(id) ?? "") > at) waiting.add(id);
      merge(id, row);
    }
    if (state.locked) locked = true;
  }

  function openDatabase() {
    return new Promise((resolve) => {
      let asked;
      try { asked = indexedDB.open("chexqa review", 1); } catch { resolve(null); return; }
      asked.onupgradeneeded = () => { asked.result.createObjectStore("rows"); asked.result.createObjectStore("contours"); };
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = asked.onblocked = () => resolve(null);
    });
  }
  const got = (table, key) => new Promise((resolve) => {
    const asked = database.transaction(table).objectStore(table).get(prefix + key);
    asked.onsuccess = () => resolve(asked.result ?? null);
    asked.onerror = () => resolve(null);
  });
  async function load() {
    locked = read("locked") === "yes";
    timing = read("timing") === "yes";
    for (const id of records.keys()) absorb(id, read(`row ${id}`));
    takeAbout(read("about"));
    database = await openDatabase();
    if (database) {
      if (await got("rows", "locked") === "yes") locked = true;
      takeAbout(await got("rows", "about"));
      await Promise.all([...records.keys()].map(async (id) => {
        absorb(id, await got("rows", `row ${id}`));
        await readContour(id, "");
      }));
    }
    if (DATA.server) {
      try { await fetchAll(); } catch { trouble = "The server does not answer; answers are kept in this browser."; }
      send();
    }
    // Another tab with the same page changed a row.
    window.addEventListener("storage", (event) => {
      if (!event.key || !event.key.startsWith(prefix) || event.newValue === null) return;
      const key = event.key.slice(prefix.length);
      if (key === "locked") { locked = true; tell(null); }
      if (!key.startsWith("row ")) return;
      const id = key.slice(4);
      if (absorb(id, event.newValue)) {
        tell(id);
        if (DATA.server) { waiting.add(id); send(); }  // the other tab may be closed before it has sent the answer
      }
      followContour(id, JSON.parse(event.newValue).contourAt ?? "");
    });
  }
  return {
    load, set, turn, drawn, judged, saved, open, lock, endTyping, say, about,
    of: (id) => records.get(id).cells,
    record: (id) => records.get(id),
    contour: (id) => contours.get(id) ?? null,
    on: (listener) => listeners.push(listener),
    spend: (id, seconds) => { if (timing && !locked) { const r = records.get(id); r.seconds = (r.seconds ?? 0) + seconds; } },
    keep,
    get locked() { return locked; },
    get timing() { return timing; },
    set timing(on) { timing = on; write("timing", on ? "yes" : "no"); },
    get trouble() { return trouble; },
    get pending() { return pending; },
    get waiting() { return waiting.size + sending.size; },
  };
})();
