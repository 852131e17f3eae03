"use strict";
// First screen: which model is best at what and how sure that is, the leaderboard, and the plot of where models stop seeing.
const leaderboard = (() => {
  const { data, make, draw, rows, about, view, here, order, measure, number, estimate, interval, gallery, tell, term, words, unit, bare, shared } = report;
  const WIDTH = 100, HEIGHT = 18, USUAL = "most frequent answer";

  // A model's number: value, interval, chance, the score without a look, and the gallery's filter for its items. Null if the
  // model was not asked.
  function entry(row, column, chance, choice, label, more = [], unseen = { name: "guessing", value: chance }) {
    if (!row) return null;
    const value = row[column], low = row[`${column}_low`];
    return { value, low, high: row[`${column}_high`], chance, unseen, row, choice, label, column, more, missing: missing(row, value, low) };
  }

  // What a model reaches that never looks: the higher one of guessing and the most frequent answer, which can be below guessing.
  const unlooked = (chance, usual, name) => (usual == null || usual <= chance ? { name: "guessing", value: chance } : { name, value: usual });

  // The share of a model's finished questions with a readable answer; null without a finished question.
  function readable(model) {
    const row = rows("states").find((one) => here(one) && one.model === model), asked = row ? row.items - row.error - row.not_asked : 0;
    return asked ? (row.correct + row.wrong) / asked : null;
  }
  const isSilent = (model) => readable(model) === 0;
  // Beside the name of a model with many refusals or unreadable answers: the share of questions that it answered.
  const ANSWERED = 0.95, answered = (model) => ((readable(model) ?? 1) < ANSWERED ? `answered ${number(readable(model), "share")} %` : "");

  // Why a row has no number or no interval; null if it has both.
  function missing(row, value, low) {
    if (value !== null && value !== undefined) return low === null || low === undefined ? bare(row) : null;
    if (row.unfinished) return `no number: ${report.plural(row.unfinished, "question")} without an answer yet`;
    return view.score === "corrected" && row.accuracy != null ? "no number: no finding of its yes/no questions has both answers in the key, which the score corrected for chance needs; “not corrected” has the share of right answers" : "no number";
  }

  // The leaderboard's columns: a name, a label, what it means, and the number of each model.
  function columns() {
    const level = new Map(rows("levels").filter(here).map((row) => [`${row.level} ${row.model}`, row]));
    const shown = [];
    const score = measure(), usual = view.score === "plain" ? "prior" : "prior_corrected";
    for (const name of [data.overall, ...data.levels]) {
      if (![...level.keys()].some((key) => key.startsWith(`${name} `))) continue;
      const of = (model) => {
        const row = level.get(`${name} ${model}`);
        const chance = !row ? null : view.score === "plain" ? row.chance : 0, unseen = row && unlooked(chance, row[usual], `the ${USUAL}${view.answers === "answered" ? " (all questions)" : ""}`);
        return entry(row, score, chance, { model, protocol: view.protocol, ...report.counted(name) },
          `${model}, ${name === data.overall ? "mean of levels" : name}`,
          row ? [`${number(row.items, "count")} items of ${unit(row.patients)}`, `Readable answers: ${number(row.answered)} %`,
            ...known(chance, row[usual], "Most frequent answer"), beyond(row, score, unseen)] : [], unseen);
      };
      shown.push({ name, label: name === data.overall ? "mean" : name, meaning: meaning(name), of, usual: shared(rows("levels").filter((row) => here(row) && row.level === name), usual) });
    }
    const grid = new Map(rows("grid").filter((row) => here(row) && row.finding === data.macro).map((row) => [row.model, row]));
    if (grid.size) {
      shown.push({ name: data.grid, label: "grid", usual: shared([...grid.values()], "most_frequent"), meaning: `hit rate on the 8 x 8 grid, mean of findings: ${data.terms["hit rate"]}`, of: (model) => {
        const row = grid.get(model), unseen = row && unlooked(row.chance, row.most_frequent, "other patients' cell");
        return entry(row, "hit_rate", row && row.chance, { model, protocol: view.protocol, kind: "grid_cell" }, `${model}, grid`,
          row ? [`${number(row.items, "count")} items of ${unit(row.patients)}`, `The highest possible is ${number(row.ceiling)}`, ...known(row.chance, row.most_frequent, "Other patients' cell"), beyond(row, "hit_rate", unseen)] : [], unseen);
      } });
    }
    const grounding = new Map(rows("grounding").filter(here).map((row) => [row.model, row]));
    if (grounding.size) {
      shown.push({ name: "grounding", label: "net grounding", meaning: data.terms["net grounding"], isUntested: true, of: (model) => {
        const row = grounding.get(model);
        const one = entry(row, "net_grounding", 0, { model, protocol: view.protocol, condition: "target" }, `${model}, net grounding`,
          row ? [`Verdict: ${report.looks(row) ?? "none"}`, audited(row)] : []);
        return one && { ...one, said: row.looks };
      } });
    }
    // Where places alone were asked, their net scores stand here; otherwise in their section alone.
    const places = shown.length ? [] : rows("places").filter((row) => here(row) && row.finding === data.macro);
    for (const kind of new Set(places.map((row) => row.kind))) {
      const own = new Map(places.filter((row) => row.kind === kind).map((row) => [row.model, row]));
      shown.push({ name: kind, label: words(kind), meaning: `${data.terms.net}; mean of findings`, isUntested: true, nobody: "no model is better than always answering “nowhere”", unsure: "no model is surely better than always answering “nowhere”", least: -1, of: (model) => {
        const row = own.get(model), one = entry(row, "net", 0, { model, protocol: view.protocol, kind }, `${model}, ${words(kind)}`,
          row ? [`${number(row.present, "count")} findings present, ${number(row.absent, "count")} absent`, `Present: ${number(row.right_present)} % right; absent: ${number(row.placed_absent)} % with a place`] : []);
        return one && one.value == null && row.frame !== "proved" ? { ...one, missing: `no number: its coordinate system is ${row.frame}` } : one;
      } });
    }
    return shown;
  }

  // What guessing and the most frequent answer reach.
  const known = (chance, usual, name) => [`Guessing has ${chance ? number(chance) : 0}`, usual == null ? null : `${name} has ${number(usual)}`];

  // How far a score is above or below what a model reaches that never looks; null where only the answered questions count.
  function beyond(row, column, unseen) {
    if (view.answers === "answered" && column !== "hit_rate" || row[column] == null || unseen.value == null) return null;
    const gap = row[column] - unseen.value;
    if (Math.abs(gap) < 1e-9) return `The score is the same as ${unseen.name}`;
    return `The score is ${number(Math.abs(gap))} points ${gap < 0 ? "below" : "above"} ${unseen.name}`;
  }

  // What net grounding rests on.
  const audited = (row) => `${report.plural(row.audited, "audited case")}; the mean is of ${report.plural(row.findings, "finding")} and ${unit(row.patients)}`;

  // The verdicts on net grounding, with the number of models of each.
  function verdicts(column, ranked) {
    const found = ranked.map((model) => column.of(model).row.looks), counts = data.verdicts.map((verdict) => [verdict, found.filter((one) => one === verdict).length]).filter(([, count]) => count);
    return counts.map(([verdict, count], place) => `${verdict}: ${count}${place ? "" : ` of ${report.plural(found.length, "model")}`}`).join("; ");
  }

  function meaning(name) {
    if (name === data.overall) {
      const column = measure(), known = data.levels.filter((level) => rows("levels").some((row) => here(row) && row.level === level && row[column] != null));
      return `the mean of the levels${known.length ? ` (${known.join(", ")})` : ""}; ${report.scoreWords()}`;
    }
    const part = data.terms.level.split("; ").find((one) => one.startsWith(`${name}:`));
    return `${part || name}; mean over its kinds of question, without cardiomegaly; ${report.scoreWords()}`;
  }

  // The letters of models by score; one model alone has none to share.
  const letters = () => new Map(rows("groups").filter((row, _, all) => here(row) && all.some((other) => here(other) && other.letters && other.model !== row.model)).map((row) => [`${row.score} ${row.model}`, row.letters]));

  // A bar from 0 with its interval and a mark at chance; ``from`` is the least value of the scale.
  function bar(one, from) {
    const at = (value) => (WIDTH * (Math.min(Math.max(value, from), 1) - from)) / (1 - from);
    const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true", class: "bar" });
    const end = at(one.value), zero = at(0);
    picture.append(draw("rect", { x: 0, y: 4, width: WIDTH, height: 10, class: "track" }),
      draw("rect", { x: Math.min(zero, end), y: 4, width: Math.max(Math.abs(end - zero), 0.5), height: 10, class: "value" }));
    if (one.chance !== null && one.chance !== undefined) picture.append(draw("line", { x1: at(one.chance), x2: at(one.chance), y1: 0, y2: HEIGHT, class: "chance" }));
    if (one.low !== null && one.low !== undefined) picture.append(draw("line", { x1: at(one.low), x2: at(one.high), y1: 9, y2: 9, class: "whisker" }));
    return picture;
  }

  function cell(column, model, from) {
    const one = column.of(model);
    if (!one) return make("td", { class: "none", "data-label": column.label }, "–");
    if (one.value === null || one.value === undefined) return make("td", { class: "none", "data-label": column.label }, tell(make("button", { type: "button", class: "term", "aria-label": `${one.label}: ${one.missing}` }, "–"), [one.label, report.sentence(one.missing)]));
    const link = make("a", { href: gallery(one.choice), "data-mark": true, "aria-label": `${one.label}: ${estimate(one.row, one.column)}` },
      make("span", { class: "number" }, number(one.value)), bar(one, from));
    tell(link, [`${one.label}`, `${number(one.value)} ${interval(one.low, one.high) || `(${one.missing})`}`, ...one.more, report.OPENS]);
    return make("td", { class: "score", "data-label": column.label }, link, one.said ? make("span", { class: "said" }, one.said) : null);
  }

  // The row of the answer that is most frequent among other patients: what a model reaches that never looks.
  function usualRow(shown, from, ...more) {
    const meaning = `${data.terms.prior}; for the grid: ${data.terms["most frequent"]}. It can be below guessing, because leaving a patient out can turn a small majority round; scores are compared with the higher one`;
    return make("tr", { class: "reference" }, make("td", { class: "rank" }), make("th", { scope: "row", class: "text" }, tell(make("button", { type: "button", class: "term", "aria-description": meaning }, USUAL), [USUAL, report.sentence(meaning)])), ...more[0],
      ...shown.map((column) => (column.usual == null ? make("td", { class: "none", "data-label": column.label }, "–") :
        make("td", { class: "score", "data-label": column.label }, make("span", { class: "plain" }, make("span", { class: "number" }, number(column.usual)), bar({ value: column.usual }, from(column)))))), ...more[1]);
  }

  // A model's name; that of a baseline is explained.
  function label(model) {
    const rule = about(model).role === "baseline" && data.terms[model];
    return rule ? tell(make("button", { type: "button", class: "term name", "aria-description": rule }, ...report.breakable(model)), [model, report.sentence(rule)]) : make("span", { class: "name", title: model }, ...report.breakable(model));
  }

  function table() {
    const shown = columns(), models = order(), group = letters(), ranking = shown[0];
    const costs = new Map(), partial = new Map();
    for (const row of rows("costs").filter(here)) {
      costs.set(row.model, row.cost_per_1000_usd);
      // Where the cost of some questions is unknown, the others' cost is a lower bound.
      if (row.cost_per_1000_usd == null && row.known_usd > 0) partial.set(row.model, (1000 * row.known_usd) / (row.asked + row.asked_altered));
    }
    const priced = partial.size > 0 || [...costs.values()].some((value) => value > 0), sorts = models.some((model) => about(model).role !== "model" || about(model).domain);
    const lettered = [...group.values()].some(Boolean);
    const sort = [...view.sort].find((one) => one.startsWith("leaderboard."));
    const [, by, direction] = sort ? sort.split(/^leaderboard\.(.*)\.(\w+)$/) : [];
    // The most frequent answer stands among the models by its score, as readers and baselines do.
    const hasUsual = view.others === "with" && view.answers === "all" && ranking?.usual != null, after = models.findIndex((model) => (ranking?.of(model)?.value ?? -9) < ranking?.usual);
    const listed = hasUsual ? [...models.slice(0, after < 0 ? models.length : after), USUAL, ...(after < 0 ? [] : models.slice(after))] : models;
    const sorted = by ? [...listed].sort((one, other) => compare(by, direction, one, other)) : listed;
    function compare(name, way, one, other) {
      const value = (model) => (model === USUAL && !["model", "domain"].includes(name) ? shown.find((column) => column.name === name)?.usual : name === "model" ? model : name === "domain" ? about(model).domain ?? "" : name === "cost" ? costs.get(model) ?? partial.get(model) : shown.find((column) => column.name === name)?.of(model)?.value);
      return tables.compare(value(one), value(other), way);
    }
    // Models with equal scores have the same rank; sums in another order differ in their last digits.
    const value = (model) => ranking.of(model).value, scored = models.filter((model) => about(model).role === "model" && ranking?.of(model)?.low != null && !isSilent(model));
    const rank = new Map(scored.map((model) => [model, 1 + scored.filter((other) => value(other) > value(model) + 1e-9).length]));
    const heads = [["rank", "#", `rank by ${ranking?.name === data.overall ? "the mean of levels" : ranking?.label ?? "score"} under the chosen switches; baselines, readers, scores without an interval, and models without a readable answer have none`], ["model", "model", data.terms.model],
      ...(sorts ? [["domain", "domain", "medical: trained for medicine; general: not trained for medicine; baseline: a rule that needs no model; reader: a person"]] : []),
      ...shown.map((column) => [column.name, column.label, column.meaning]),
      ...(lettered ? [["letters", "letters", `on the mean of levels, corrected for chance: ${data.terms.letters}`]] : []),
      ...(priced ? [["cost", "$/1000", data.terms["cost per 1000 usd"]]] : [])];
    const low = new Map(shown.map((column) => [column.name, Math.min(0, ...models.map((model) => column.of(model)?.low ?? column.of(model)?.value ?? 0))]));
    const from = (column) => Math.max(low.get(column.name), column.least ?? -0.5);
    const body = sorted.map((model) => {
      if (model === USUAL) return usualRow(shown, from, sorts ? [make("td", { class: "text domain" }, "no look")] : [], [lettered ? make("td", { class: "text letters" }) : null, priced ? make("td", { class: "cost" }) : null]);
      const who = about(model);
      return make("tr", { class: who.role, "data-model": model }, make("td", { class: "rank" }, String(rank.get(model) ?? "")),
        make("th", { scope: "row", class: "text", "data-rank": rank.get(model) ?? "" }, label(model), answered(model) ? make("span", { class: "answered" }, ` ${answered(model)}`) : null, make("span", { class: "where" }, ` ${who.role === "model" ? who.domain ?? "" : who.role}`)),
        sorts ? make("td", { class: "text domain", "data-label": "domain" }, who.role === "model" ? who.domain ?? "–" : who.role) : null,
        ...shown.map((column) => cell(column, model, from(column))),
        lettered ? make("td", { class: "text letters", "data-label": "letters" }, (isSilent(model) ? null : group.get(`${data.overall} ${model}`)) ?? "–") : null,
        priced ? make("td", { class: "cost", "data-label": "$/1000" }, partial.has(model) ? `≥ ${number(partial.get(model), 2)}` : costs.get(model) == null ? "" : number(costs.get(model), 2)) : null);
    });
    const head = make("tr", {}, ...heads.map(([name, label, note]) => tables.head("leaderboard", name, label, note, ["model", "domain", "letters"].includes(name), by === name ? direction : null, !["rank", "letters"].includes(name))));
    return report.rove(make("table", { class: shown.length > 5 ? "leaders many" : "leaders", id: "leaders", style: `--scores: ${shown.length}` }, make("caption", { class: "sr" }, `Leaderboard, ${words(view.protocol)}${rows("levels").some(here) ? `, ${report.scoreWords()}` : ""}`), make("thead", {}, head), make("tbody", {}, ...body)));
  }

  // Why the best model of a score has no letters: its tests are not among those named in advance, or there are none.
  function exploratory(score, first, second) {
    const tests = rows("pairs").filter((row) => here(row) && row.score === score && [row.model_a, row.model_b].includes(first) && row.p !== null && about(row.model_a).role === "model" && about(row.model_b).role === "model");
    if (!tests.length) return "differences are not tested: fewer than two models have answered all questions";
    const isTold = (row) => row.p < 0.05, next = tests.find((row) => [row.model_a, row.model_b].includes(second));
    return [`exploratory tests, not corrected: p < 0.05 against ${tests.filter(isTold).length} of ${tests.length} models`, ...(next && !isTold(next) ? [", not against the second, ", report.whole(second)] : [])];
  }

  // Who is best at each score, and how many models cannot be told apart from the best.
  function best() {
    const group = letters();
    return make("dl", { class: "best", "aria-label": "Best models" }, ...columns().map((column) => {
      const ranked = order().filter((model) => about(model).role === "model" && column.of(model)?.value != null && !isSilent(model))
        .sort((one, other) => column.of(other).value - column.of(one).value);
      if (!ranked.length) return null;
      const [first] = ranked, one = column.of(first), own = group.get(`${column.name} ${first}`) ?? "";
      const equal = ranked.filter((model) => column.of(model).value === one.value), rest = ranked.slice(equal.length);
      const alike = own ? rest.filter((model) => [...(group.get(`${column.name} ${model}`) ?? "")].some((letter) => own.includes(letter))) : null;
      const sure = ranked.length < 2 ? "the only model" : column.isUntested ? "models are not tested against each other" : alike === null ? exploratory(column.name, first, ranked[1]) : !rest.length ? "all models have the same score" :
        !alike.length ? `ahead of ${equal.length > 1 ? "all others" : "every other model"}` : alike.length === 1 ? ["not told apart from ", report.whole(alike[0])] : ["not told apart from ", named(alike)];
      // Tests are of one score, whatever the switches say.
      const other = alike !== null && report.measure() !== "corrected" ? " (tested: corrected for chance, all questions)" : "";
      const said = make("span", { class: "sure" }, sure, other), names = equal.length > 3 ? `${first} and ${equal.length - 1} others` : equal.map((model) => (answered(model) ? `${model} (${answered(model)})` : model)).join(", ");
      // Net grounding and places have no answer without a look but guessing, which their cards name.
      const unseen = column.isUntested ? "" : `; ${one.unseen.name} has ${one.unseen.value ? number(one.unseen.value) : 0}`;
      const highest = make("span", { class: "with" }, ranked.length < 2 ? "" : "highest: ", report.whole(names), `, ${number(one.value)} ${interval(one.low, one.high) || `(${one.missing})`}${unseen}`);
      const none = (said, ...more) => make("div", {}, make("dt", {}, column.name === data.overall ? "Overall" : column.label), make("dd", {}, make("b", {}, said), " ", highest, ...more));
      if (column.name === "grounding") return none(verdicts(column, ranked), make("span", { class: "sure" }, [audited(one.row), ...report.unique(ranked.map((model) => column.of(model).row).filter((row) => row.looks && report.looks(row) !== row.looks).map(report.looks))].join("; ")));
      // Best is only a score whose interval is above what a model reaches that never looks.
      if (one.low === null || one.low === undefined) return none(`too few ${data.unit} to name one`);
      if (one.value <= one.unseen.value) return none(column.nobody ?? `no model is above ${one.unseen.name}`);
      if (equal.some((model) => !(column.of(model).low > one.unseen.value))) return none(column.unsure ?? `no model is surely above ${one.unseen.name}`, make("span", { class: "sure" }, "the interval of the highest score reaches it"));
      const isOnly = ranked.length < 2;
      return make("div", {}, make("dt", {}, column.name === data.overall ? (isOnly ? "Overall" : "Best model overall") : isOnly ? column.label : `Best model at ${column.label}`),
        make("dd", {}, make("b", {}, ...report.breakable(names)), " ", make("span", { class: "with" }, `${number(one.value)} ${interval(one.low, one.high) || `(${one.missing})`}${column.name === data.grid ? `, at most ${number(one.row.ceiling)} possible` : ""}${unseen}`), said));
    }));
  }

  // The number of models, with their names on hover and focus.
  function named(models) {
    return tell(make("button", { type: "button", class: "term", "aria-description": models.join(", ") }, `${models.length} others`), ["Not told apart at 5 %", models.join(", ")]);
  }

  // How to read the leaderboard: the scale, the marks, the letters, and what is missing and why.
  function legend() {
    const shown = columns(), models = order(), numbers = models.flatMap((model) => shown.map((column) => column.of(model))).filter((one) => one && one.value != null);
    const isLevel = rows("levels").some(here), isPlace = shown.length > 0 && !isLevel && !rows("grid").some(here) && rows("places").some(here);
    const said = [!isLevel ? "" : view.score === "plain" ? "Share of right answers, %." : "Scores in %, corrected for chance: 0 is guessing, 100 is all right.",
      isPlace ? "Places: net scores, points; always answering “nowhere” gives 0." : ""];
    const grid = rows("grid").filter((row) => here(row) && row.finding === data.macro), [most, usual] = ["ceiling", "most_frequent"].map((column) => shared(grid, column));
    if (shown.some((column) => column.name === data.grid)) said.push(`Grid: hit rate, %${most == null ? "" : `; at most ${number(most)} can be reached`}${usual == null ? "" : `; always naming the cell of most other patients reaches ${number(usual)}`}.`);
    said.push(`Bar: the score. Line over it: 95 % interval. Dashed mark: ${isPlace ? "0" : "guessing"}.`);
    if ([...letters().values()].some(Boolean)) said.push("Models that share a letter cannot be told apart on the mean, after Holm's correction; intervals have no such correction.");
    if (numbers.some((one) => one.low === null || one.low === undefined)) said.push(`A score without a line has no interval: it comes from fewer than ${data.least} ${data.unit}, or one of its kinds or findings has fewer than 2.`);
    if (!rows("grounding").length) said.push("Grounding (do answers follow the lesion?) was not tested: no run has questions about altered radiographs.");
    else if (!rows("grounding").some(here)) said.push(`Grounding (do answers follow the lesion?) was tested only under the protocol ${report.askedUnder(["grounding"]).map(words).join(", ")}.`);
    return make("p", { class: "pale small legend" }, said.filter(Boolean).join(" "));
  }

  // What stands out in a model's answers: only what an interval, a count or a share of other tables shows.
  function remarks(model) {
    const of = (name) => rows(name).filter((row) => here(row) && row.model === model), exchanged = of("swapped").filter((row) => row.gain_low > 0);
    const [said] = of("decisions").filter((row) => row.kind === "detection" && row.yes_rate !== null), [altered] = of("grounding"), read = readable(model) ?? 1;
    return [read < ANSWERED ? `no readable answer to ${number(1 - read)} % of the questions` : null,
      said && said.yes_rate >= 0.95 ? `“yes” to ${number(said.yes_rate)} % of the detection questions` : null,
      exchanged.length ? `better with left and right exchanged in the key (${exchanged.map((row) => `${words(row.kind)}: ${number(row.gain)} points ${interval(row.gain_low, row.gain_high)}`).join(", ")})` : null,
      altered?.cgr === 0 && altered.cgr_high != null ? "no right “yes” changed where the lesion was filled in" : null].filter(Boolean);
  }

  function standing() {
    const found = order().filter((model) => about(model).role === "model").map((model) => [model, remarks(model)]).filter(([, list]) => list.length);
    return found.length ? make("div", { class: "pale small standing" }, "What stands out", make("ul", {}, ...found.map(([model, list]) => make("li", {}, report.whole(model), `: ${list.join("; ")}.`)))) : null;
  }

  const board = () => [legend(), table(), standing()].filter(Boolean);

  function show() {
    report.$("best").replaceChildren(best());
    report.$("board").replaceChildren(...board());
    // An empty place has no width of its own, which the plot takes.
    if (!report.$("stops").firstChild) report.$("stops").append(make("p"));
    fit();
    report.$("stops").replaceChildren(...plots.stops());
    report.settle();
  }

  // The plot goes below the leaderboard where a table beside it would be cut.
  function fit() {
    const board = report.$("board"), first = board.parentElement;
    first.classList.remove("below");
    first.classList.toggle("below", board.scrollWidth > board.clientWidth + 1);
  }
  window.addEventListener("resize", fit);

  return { show, board };
})();
