"use strict";
// Tables: sorted by a click on a heading, copied as CSV, Markdown and LaTeX, drawn when they are opened.
const tables = (() => {
  const { data, make, rows, view, here, isShown, measure, number, interval, tell, sentence, words, plural, about } = report;
  const NAMED = ["model", "model_a", "model_b"];
  const REFERENCES = { levels: ["chance", "prior"], kinds: ["chance", "prior"], depth: ["depth_always_yes", "depth_yes_then_no", "depth_always_no"], grid: ["chance", "most_frequent", "ceiling"] };
  const LABELS = { prior: "most frequent answer", most_frequent: "other patients' cell", ceiling: "highest possible" };
  const A_SCREEN = 200;

  // The items that a number in "Does it look?" opens in the gallery, which shows the altered picture beside the original.
  const DETECTION = { kind: "detection" }, TARGET = { ...DETECTION, condition: "target" }, OTHER = { ...DETECTION, condition: "irrelevant" }, MIRROR = { condition: "mirror" };
  const EXAMPLES = {
    grounding: { accuracy: DETECTION, audited: TARGET, patients: TARGET, findings: TARGET, audited_share: TARGET, looks: TARGET, net_grounding: TARGET, right_and_grounded: TARGET, true_removal: DETECTION, key_following: { condition: "partial" },
      mirror: MIRROR, mirror_side: { ...MIRROR, kind: "comparison" }, flips_again: DETECTION, cgr: TARGET, uar: DETECTION, is: OTHER, published_class: TARGET },
    grounding_findings: { finding: TARGET, flipped_target: TARGET, flipped_irrelevant: OTHER, net_grounding: TARGET, audited: TARGET, looks: TARGET },
  };
  // A fresh drop is of the kinds of question that a fresh seed draws anew, and a reason of the questions that a condition asks again.
  EXAMPLES.grounding.fresh_drop = EXAMPLES.grounding.fresh_verdict = { kind: data.drawn_anew };
  EXAMPLES.not_audited = Object.fromEntries(["finding", "condition", "reason", "cases"].map((column) => [column,
    (row) => ({ flag: data.not_audited_flag.replace("{condition}", row.condition).replace("{reason}", row.reason) })]));
  EXAMPLES.grounding.model = EXAMPLES.grounding_findings.model = TARGET;

  function examples(table, column, row) {
    const choice = EXAMPLES[table]?.[column];
    if (!choice || !row || row[column] === null || row[column] === undefined) return null;
    const named = Object.fromEntries(["protocol", "model", "finding"].filter((name) => row[name]).map((name) => [name, row[name]]));
    return report.gallery({ ...named, ...(typeof choice === "function" ? choice(row) : choice) });
  }

  function compare(one, other, direction) {
    const none = (value) => value === null || value === undefined || value === "";
    if (none(one) || none(other)) return none(one) - none(other);
    const step = typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
    return direction === "down" ? -step : step;
  }

  // A heading: its meaning on hover and focus, and a click sorts by it, downwards first.
  function head(table, name, label, note, isText, direction, sortable = true) {
    const click = () => {
      const key = `${table}.${name}.`, next = direction === "down" ? "up" : direction === "up" ? null : "down";
      const kept = [...view.sort].filter((one) => !one.startsWith(`${table}.`));
      report.change({ sort: new Set(next ? [...kept, key + next] : kept) }, true);
      redraw(table);
      document.querySelector(`[data-sort="${CSS.escape(`${table}.${name}`)}"]`)?.focus();
    };
    const button = make("button", { type: "button", class: note ? "term" : null, "data-sort": `${table}.${name}`, "aria-description": note || null, onclick: sortable ? click : null },
      label, direction ? make("span", { "aria-hidden": "true" }, direction === "down" ? " ▾" : " ▴") : "");
    if (note) tell(button, [label, sentence(note)]);
    return make("th", { scope: "col", class: isText ? "text" : null, "aria-sort": direction ? (direction === "down" ? "descending" : "ascending") : null }, button);
  }

  // A heading for print: Chromium does not repeat headings that hold buttons on every sheet.
  const plainHead = (column) => make("th", { scope: "col", class: column.isText ? "text" : null }, column.label);

  const drawn = new Map();
  function redraw(table) {
    if (table === "leaderboard") report.$("board").replaceChildren(...leaderboard.board());
    else if (drawn.has(table)) drawn.get(table)();
  }

  // A table as headings and rows of cells, each with a value and an interval, as the switches say.
  // ``everything``: all protocols and all models, for print.
  function grid(name, everything = false) {
    const table = data.tables[name];
    // A table with a row about all protocols is whole under each.
    const isWhole = everything || rows(name).some((row) => row.protocol === null);
    const chosen = rows(name).filter((row) => everything || ((isWhole || here(row)) && NAMED.every((column) => !(column in row) || isShown(row[column]))));
    const several = isWhole && data.protocols.length > 1 && "protocol" in table.values;
    if (data.wide[name] && !view.open.has(`${name}.full`)) return wide(name, chosen, several);
    // In print, what all rows have in common is said above the table.
    const isSame = (column) => everything && chosen.length > 2 && !NAMED.includes(column) && chosen.every((row) => row[column] === chosen[0][column] && (row[`${column}_low`] ?? null) === null);
    const own = table.columns.filter(([column]) => column !== "protocol" || several);
    const columns = own.filter(([column]) => !isSame(column)).map(([column, label, note, form]) => ({ name: column, label, note, form, isText: form === "text" }));
    const same = own.filter(([column]) => isSame(column) && chosen[0][column] !== null).map(([column, label, , form]) => `${label} ${number(chosen[0][column], form)}`);
    return { columns, lines: chosen.map((row) => ({ cells: columns.map(({ name: column }) => cell(row, column, name)), who: row.model })), same };
  }

  const cell = (row, column, table) => ({ value: row ? row[column] : null, low: row?.[`${column}_low`], high: row?.[`${column}_high`], count: row?.patients ?? row?.cases, link: examples(table, column, row) });

  // A row for each model, a column for each level, kind, path or finding, and rows of references that need no model.
  function wide(name, chosen, several) {
    const [across, measures, listed] = data.wide[name], table = data.tables[name];
    const known = table.columns.map(([one]) => one).filter((one) => /^(accuracy|corrected)(_answered)?$/.test(one)), isScore = measures.includes("corrected") || name === "kinds";
    const column = isScore ? report.measureOf([measures[0], ...known]) : measures[0];
    const [, , note, form] = table.columns.find(([one]) => one === column);
    const values = listed.filter((value) => chosen.some((row) => row[across] === value));
    const columns = [{ name: "model", label: "model", note: data.terms.model, form: "text", isText: true },
      ...(several ? [{ name: "protocol", label: "protocol", note: data.terms.protocol, form: "text", isText: true }] : []),
      ...values.map((value) => ({ name: value, label: words(value), note, form, isText: false }))];
    const found = new Map(chosen.map((row) => [`${row.model}\n${row.protocol}\n${row[across]}`, row]));
    const who = [...new Map(chosen.map((row) => [`${row.model}\n${row.protocol}`, row])).values()];
    const lines = who.map((row) => ({ who: row.model, cells: [{ value: row.model }, ...(several ? [{ value: row.protocol }] : []),
      ...values.map((value) => cell(found.get(`${row.model}\n${row.protocol}\n${value}`), column))] }));
    for (const reference of REFERENCES[name] || []) {
      const own = column.startsWith("corrected") && reference === "prior" ? "prior_corrected" : reference;
      if (!chosen.length || !(own in chosen[0]) || (column.startsWith("corrected") && reference === "chance")) continue;
      const shared = values.map((value) => {
        const all = new Set(chosen.filter((row) => row[across] === value).map((row) => row[own]));
        return { value: all.size === 1 ? [...all][0] : null };
      });
      lines.push({ reference: true, cells: [{ value: LABELS[reference] || words(reference.replace("depth_", "")) }, ...(several ? [{ value: "" }] : []), ...shared] });
    }
    return { columns, lines, said: isScore && column !== measure() ? `${words(column)} (this table has no ${report.scoreWords()})` : words(column) };
  }

  function sorted(name, made) {
    const sort = [...view.sort].find((one) => one.startsWith(`${name}.`));
    if (!sort) return [made.lines, null, null];
    const place = sort.lastIndexOf("."), by = sort.slice(name.length + 1, place), direction = sort.slice(place + 1);
    const at = made.columns.findIndex((column) => column.name === by);
    if (at < 0) return [made.lines, null, null];
    const models = made.lines.filter((line) => !line.reference), others = made.lines.filter((line) => line.reference);
    models.sort((one, other) => compare(one.cells[at].value, other.cells[at].value, direction));
    return [[...models, ...others], by, direction];
  }

  // The table as an element. Long tables show their first rows, and a button shows the others.
  function element(name, all = false, everything = false) {
    const made = grid(name, everything), [every, by, direction] = sorted(name, made);
    // In print, pairs of a model and a baseline are left out.
    const own = everything && name === "pairs" ? every.filter((line) => !line.cells.some((one) => about(String(one.value)).role === "baseline")) : every, lines = own.length ? own : every;
    const isName = (column) => NAMED.includes(column.name);
    const body = (all ? lines : lines.slice(0, A_SCREEN)).map((line) => make("tr", { class: line.reference ? "reference" : about(line.who).role }, ...made.columns.map((column, place) => {
      const one = line.cells[place], text = isName(column) ? String(one.value ?? "–") : number(one.value, column.form);
      const shown = one.link ? make("a", { class: "examples", href: one.link }, text) : text;
      const parts = [shown, one.low === null || one.low === undefined ? null : make("span", { class: "interval" }, ` ${interval(one.low, one.high, column.form)}`)];
      return place ? make("td", { class: column.isText ? "text" : null }, ...parts) : make("th", { scope: "row", class: column.isText ? "text" : null }, ...parts);
    })));
    const top = make("tr", {}, ...made.columns.map((column) => (everything ? plainHead(column) : head(name, column.name, column.label, column.note, column.isText, by === column.name ? direction : null))));
    return [make("table", {}, make("thead", {}, top), make("tbody", {}, ...body)), lines.length, made];
  }

  // A folded table with its buttons.
  function block(name) {
    const table = data.tables[name], key = `table.${name}`;
    const inner = make("div", { class: "inner" });
    let all = false;
    const show = () => {
      const [shown, count, made] = element(name, all);
      const status = make("span", { role: "status", class: "pale small" });
      const copy = (form) => make("button", { type: "button", onclick: () => put(text(name, form), status) }, form);
      const full = data.wide[name] ? make("label", { class: "pale small" }, make("input", { type: "checkbox", checked: view.open.has(`${name}.full`), onchange: (event) => {
        const open = new Set(view.open);
        if (event.target.checked) open.add(`${name}.full`); else open.delete(`${name}.full`);
        report.change({ open }, true);
        show();
      } }), " all columns") : null;
      const hint = make("p", { class: "pale small sideways", hidden: true }, "More columns to the right: the table scrolls sideways →");
      inner.replaceChildren(make("div", { class: "tools" }, make("span", { class: "pale small" }, `${made.said ? `${made.said}; ` : ""}${plural(count, "row")}; copy as `), copy("CSV"), copy("Markdown"), copy("LaTeX"), full, status), hint, bare(name, made.lines), table.note ? make("p", { class: "pale small" }, table.note) : "",
        make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.caption }, shown),
        !all && count > A_SCREEN ? make("button", { type: "button", class: "more", onclick: () => { all = true; show(); } }, `show all ${count.toLocaleString("en")} rows`) : "");
      hint.hidden = shown.scrollWidth <= shown.parentElement.clientWidth + 1;
    };
    const fold = make("details", { class: "table", "data-table": name, id: key, open: view.open.has(key) }, make("summary", {}, "Table: ", table.caption), inner);
    drawn.set(name, () => { if (fold.open) show(); });
    fold.addEventListener("toggle", () => {
      const open = new Set(view.open);
      if (fold.open) open.add(key); else open.delete(key);
      if (!document.body.classList.contains("printed")) report.change({ open }, true);
      if (fold.open) show();
    });
    if (fold.open) show();
    return fold;
  }

  // Why numbers of a table have no interval; numbers of columns without intervals, and references, have none to miss.
  function bare(name, lines) {
    const found = lines.flatMap((line) => line.cells.filter((one) => typeof one.value === "number" && (one.low === null || one.high === null)));
    if (!found.length) return "";
    const few = `fewer than ${data.least} ${data.unit}`, isFew = (one) => (one.count ?? data.least) < data.least;
    const reason = name === "thresholds" ? "has an end of its interval outside the tested depths; “reads between” has the ends as text" : name === "pointing" ? `comes from fewer than ${data.least_correlated} ${data.unit}, or from too few right or too few wrong answers` : found.every(isFew) ? `comes from ${few}` :
      `comes from ${few}, or it is a mean and one of its kinds or findings has fewer than 2`;
    return make("p", { class: "pale small" }, `A number without an interval ${reason}.`);
  }

  // The table that is shown, as text in a form for other programs, with the notice of drawn phantoms.
  function text(name, form) {
    const made = grid(name), [lines] = sorted(name, made), caption = data.tables[name].caption;
    return { CSV: csv, Markdown: markdown, LaTeX: latex }[form](made.columns, lines, caption);
  }
  const shownText = (column, one) => (NAMED.includes(column.name) ? String(one.value ?? "") : `${number(one.value, column.form)} ${interval(one.low, one.high, column.form)}`.trim());

  function csv(columns, lines) {
    const quoted = (value) => {
      let own = value === null || value === undefined ? "" : report.visible(value);
      if (typeof value === "string" && /^\s*[=+\-@＝＋－＠\t]/.test(own)) own = `'${own}`;
      return /[",\n\r]/.test(own) ? `"${own.replaceAll('"', '""')}"` : own;
    };
    const spread = columns.map((column, place) => lines.some((line) => line.cells[place].low !== null && line.cells[place].low !== undefined));
    const heads = columns.flatMap((column, place) => (spread[place] ? [column.name, `${column.name}_low`, `${column.name}_high`] : [column.name]));
    const body = lines.map((line) => line.cells.flatMap((one, place) => (spread[place] ? [one.value, one.low, one.high] : [one.value])));
    if (data.notice) { heads.push("notice"); body.forEach((line) => line.push(data.notice)); }
    return [heads, ...body].map((line) => line.map(quoted).join(",")).join("\n") + "\n";
  }

  function markdown(columns, lines, caption) {
    const plain = (value) => report.visible(value).replace(/[\\`*_{}[\]<>#|~]/g, (sign) => `\\${sign}`).replaceAll("\n", " ");
    const line = (cells) => `| ${cells.map(plain).join(" | ")} |`;
    return `**${plain(caption)}**${data.notice ? ` (${plain(data.notice)})` : ""}\n\n${[line(columns.map((column) => column.label)), `|${"---|".repeat(columns.length)}`,
      ...lines.map((one) => line(columns.map((column, place) => shownText(column, one.cells[place]))))].join("\n")}\n`;
  }

  function latex(columns, lines, caption) {
    const SIGNS = { "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", $: "\\$", "&": "\\&", "#": "\\#", "%": "\\%", _: "\\_", "^": "\\textasciicircum{}", "~": "\\textasciitilde{}", "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", "–": "--", "−": "$-$" };
    const plain = (value) => report.visible(value).replace(/[\\{}$&#%_^~<>|–−]/g, (sign) => SIGNS[sign]).replaceAll("\n", " ");
    const line = (cells) => `${/^[[*]/.test(cells[0] ?? "") ? "{}" : ""}${cells.map(plain).join(" & ")} \\\\`;
    return ["% needs \\usepackage{booktabs,longtable}", `\\begin{longtable}{${columns.map((column) => (column.isText ? "l" : "r")).join("")}}`,
      `\\caption{${plain(caption)}${data.notice ? ` (${plain(data.notice)})` : ""}}\\\\`, "\\toprule", line(columns.map((column) => column.label)), "\\midrule", "\\endhead", "\\bottomrule", "\\endfoot",
      ...lines.map((one) => line(columns.map((column, place) => shownText(column, one.cells[place])))), "\\end{longtable}", ""].join("\n");
  }

  async function put(copied, status) {
    try {
      await navigator.clipboard.writeText(copied);
    } catch {
      const field = make("textarea", { class: "sr" });
      field.value = copied;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    status.textContent = "copied";
    window.setTimeout(() => { status.textContent = ""; }, 2000);
  }

  const again = () => { for (const show of drawn.values()) show(); };
  return { compare, head, block, element, text, again };
})();
