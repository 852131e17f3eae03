"use strict";
// The plots of each section, from the tables and the switches.
const views = (() => {
  const { data, make, rows, view, here, order, measure, number, interval, words, about, unit, isShown, unique, shared } = report;
  const { figure, dots, scale, heat, stacks, key } = plots;
  const LETTERS = "ABCDEFGH";
  const STATE_TONES = { correct: "right", wrong: "wrong", unparsed: "s2", truncated: "s3", refused: "s4", empty: "s5", overflow: "s6", error: "s7", not_asked: "s8" };

  const shown = (name) => rows(name).filter((row) => here(row) && (!("model" in row) || isShown(row.model)));
  const byModel = (list) => new Map(list.map((row) => [row.model, row]));
  // The model of the plots that show one: the chosen one, otherwise the best model.
  const picked = () => (view.model && order().includes(view.model) ? view.model : order().find((model) => about(model).role === "model") ?? order()[0]);

  // A row of a plot for a model: its number, its explanation and the items that its mark opens.
  function line(model, row, column, choice, more = [], form = "share") {
    return { label: model, role: about(model).role, value: row ? row[column] : null, low: row?.[`${column}_low`], high: row?.[`${column}_high`],
      choice: choice && { protocol: view.protocol, model, ...choice },
      lines: row ? [`${interval(row[`${column}_low`], row[`${column}_high`], form) ? "95 % interval" : row.patients < data.least ? `no interval: fewer than ${data.least} ${data.unit}` : "no interval"}${row.items ? `; n = ${number(row.items, "count")} items` : ""}${row.cases ? `; n = ${row.cases} cases` : ""}${row.patients ? `${row.items || row.cases ? " of" : "; n ="} ${unit(row.patients)}` : ""}`, ...more] : [] };
  }

  function levels() {
    const list = shown("levels"), column = measure(), models = order();
    return [figure(`${capital(report.scoreWords())} at each level, %, with 95 % intervals. The dashed line is ${view.score === "plain" ? "chance" : "guessing, which has 0"}.`, ...(data.wide.levels?.[2] ?? []).filter((level) => list.some((row) => row.level === level)).map((level) => {
      const own = list.filter((row) => row.level === level), of = byModel(own), plain = view.score === "plain";
      return dots({ title: level, ...scale(list, column, 0, 1), rows: models.map((model) => line(model, of.get(model), column, report.counted(level), of.get(model) ? [plain ? `Chance ${number(of.get(model).chance)}, most frequent answer ${number(of.get(model).prior)}` : `Guessing 0, most frequent answer ${number(of.get(model).prior_corrected)} (corrected too)`] : [])),
        marks: [[plain ? shared(own, "chance") : 0, "chance"]] });
    }))];
  }

  function depth() {
    const list = shown("depth"), models = order();
    return list.length ? [figure("Mean number of stages passed in a row on each path: no lesion (lesion free), a lesion whose outline fits (revision free), a lesion whose outline must be revised (revision required). The dashed line is the best depth that constant answers (the same in every case) reach.", ...unique(list.map((row) => row.path)).map((path) => {
      const own = list.filter((row) => row.path === path), of = byModel(own);
      const constant = Math.max(...["depth_always_yes", "depth_yes_then_no", "depth_always_no"].map((name) => own[0][name] ?? 0));
      return dots({ title: words(path), rows: models.map((model) => line(model, of.get(model), "depth", { path }, [], 2)), to: own[0].maximum, marks: [[constant, "same answers"]], form: 2 });
    })), funnels()] : [];
  }

  // Stages as funnels: how many of a path's cases are still right after each stage, for every model.
  function funnels() {
    const list = shown("stages"), models = order();
    const paths = unique(list.map((row) => row.path)).filter((path) => unique(list.filter((row) => row.path === path).map((row) => row.stage)).length > 1);
    if (!paths.length) return null;
    const one = (model, path) => {
      const own = list.filter((row) => row.model === model && row.path === path).sort((a, b) => a.stage - b.stage);
      if (!own.length || own.some((row) => row.gated === null)) return null;
      const width = 182, parts = [plots.title(model, width)];
      own.forEach((row, place) => {
        const wide = Math.max(100 * row.gated, 1), y = 22 + 20 * place;
        parts.push(plots.mark(`${model}, ${words(path)}, stage ${row.stage}: ${number(row.gated)} % ${interval(row.gated_low, row.gated_high)}`,
          [`Right in this and all earlier stages; n = ${row.cases} cases`, `This stage alone: ${number(row.accuracy)} %, guessing ${number(row.chance)} %`], { protocol: view.protocol, model, path, stage: row.stage },
          report.draw("rect", { x: 66 - wide / 2, y, width: wide, height: 17, class: "funnel" }), plots.write(122, y + 13, `${row.stage}: ${Math.round(100 * row.gated)} %`, {})));
      });
      return make("div", { class: "panel small" }, plots.svg(width, 26 + 20 * own.length, `Funnel of ${model}, ${words(path)}`, ...parts));
    };
    return make("div", {}, ...paths.map((path) => make("figure", {}, make("figcaption", {}, `From detection to attributes, path ${words(path)}: share of cases that are right in a stage and in all earlier stages (1 detect, 2 judge, 3 revise, 4 describe). ${plots.constant(path, ["detect", "judge", "revise", "describe"])?.said ?? ""}`), make("div", { class: "panels small" }, ...models.map((model) => one(model, path)).filter(Boolean)))));
  }

  function kinds() {
    const list = shown("kinds"), models = order(), column = kindMeasure();
    const panels = unique(list.map((row) => row.kind)).map((kind) => {
      const own = list.filter((row) => row.kind === kind), of = byModel(own), corrected = column.startsWith("corrected");
      return dots({ title: words(kind), ...scale(list, column, 0, 1), rows: models.map((model) => line(model, of.get(model), column, { kind }, of.get(model) ? [guesses(of.get(model), corrected)] : [])), marks: [[corrected ? 0 : shared(own, "chance"), "chance"]] });
    });
    return [figure(`${capital(kindWords())} of each kind of question, %.${noForm()}${otherwise(list, column)}`, ...panels), hardest(), picker(), findings(), confusion()];
  }

  // Kinds have no score that is corrected for chance among answered questions; their accuracy is shown instead.
  const hasForm = () => measure() !== "corrected_answered";
  const kindMeasure = () => report.measureOf(["accuracy", "corrected", "accuracy_answered"]);
  // Notes on why numbers of kinds differ from the leaderboard's levels and grid.
  function otherwise(list, column) {
    const asked = rows("finding_kinds").some((row) => here(row) && row.finding === data.not_compared && row.kind !== "grid_cell");
    const grid_ = list.some((row) => row.kind === "grid_cell") && column.startsWith("corrected");
    return `${asked ? ` Kinds include ${data.not_compared}, which levels leave out.` : ""}${grid_ ? " The kind “grid cell” is corrected for chance here; the leaderboard shows its plain hit rate." : ""}`;
  }
  // The scores of guessing on the scale that is shown; for the most frequent answer, kinds have only its accuracy.
  function guesses(row, isCorrected) {
    const known = `chance ${number(row.chance)} %${row.prior === undefined ? "" : `, most frequent answer ${number(row.prior)} %`}`;
    return isCorrected ? `Guessing 0; not corrected: ${known}` : capital(known);
  }
  const kindWords = () => (hasForm() ? report.scoreWords() : "accuracy among answered questions");
  const noForm = () => (hasForm() ? "" : " Not corrected for chance: kinds have no corrected score among answered questions.");
  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  // A choice of one model, for plots that show one.
  function picker() {
    return make("p", { class: "picker" }, make("label", {}, "The plots below show ", make("select", { "aria-label": "model of the plots below", onchange: (event) => report.change({ model: event.target.value }) },
      ...order().map((model) => make("option", { value: model, selected: model === picked() }, model)))));
  }

  // Findings of each level from the hardest to the easiest, by the mean of all models.
  function hardest() {
    const column = kindMeasure(), asked = rows("finding_kinds").filter((row) => here(row) && row[column] !== null && data.level_of[row.kind]);
    const models = unique(asked.map((row) => row.model)).filter((model) => about(model).role === "model"), list = asked.filter((row) => !models.length || models.includes(row.model));
    const mean = (of) => of.reduce((sum, value) => sum + value, 0) / of.length;
    const panels = [...data.levels, data.grid].map((level) => {
      const own = list.filter((row) => data.level_of[row.kind] === level);
      const ranked = unique(own.map((row) => row.finding)).map((finding) => {
        const found = own.filter((row) => row.finding === finding), each = unique(found.map((row) => row.model)).map((model) => [model, mean(found.filter((row) => row.model === model).map((row) => row[column]))]).sort((one, other) => one[1] - other[1]);
        const [[worst, low], [best, high]] = [each[0], each.at(-1)], one = found.filter((row) => row.model === worst);
        return { label: words(finding), value: mean(each.map(([, value]) => value)), low, high, between: each.length > 1 ? `(models from ${number(low)} to ${number(high)})` : "", choice: { protocol: view.protocol, finding, ...(level === data.grid ? { kind: "grid_cell" } : { level }), models: "all_wrong" },
          lines: [each.length > 1 ? `Lowest: ${worst}; highest: ${best}` : "", `n = ${number(one.reduce((sum, row) => sum + row.items, 0), "count")} items of ${unit(Math.max(...one.map((row) => row.patients)))}`, "Its link has the items that no model has right"] };
      }).sort((one, other) => one.value - other.value);
      return ranked.length > 1 ? dots({ title: level, rows: ranked, from: Math.min(0, ...ranked.map((row) => row.low)), marks: [[column.startsWith("corrected") ? 0 : null, "chance"]] }) : null;
    }).filter(Boolean);
    return panels.length ? figure(`Findings from the hardest to the easiest at each level: ${kindWords()}, %, mean over the kinds of the level and over ${report.plural(Math.max(models.length, 1), models.length ? "model" : "baseline")}.${noForm()} The line reaches from the lowest to the highest model; it is no interval, and the order is not tested.`, ...panels) : null;
  }

  function findings() {
    const model = picked(), list = shown("finding_kinds").filter((row) => row.model === model), column = kindMeasure();
    if (!list.length) return null;
    const of = new Map(list.map((row) => [`${row.finding} ${row.kind}`, row]));
    return figure(`${capital(kindWords())} of ${model} on each finding and kind, %.${noForm()}`, heat({ title: model, rows: unique(list.map((row) => row.finding)), columns: unique(list.map((row) => row.kind)), cell: (finding, kind) => {
      const row = of.get(`${finding} ${kind}`);
      return row && { value: row[column], text: `${number(row[column])} ${interval(row[`${column}_low`], row[`${column}_high`])}`, short: row[column] === null ? "–" : String(Math.round(100 * row[column])).replace("-", "−"),
        lines: [`n = ${row.items} items of ${unit(row.patients)}`, guesses(row, column.startsWith("corrected"))], choice: { protocol: view.protocol, model, finding, kind } };
    } }));
  }

  function confusion() {
    const model = picked(), list = shown("answers_by_key").filter((row) => row.model === model);
    if (!list.length) return null;
    const without = unique(shown("kinds").map((row) => row.kind)).filter((kind) => !list.some((row) => row.kind === kind));
    return figure(`Answers of ${model} (columns) against the key (rows), one box for each kind. A cell has the number of questions and is shaded by its share of the row.${without.length ? ` Kinds without a box: ${without.map(words).join(", ")}. In these kinds, the options are places or pictures, the options differ between questions, or several options are right.` : ""}`, ...unique(list.map((row) => row.kind)).map((kind) => {
      const all = rows("answers_by_key").filter((row) => row.kind === kind), own = list.filter((row) => row.kind === kind);
      const numbers = data.options[kind] || {}, keys = unique(all.map((row) => row.key)).sort((a, b) => (numbers[a] ?? 0) - (numbers[b] ?? 0));
      const answers = [...keys, ...unique(all.map((row) => row.answer)).filter((answer) => !keys.includes(answer))];
      const of = new Map(own.map((row) => [`${row.key}\n${row.answer}`, row.items]));
      const whole = new Map(keys.map((one) => [one, own.filter((row) => row.key === one).reduce((sum, row) => sum + row.items, 0)]));
      return heat({ title: words(kind), rows: keys, columns: answers, side: report.narrow.matches ? 30 : 40, widest: report.narrow.matches ? 190 : 250, isWide: false, cell: (one, answer) => {
        const count = of.get(`${one}\n${answer}`) ?? 0, known = numbers[one] && (numbers[answer] || answer === "no answer");
        return { value: whole.get(one) ? count / whole.get(one) : 0, text: `${count} of ${whole.get(one)}`, short: String(count), lines: [one === answer ? "Right" : "Not right"],
          choice: known ? { protocol: view.protocol, model, kind, key: numbers[one], ...(numbers[answer] ? { said: numbers[answer] } : {}) } : { protocol: view.protocol, model, kind } };
      } });
    }));
  }

  function grid() {
    const list = shown("grid"), models = order(), findings_ = unique(list.map((row) => row.finding));
    const place = [data.macro, ...findings_.filter((finding) => finding !== data.macro)];
    return [figure("Hit rate, %: the mean of findings first, then each finding. Dashed lines: chance; the cell that is right in most other patients (others' cell); and the highest possible rate (a small lesion does not cover half of any cell).", ...place.map((finding) => {
      const own = list.filter((row) => row.finding === finding), of = byModel(own);
      return dots({ title: shared(own, "ceiling") === 0 ? `${words(finding)}: no cell can be hit` : words(finding), rows: models.map((model) => line(model, of.get(model), "hit_rate", { kind: "grid_cell", ...(finding === data.macro ? {} : { finding }) }, of.get(model) ? [`Other patients' cell ${number(of.get(model).most_frequent)}`] : [])),
        marks: [[shared(own, "chance"), "chance"], [shared(own, "most_frequent"), "others' cell"], [shared(own, "ceiling"), "at most"]] });
    })), cells()];
  }

  // Where each model points, beside the right cells.
  function cells() {
    const list = shown("cells"), models = order();
    if (!list.length) return null;
    const tally = (of, column) => {
      const counts = Array(64).fill(0);
      for (const row of of) counts[row.cell - 1] += row[column];
      return counts;
    };
    const board = (title, counts, choice) => {
      const whole = counts.reduce((sum, one) => sum + one, 0) || 1, most = Math.max(...counts, 1), side = 17;
      return make("div", { class: "panel small" }, plots.svg(side * 8 + 20, side * 8 + 38, title, plots.title(title, side * 8 + 20),
        ...[...LETTERS].map((letter, x) => plots.write(20 + side * (x + 0.5), 28, letter, { class: "tick middle" })), ...Array.from({ length: 8 }, (_, y) => plots.write(14, 45 + side * y, String(y + 1), { class: "tick end" })),
        ...counts.map((count, number_) => plots.mark(`${title}, ${LETTERS[number_ % 8]}${Math.floor(number_ / 8) + 1}: ${count} of ${whole}`, [`${number(count / whole)} %`], choice(number_ + 1),
          report.draw("rect", { x: 20 + side * (number_ % 8), y: 32 + side * Math.floor(number_ / 8), width: side - 1, height: side - 1, class: "back" }),
          report.draw("rect", { x: 20 + side * (number_ % 8), y: 32 + side * Math.floor(number_ / 8), width: side - 1, height: side - 1, class: "shade", "fill-opacity": (count / most).toFixed(3) })))));
    };
    const right = list.filter((row) => row.model === models[0]);
    return make("figure", {}, make("figcaption", {}, "Cells that each model named, beside the cells that are right; the darkest cell of a board is the most frequent cell."), make("div", { class: "panels small" },
      board("right cells", tally(right, "correct"), (cell) => ({ kind: "grid_cell", key: cell })),
      ...models.filter((model) => list.some((row) => row.model === model)).map((model) => board(model, tally(list.filter((row) => row.model === model), "chosen"), (cell) => ({ protocol: view.protocol, model, kind: "grid_cell", said: cell })))));
  }

  function subgroups() {
    const model = picked(), list = shown("subgroups").filter((row) => row.model === model);
    if (!list.length) return [];
    return [picker(), figure(`Scores of ${model} in groups of patients and lesions, %: levels corrected for chance, the grid's hit rate.`, ...unique(list.map((row) => row.dimension)).map((dimension) => dots({ title: dimension,
      rows: list.filter((row) => row.dimension === dimension).map((row) => ({ ...line(`${words(row.group)}, ${row.score}`, row, "value", null, row.gap === null ? [] : [`Gap to the other groups ${number(row.gap)} ${interval(row.gap_low, row.gap_high)}`]), role: "model", tone: row.score,
        choice: dimension === "finding" ? { protocol: view.protocol, model, finding: row.group, ...(row.score === data.grid ? { kind: "grid_cell" } : { level: row.score }) } : null })), marks: [[0, ""]] })))];
  }

  function grounding() {
    const list = shown("grounding").filter((row) => row.net_grounding !== null), of = byModel(list), models = order().filter((model) => of.has(model));
    if (!models.length) return [];
    const verdicts = unique(models.map((model) => report.looks(of.get(model)))).filter(Boolean).map((verdict) => {
      const own = models.filter((model) => report.looks(of.get(model)) === verdict);
      return [`${capital(verdict)} (${own.length}): `, ...own.flatMap((model, place) => [place ? ", " : "", report.whole(model)]), ". "];
    });
    const told = (model) => [`Audited cases: ${number(of.get(model).audited, "count")}; ${report.looks(of.get(model))}`], choice = { condition: "target" };
    const ends = (row, column) => ({ value: row[column], low: row[`${column}_low`], high: row[`${column}_high`] });
    const points = models.map((model) => of.get(model)).filter((row) => row.accuracy !== null).map((row) => ({ label: row.model, role: about(row.model).role, verdict: row.looks, x: ends(row, "accuracy"), y: ends(row, "net_grounding"), lines: told(row.model), choice: { protocol: view.protocol, model: row.model, ...choice } }));
    const least = Math.max(0, Math.floor(4 * Math.min(...points.map(({ x }) => x.low ?? x.value)) - 1e-9) / 4);
    const panels = [["net_grounding", "net grounding, points", -0.5], ["right_and_grounded", "right and grounded, %", 0]].map(([column, title, from]) =>
      dots({ title, from, rows: models.map((model) => line(model, of.get(model), column, choice, told(model))), marks: [[column === "net_grounding" ? 0 : null, "does not look"]] }));
    return [verdicts.length ? make("p", {}, ...verdicts.flat()) : null, figure("Accuracy of detection against net grounding, with 95 % intervals: a model may be right without looking at the lesion.",
      plots.plane({ title: "accuracy and net grounding", points, across: { name: "detection right, %", from: least, to: 1 }, up: { name: "net grounding, points", ...scale(list, "net_grounding", -0.25, 1) }, marks: [[0, "does not look"]] }), ...panels)];
  }

  // The curves of one table, a panel for each model and estimate of its confidence.
  function ofConfidence(name, x, y, caption, isDiagonal, choose) {
    const side = 190, at = (share) => 34 + (side - 44) * share, up = (share) => side - 24 - (side - 54) * share;
    const panels = order().flatMap((model) => unique(shown(name).filter((row) => row.model === model).map((row) => row.estimate)).map((estimate) => {
      const own = shown(name).filter((row) => row.model === model && row.estimate === estimate && row.level === data.all_answers && row[x] !== null && row[y] !== null).sort((one, other) => one[x] - other[x]);
      const label = estimate === "stated" ? model : `${model}, ${estimate}`, step = name === "confidence_bins" ? 1 : Math.ceil(own.length / 12);
      return own.length ? make("div", { class: "panel small" }, plots.svg(side, side, `${caption.split(",")[0]}: ${label}`, plots.title(label, side),
        ...[0, 0.5, 1].flatMap((share) => [report.draw("line", { x1: at(0), x2: at(1), y1: up(share), y2: up(share), class: "grid" }), plots.write(30, up(share) + 4, String(100 * share), { class: "tick end" }), plots.write(at(share), side - 8, String(100 * share), { class: "tick middle" })]),
        isDiagonal ? report.draw("line", { x1: at(0), x2: at(1), y1: up(0), y2: up(1), class: "chance" }) : "", report.draw("path", { d: "M" + own.map((row) => `${at(row[x])} ${up(row[y])}`).join("L"), class: "line first-1" }),
        ...own.filter((row, place) => place % step === 0).map((row) => plots.mark(`${label}: ${number(row[y])} % at ${number(row[x])} %`, [row.answers ? `n = ${number(row.answers, 0)} answers` : `confidence of ${number(row.least_confidence)} % and more`],
          estimate === "stated" ? { protocol: view.protocol, model, ...choose(row) } : null, report.draw("circle", { cx: at(row[x]), cy: up(row[y]), r: 3.5, class: "point first-1" }))))) : null;
    })).filter(Boolean);
    return panels.length ? make("figure", {}, make("figcaption", {}, caption), make("div", { class: "panels small" }, ...panels)) : null;
  }

  // The names of the bins of confidence in the gallery's address, from a confidence on.
  const surer = (least) => Array.from({ length: 10 }, (_, bin) => 10 * bin).filter((bin) => bin + 10 > 100 * least + 1e-6 || bin === 90);

  function confidence() {
    if (shown("confidence").length && !shown("confidence_bins").length) return [make("p", {}, "No plot: no answer states a confidence that could be read.")];
    return [ofConfidence("confidence_bins", "mean_confidence", "share_right", "Right answers, % (upwards) against confidence, % (to the right); on the dashed line a model is calibrated.", true, (row) => ({ confidence: Math.round(100 * row.confidence_from) })),
      ofConfidence("confidence_curve", "kept_share", "share_wrong", "Wrong answers among the kept answers, % (upwards) against the share of answers kept, most confident first, % (to the right). A mark opens the wrong answers in the kept bins of confidence.", false, (row) => ({ confidence: surer(row.least_confidence), state: "not_correct" }))];
  }

  // Stress: one area for each kind, the share of changed answers, and the curves of one model over the severities.
  function stress() {
    const list = shown("stress"), models = order(), curve = shown("stress_curve"), kinds_ = unique(list.map((row) => row.stress));
    const cells_ = (kind) => unique(rows("stress_curve").filter((row) => row.stress === kind).map((row) => (row.strength === null ? kind : `${kind}-${row.strength}`)));
    const panels = (column, title, more) => kinds_.map((kind) => {
      const of = byModel(list.filter((row) => row.stress === kind));
      return dots({ title: words(kind), ...scale(list, column, 0, column === "flips" ? 0.5 : 0.05), marks: [[0, ""]], rows: models.filter((model) => of.has(model)).map((model) => line(model, of.get(model), column, { condition: cells_(kind), ...more }, [`Accuracy ${number(of.get(model).accuracy_original)} % before, ${number(of.get(model).accuracy_stressed)} % after`])) });
    });
    if (!list.length) return [];
    const strengths = (kind) => unique(curve.filter((row) => row.stress === kind).map((row) => row.strength)), model = picked();
    const graded = kinds_.filter((kind) => curve.some((row) => row.model === model && row.stress === kind) && strengths(kind).some((strength) => /^[1-5]$/.test(strength ?? "")));
    const points = (kind, column) => curve.filter((row) => row.model === model && row.stress === kind && row[column] !== null).map((row) => [row.strength, row[column], row[`${column}_low`], row[`${column}_high`],
      [`n = ${row.items} items of ${unit(row.patients)}`], { protocol: view.protocol, model, condition: `${kind}-${row.strength}`, ...(column === "flips" ? { state: "changed" } : {}) }]);
    return [figure("Change of accuracy under each kind of stress, points, over all its severities (the area between the curves). A mark opens examples.", ...panels("change", "", {})),
      figure("Share of answers that differ from the answer to the original, %. A mark opens examples of changed answers.", ...panels("flips", "", { state: "changed" })),
      ...(graded.length ? [picker(), make("figure", {}, make("figcaption", {}, `${model} at each severity of each degradation (1 is slight, 5 is strong)${curve.some((row) => row.model === model && row.change_low !== null) ? ", with 95 % intervals where there are enough patients" : `; no intervals: fewer than ${data.least} ${data.unit} at each severity`}. Line: change of accuracy, points. Dashes: answers that differ from the original's, %.`),
        make("div", { class: "panels small" }, ...graded.map((kind) => plots.curves({ title: kind, ends: curve.filter((row) => row.model === model).flatMap((row) => ["change", "flips"].flatMap((column) => [row[column], row[`${column}_low`], row[`${column}_high`]])), places: ["0", ...strengths(kind)], lines: [{ name: `${kind}, change of accuracy`, tone: "first-1", points: [["0", 0, null, null, ["the original"], null], ...points(kind, "change")] }, { name: `${kind}, answers changed`, tone: "first-2", dashed: true, points: points(kind, "flips") }] }))))] : [])];
  }

  function states() {
    const list = shown("states"), of = byModel(list), used = data.states.filter((state) => list.some((row) => row[state]));
    return [make("figure", {}, make("figcaption", {}, "How the questions ended; all states but 'correct' count as not correct."), key(used.map((state) => [state, STATE_TONES[state]])), make("div", { class: "panels" }, stacks({ title: "questions by state",
      rows: order().filter((model) => of.has(model)).map((model) => ({ label: model, parts: used.map((state) => [of.get(model)[state], words(state), STATE_TONES[state], { protocol: view.protocol, model, state }]) })) }))), costs()];
  }

  function costs() {
    const overall = byModel(shown("levels").filter((row) => row.level === data.overall)), column = measure();
    const known = shown("costs").filter((row) => row.cost_per_1000_usd > 0 && overall.get(row.model)?.[column] != null);
    if (!known.length) return null;
    const width = report.narrow.matches ? 390 : 560, height = 330, logs = known.map((row) => Math.log10(row.cost_per_1000_usd)), least = Math.floor(Math.min(...logs)), most = Math.max(Math.ceil(Math.max(...logs)), least + 1);
    const scores = known.map((row) => overall.get(row.model)[column]), low = Math.min(0, ...scores), x = (value) => 44 + ((width - 190) * (Math.log10(value) - least)) / (most - least), y = (value) => height - 40 - ((height - 70) * (value - low)) / (1 - low);
    const parts = [];
    for (const share of [0, 0.25, 0.5, 0.75, 1]) parts.push(report.draw("line", { x1: 44, x2: width - 146, y1: y(share), y2: y(share), class: "grid" }), plots.write(38, y(share) + 4, String(100 * share), { class: "tick end" }));
    for (let power = least; power <= most; power += 1) parts.push(plots.write(x(10 ** power), height - 22, `$${10 ** power}`, { class: "tick middle" }));
    const dots = known.map((row) => ({ row, value: overall.get(row.model)[column] })).sort((a, b) => b.value - a.value).map((dot) => ({ ...dot, left: x(dot.row.cost_per_1000_usd), top: y(dot.value) }));
    const taken = dots.map(({ left, top }) => [left - 6, top - 6, left + 6, top + 6]);
    const names = plots.besides(dots.map(({ row, left, top }) => ({ label: row.model, at: [left, top] })), 122, [44, 8, width, height - 40], taken);
    for (const [place, { row, value, left, top }] of dots.entries()) {
      parts.push(plots.mark(`${row.model}: ${number(value)} % for $${number(row.cost_per_1000_usd, 2)}`, [`$${number(row.cost_usd, 2)} for ${number(row.asked, "count")} questions`], { protocol: view.protocol, model: row.model },
        report.draw("circle", { cx: left, cy: top, r: 5, class: "point" }), ...names[place]));
    }
    const unpriced = shown("costs").filter((row) => report.about(row.model).role === "model" && !(row.cost_per_1000_usd > 0)).map((row) => row.model);
    return figure(`Mean of levels (${report.scoreWords()}), %, against dollars for 1,000 questions (each step to the right costs ten times as much).${unpriced.length ? ` Not drawn, because the cost of a question is unknown, or all cost nothing: ${unpriced.join(", ")}.` : ""}`, make("div", { class: "panel wide" }, plots.svg(width, height, "score against price", ...parts)));
  }

  const SEEN_IN = { "contour evaluation": ["contour_evaluation"], points: ["revision_expansion", "revision_contraction"], "four pictures": ["revision_result"] };
  // The depth from which errors of outlines are seen, in pixels, in each task.
  function limits() {
    const list = shown("thresholds"), models = order();
    if (!list.length) return [];
    // A text such as "> 60.0" stands at the deepest error that was tested, as an open mark or an open end.
    // A threshold that cannot be told has no mark.
    const at = (text) => Number(text.replace(/[<> ]/g, "")), texts = (row) => [row.reads?.startsWith(data.not_told) ? null : row.reads, ...(row.reads_between ?? "").split(" to ")].filter(Boolean);
    const deepest = Math.max(...list.flatMap((row) => texts(row).map(at)), 10);
    const place = (model, row, task) => {
      const [reads, low, high] = texts(row), said = row.reads?.startsWith(data.not_told) ? [row.reads === data.not_told ? "The answers are the same with and without an error, or exclude no tested depth" : capital(row.reads), `Errors shown: ${row.with_error}; said where there is none: ${number(row.false_alarms)} %`] : [low ? "95 % interval" : "no interval", `Errors shown: ${row.with_error}`, row.items ? `n = ${row.items} items of ${unit(row.patients)}` : ""];
      return { ...line(model, row, "threshold", { kind: SEEN_IN[task] }), value: reads ? at(reads) : null, low: low ? at(low) : null, high: high ? at(high) : null, lines: said,
        instead: row.reads?.split(":")[0], between: low ? `[${low}, ${high}]` : "", tone: /[<>]/.test(reads ?? "") ? "open hollow" : "" };
    };
    return [figure(`Depth from which an error in an outline is seen, in pixels of the working image, with 95 % intervals; further left is better. A hollow mark lies outside the tested depths. “Cannot be told”: the answers are the same with and without an error, such as always “yes”, or exclude no tested depth, or are fewer than ${data.least_responses} (outlines, points or sets of four pictures).`, ...unique(list.map((row) => row.seen_in)).map((task) => {
      const of = byModel(list.filter((row) => row.seen_in === task));
      return dots({ title: words(task), to: 1.08 * deepest, form: 1, rows: models.filter((model) => of.has(model)).map((model) => place(model, of.get(model), task)) });
    }))];
  }

  // Every two models on the mean of levels: the difference, shaded where the test tells them apart.
  function differing() {
    const list = rows("pairs").filter((row) => here(row) && row.score === data.overall && row.difference !== null && isShown(row.model_a) && isShown(row.model_b));
    if (!list.length) return null;
    const of = new Map(list.flatMap((row) => [[`${row.model_a}\n${row.model_b}`, [row, 1]], [`${row.model_b}\n${row.model_a}`, [row, -1]]])), models = order().filter((model) => list.some((row) => row.model_a === model || row.model_b === model));
    return figure("Row minus column, points of the mean of levels, corrected for chance. Dark: the test, with Holm's correction, tells the two apart. Half dark: p is below 0.05 in an exploratory test, not corrected. Pale: neither.", heat({ title: "differences between models", rows: models, columns: models, side: report.narrow.matches ? 30 : 36, cell: (one, other) => {
      const [row, sign] = of.get(`${one}\n${other}`) ?? [];
      if (!row) return null;
      const ends = [sign * row.difference_low, sign * row.difference_high].sort((low, high) => low - high), known = row.difference_low !== null && row.difference_low !== undefined;
      return { value: row.verdict === "different" ? 0.8 : !row.verdict && row.p !== null && row.p < 0.05 ? 0.5 : 0, text: `${number(sign * row.difference)} points ${known ? interval(...ends) : ""}`.trim(), short: String(Math.round(100 * sign * row.difference)).replace("-", "−"), lines: [row.verdict ? `Verdict: ${row.verdict} (p ${number(row.p_holm, "p")} after Holm's correction)` : row.p === null ? "Not tested" : `Exploratory test, not corrected: p ${number(row.p, "p")}`], choice: { protocol: view.protocol, right: one, wrong: other } };
    } }));
  }

  // Models beside readers.
  function comparisons() {
    const readers = shown("random_readers");
    if (!readers.length) return [differing()];
    return [differing(), figure("Model minus readers, points; intervals allow for other readers and other patients.", ...unique(readers.map((row) => row.score)).map((score) => dots({ title: words(score), ...scale(readers, "difference", -0.2, 0.2), marks: [[0, "readers"]],
      rows: readers.filter((row) => row.score === score).map((row) => line(row.model, row, "difference", null, [`${row.readers} readers`])) })))];
  }

  const BY_SECTION = { levels, comparisons, depth, kinds, grid, subgroups, grounding, limits, stress, confidence, states };
  // The plots of a section; none if there is nothing to draw.
  const of = (anchor) => (BY_SECTION[anchor] ? BY_SECTION[anchor]().filter(Boolean) : []);
  return { of, shown, unique, line, picker, picked };
})();
