"use strict";
// Two models side by side: differences in levels, kinds and findings, and the items that both, one or neither has right.
const comparing = (() => {
  const { data, make, rows, view, here, order, number, interval, plural, gallery, words, unit, about } = report;
  const { figure, dots, stacks, key } = plots;

  // The pair that is compared: the two that were chosen, otherwise the best two.
  function pair() {
    const models = order();
    const a = models.includes(view.a) ? view.a : models.find((model) => model !== view.b && about(model).role === "model") ?? models[0];
    const b = models.includes(view.b) && view.b !== a ? view.b : ["model", "reader", "baseline"].map((role) => models.find((model) => model !== a && about(model).role === role)).find(Boolean);
    return [a, b];
  }

  // Take a model as A or as B. Where the other side has this model, the two sides change places.
  function choose(name, model) {
    const [a, b] = pair();
    const next = name === "a" ? { a: model, b: model === b ? a : b } : { a: model === a ? b : a, b: model };
    report.change(next);
  }

  // The pair's rows of a table; differences change their sign if the table has the two models in the other order.
  function turned(name, a, b) {
    const swap = (row) => ({ ...row, difference: row.difference === null ? null : -row.difference, difference_low: row.difference_high === null ? null : -row.difference_high,
      difference_high: row.difference_low === null ? null : -row.difference_low, only_a: row.only_b, only_b: row.only_a });
    return rows(name).filter(here).flatMap((row) => (row.model_a === a && row.model_b === b ? [row] : row.model_a === b && row.model_b === a ? [swap(row)] : []));
  }

  function select(name, chosen) {
    return make("label", {}, `${name.toUpperCase()} `, make("select", { "aria-label": `model ${name.toUpperCase()}`, onchange: (event) => choose(name, event.target.value) },
      ...order().map((model) => make("option", { value: model, selected: model === chosen }, model))));
  }

  function show() {
    const [a, b] = pair();
    if (!b) return [make("p", {}, "Only one model was asked; a comparison needs two.")];
    const tested = turned("pairs", a, b), parts = turned("differences", a, b);
    const bar = make("p", { class: "picker" }, select("a", a), " ", select("b", b), " ",
      make("button", { type: "button", onclick: () => report.change({ a: b, b: a }) }, "exchange"));
    // Blue or orange is a difference: by the verdict where there is one, otherwise by the interval.
    const differs = (one) => (one.verdict ? one.verdict === "different" : one.difference_low > 0 || one.difference_high < 0);
    const row = (label, one, choice, more) => ({ label, value: one.difference, low: one.difference_low, high: one.difference_high, choice, role: "model", lines: more,
      tone: !differs(one) ? "open" : one.difference > 0 ? "for-a" : "for-b" });
    const scored = tested.map((one) => row(one.score === data.overall ? "mean" : words(one.score), one, { protocol: view.protocol, right: a, wrong: b, ...(one.score === data.grid ? { kind: "grid_cell" } : report.counted(one.score)) },
      [one.verdict ? `Tested: ${one.verdict} (p ${number(one.p_holm, "p")} after Holm's correction)` : one.p === null ? "Not tested" : `Exploratory test, not corrected: p ${number(one.p, "p")}`]));
    const by = (dimension) => parts.filter((one) => one.dimension === dimension).map((one) => row(words(one.group), one, { protocol: view.protocol, right: a, wrong: b, ...(dimension === "all" ? {} : { [dimension]: one.group }) },
      [`n = ${number(one.items, "count")} items of ${unit(one.patients)}`, `Only ${a}: ${one.only_a}; only ${b}: ${one.only_b}`]));
    const scale = Math.max(0.1, ...[...scored, ...parts].flatMap((one) => [Math.abs(one.low ?? one.difference_low ?? 0), Math.abs(one.high ?? one.difference_high ?? 0)]));
    const panel = (title, list) => (list.length ? dots({ title, rows: list, from: -scale, to: scale, marks: [[0, "equal"]] }) : null);
    const verdict = tested.find((one) => one.score === data.overall), whole = parts.find((one) => one.dimension === "all");
    const said = [];
    if (verdict) said.push(`On the mean of levels, corrected for chance and over all questions asked${report.measure() === "corrected" ? "" : " (the switches do not change this)"}, ${a} minus ${b} is ${number(verdict.difference)} points ${interval(verdict.difference_low, verdict.difference_high)}: ${verdict.verdict === "not settled" ? "not settled after Holm's correction: neither a difference nor equality is shown (the interval is not corrected)" : verdict.verdict ?? (verdict.p === null ? "not tested" : `p ${number(verdict.p, "p")} in an exploratory test, not corrected`)}.`);
    if (whole) said.push(` With the same ${plural(whole.items, "item")}, each counted once: ${number(whole.difference)} points ${interval(whole.difference_low, whole.difference_high)}.`);
    const colours = tested.some((one) => one.verdict) ? "Blue: A is better; orange: B is better. The colour follows the verdict “different” after Holm's correction or, without a verdict, an interval that excludes 0. Intervals are not corrected, so the interval of a grey level may exclude 0." : "Blue: A is better; orange: B is better. The colour follows an interval that excludes 0 and is not corrected for the number of comparisons.";
    return [bar, make("p", {}, ...said), figure(`${a} minus ${b}, points, with 95 % intervals; to the right of the dashed line A is better. ${tested.some((one) => one.verdict) ? "Levels are tested with Holm's correction, the grid without it" : "Levels and grid are tested without correction: these tests were not named in advance"}; kinds and findings are shares of right answers and not tested. ${colours}`,
      panel("levels, corrected for chance; grid", scored), panel("kinds, share right", by("kind")), panel("findings, share right", by("finding"))), overlap(a, b, parts, whole)];
  }

  const GROUPS = [["both", "both right", "right"], ["only_a", "only A", "for-a"], ["only_b", "only B", "for-b"], ["neither", "neither", "s5"]];

  function overlap(a, b, parts, whole) {
    if (!whole) return null;
    const choice = { both: { right: [a, b] }, only_a: { right: a, wrong: b }, only_b: { right: b, wrong: a }, neither: { wrong: [a, b] } };
    const bars = (...dimensions) => parts.filter((one) => dimensions.includes(one.dimension)).map((one) => ({ label: one.dimension === "all" ? "all items" : words(one.group), parts: GROUPS.map(([name, label, tone]) => [one[name], label, tone,
      { protocol: view.protocol, ...choice[name], ...(one.dimension === "all" ? {} : { [one.dimension]: one.group }) }]) }));
    const links = make("ul", { class: "counts" }, ...GROUPS.map(([name, label]) => make("li", {}, make("a", { href: gallery({ protocol: view.protocol, ...choice[name] }) }, `${plural(whole[name], "item")} ${{ both: "that both have right", only_a: `that only ${a} has right`, only_b: `that only ${b} has right`, neither: "that neither has right" }[name]}`))),
      make("li", {}, make("a", { href: gallery({ protocol: view.protocol, models: "all_right" }) }, `${plural(whole.every, "item")} that every model has right`)));
    return make("figure", {}, make("figcaption", {}, `Items by the models that have them right; a click opens these items in the gallery.${rows("finding_kinds").some((row) => here(row) && row.finding === data.not_compared) ? ` Levels count all their items here, also those on ${data.not_compared}, which the scores of levels leave out.` : ""}`), links, key(GROUPS.map(([, label, tone]) => [label, tone])), make("div", { class: "panels" }, ...[["all items and each level", bars("all", "level")], ["each kind", bars("kind")], ["each finding", bars("finding")]].filter(([, own]) => own.length).map(([title, own]) => stacks({ title, rows: own, isWide: false }))));
  }

  return { show, pair };
})();
