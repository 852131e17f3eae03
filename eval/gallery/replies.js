// Search in raw replies. The replies lie in the files of cases. These are read one after the other, and the list of found
// items grows with each file.
const replies = (() => {
  const LEAST = 2, MOST_KEPT = 60e6, AROUND = 60, PAUSE = 150;
  // Lower-case replies by file: for each entry of the file its number and a text for each row. The oldest are dropped.
  const kept = new Map();
  let needle = "", done = new Set(), hits = new Map(), size = 0, turn = 0, isStopped = false, failed = null;
  const flat = (text) => (text ?? "").replace(/\s+/g, " ");
  const said = (one) => (one ? flat(one[4] ? `${one[2] ?? ""}\n${one[4][0]}` : one[2]) : "");
  const byFile = () => (data.byFile ??= Map.groupBy ? Map.groupBy(entries, fileOfCase) : entries.reduce((found, entry) => found.set(fileOfCase(entry), [...(found.get(fileOfCase(entry)) ?? []), entry]), new Map()));

  async function read(file) {
    const record = await unpacked(file);
    const texts = (byFile().get(file) ?? []).map((entry) => [entry.number, (record[entry.caseId]?.items[entry.id]?.said ?? []).map((one) => lower(said(one)))]);
    kept.set(file, texts);
    size += weight(texts);
    for (const [oldest, own] of kept) {
      if (size <= MOST_KEPT || oldest === file) break;
      kept.delete(oldest);
      size -= weight(own);
    }
  }
  const weight = (texts) => texts.reduce((sum, [, own]) => sum + own.reduce((part, text) => part + text.length, 0), 0);

  function look(file) {
    for (const [number, texts] of kept.get(file)) {
      const rows = texts.flatMap((text, row) => (text.includes(needle) ? [row] : []));
      if (rows.length) hits.set(number, rows);
    }
    done.add(file);
  }

  // Take a text, and look for it in all replies that were read already.
  function take(text) {
    const next = lower(flat(text).trim());
    if (next === needle) return;
    needle = next;
    [done, hits, isStopped, failed] = [new Set(), new Map(), false, null];
    turn += 1;
    if (isOn()) for (const file of kept.keys()) look(file);
  }

  const isOn = () => needle.length >= LEAST;
  const isFound = (entry, row) => !isOn() || (hits.get(entry.number)?.includes(row) ?? false);
  const left = (among) => [...new Set(among.map(fileOfCase))].filter((file) => !done.has(file));

  // Read the files of these entries one after the other; ``step`` is called from time to time, and at the end.
  async function search(among, step) {
    const own = (turn += 1), files = left(among);
    let last = performance.now();
    if (!isOn() || isStopped) return;
    try {
      for (const file of files) {
        if (!kept.has(file)) await read(file);
        if (own !== turn) return;
        look(file);
        if (performance.now() - last > PAUSE) { step(); last = performance.now(); await new Promise((next) => setTimeout(next)); }
        if (own !== turn) return;
      }
    } catch (error) {
      if (own !== turn) return;
      failed = error.message;
    }
    if (files.length) step();
  }
  function stop() { turn += 1; isStopped = true; }
  function goOn() { isStopped = false; failed = null; }

  // The progress of the search, shown beside the number of items; empty when all replies were read.
  function progress(among) {
    if (!isOn()) return needle ? `; type at least ${LEAST} characters to search in replies` : "";
    const all = new Set(among.map(fileOfCase)).size, open = left(among).length;
    if (failed) return `; the search ended after ${all - open} of ${all} files, because ${failed} cannot be read`;
    return open ? `; ${isStopped ? "search stopped" : "searching in replies"}: ${all - open} of ${all} files` : "";
  }
  const isOpen = (among) => isOn() && left(among).length > 0;

  // A pattern that finds the searched text in a reply with any white space and in any case.
  const pattern = () => new RegExp(needle.split(" ").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("\\s+"), "gi");

  // A reply with the text that was searched for marked in it.
  function marked(text) {
    if (!isOn()) return plain(text);
    const parts = [];
    let last = 0;
    for (const found of text.matchAll(pattern())) {
      parts.push(...plain(text.slice(last, found.index)), make("mark", {}, ...plain(found[0])));
      last = found.index + found[0].length;
    }
    return [...parts, ...plain(text.slice(last))];
  }
  const has = (text) => isOn() && lower(flat(text)).includes(needle);

  // The first found reply of a card with the words around the text; it is read again from its file.
  function excerpt(entry, rows) {
    const row = isOn() ? (hits.get(entry.number) ?? []).find((one) => rows.includes(one)) : undefined;
    if (row === undefined) return null;
    const node = make("span", { class: "excerpt" }, `${data.labels[row]}: …`);
    unpacked(fileOfCase(entry)).then((record) => {
      const text = said(record[entry.caseId].items[entry.id].said[row]), at = Math.max(0, text.search(pattern()) - AROUND / 2);
      node.replaceChildren(make("b", {}, data.labels[row]), `: ${at ? "…" : ""}`, ...marked(text.slice(at, at + needle.length + AROUND)), at + needle.length + AROUND < text.length ? "…" : "");
    }, () => {});
    return node;
  }

  return { take, isOn, isFound, search, stop, goOn, progress, isOpen, isStopped: () => isStopped || failed !== null, marked, has, excerpt };
})();
