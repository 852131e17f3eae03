"use strict";
// Plots of abstentions, of places by coordinates, and of influences on answers other than the radiograph.
const effects = (() => {
  const { data, make, view, order, number, interval, words } = report;
  const { figure, dots, scale, heat, stacks, key } = plots;
  const { shown, unique, line, picker, picked } = views;
  const byModel = (list) => new Map(list.map((row) => [row.model, row]));
  const models = (list) => order().filter((model) => list.some((row) => row.model === model));

  // How often models abstain, and how often their other answers are right.
  function abstained() {
    const list = shown("abstention").filter((row) => row.level === data.all_answers), of = byModel(list);
    if (!list.length) return null;
    const panel = (title, column, more) => dots({ title,
      rows: models(list).map((model) => line(model, of.get(model), column, null, more(of.get(model)))) });
    return figure("Abstentions, where a model was allowed to abstain. An abstention counts as not right in every other plot.",
      panel("abstained, % of all questions", "abstained", () => []),
      panel("right, % of the questions answered", "accuracy_kept", (row) => [`Right of all questions: ${number(row.accuracy_all)} %`]),
      panel("changed by the permission, %", "changed", () => []));
  }

  const ENDS = [["right_present", "right place", "right"], ["misplaced", "wrong place", "wrong"], ["missed", "answered “nowhere”", "s5"], ["unread", "no readable answer", "s7"]];

  // Net scores of places, and the answers about findings that are present.
  function places() {
    const list = shown("places");
    if (!list.length) return [];
    const kinds = unique(list.map((row) => row.kind)), choice = (kind) => ({ kind });
    const net = kinds.map((kind) => {
      const own = list.filter((row) => row.kind === kind && row.finding === data.macro), of = byModel(own);
      return dots({ title: words(kind), ...scale(list.filter((row) => row.finding === data.macro), "net", -0.2, 1), marks: [[0, "always nowhere"]], rows: models(own).map((model) => {
        const row = of.get(model);
        return line(model, row, "net", choice(kind), [`Present: ${number(row.right_present)} % right; absent: ${number(row.placed_absent)} % with a place`, row.net === null ? `Coordinate system: ${row.frame ?? "not proved"}` : ""]);
      }) });
    });
    const ended = kinds.map((kind) => {
      const own = list.filter((row) => row.kind === kind && row.finding !== data.macro && row.right_present !== null);
      return own.length ? stacks({ title: words(kind), isWide: false, rows: models(own).map((model) => ({ label: model, parts: ENDS.map(([column, label, tone]) => [
        Math.round(own.filter((row) => row.model === model).reduce((sum, row) => sum + row.present * (row[column] ?? 0), 0)), label, tone, { protocol: view.protocol, model, kind }]) })) }) : null;
    }).filter(Boolean);
    return [figure("Net score, points: present findings with a right place minus absent findings with any place; mean of findings. Always answering “nowhere” gives 0. No number: the coordinate system is not proved.", ...net),
      ended.length ? make("figure", {}, make("figcaption", {}, "Answers about the findings that are present, in numbers of findings."), key(ENDS.map(([, label, tone]) => [label, tone])), make("div", { class: "panels" }, ...ended)) : null];
  }

  // What is lost without the radiograph.
  function without() {
    const lost = shown("without_radiograph").filter((row) => row.difference !== null);
    return lost.length ? [figure("Score with the radiograph minus score without it, points. At 0, the radiograph adds nothing.", ...unique(lost.map((row) => `${row.without}\n${row.score}`)).map((one) => {
      const [kind, score] = one.split("\n"), own = lost.filter((row) => row.without === kind && row.score === score), of = byModel(own);
      return dots({ title: `${words(score)}, ${kind}`, from: -0.1, marks: [[0, "adds nothing"]], rows: models(own).map((model) => line(model, of.get(model), "difference", null, [`With: ${number(of.get(model).with_image)}; without: ${number(of.get(model).without_image)}`])) });
    }))] : [];
  }

  // How much answers depend on the order of options and on chance.
  function stability() {
    const turned = shown("rotations").filter((row) => row.spread !== null);
    const again = shown("agreement").filter((row) => row.same_answer !== null), found = [];
    if (turned.length) found.push(figure("Largest gap between two orders of the options, points. At 0, the order does not matter.", ...unique(turned.map((row) => row.score)).map((score) => {
      const own = turned.filter((row) => row.score === score);
      return dots({ title: words(score), to: 0.5, rows: models(own).map((model) => {
        const rows = own.filter((row) => row.model === model);
        return line(model, rows[0], "spread", null, rows.map((row) => `Order ${row.rotation}: ${number(row.value)} ${interval(row.value_low, row.value_high)}`));
      }) });
    })));
    if (again.length) found.push(figure("Pairs of repeated questions with the same answer, %.", ...unique(again.map((row) => row.kind)).map((kind) => {
      const of = byModel(again.filter((row) => row.kind === kind));
      return dots({ title: words(kind), rows: models([...of.values()]).map((model) => line(model, of.get(model), "same_answer", { kind }, [`Both right or both not right: ${number(of.get(model).same_verdict)} %`])) });
    })));
    return [...found, ...favoured()];
  }

  // How much more often one model chooses each position of the options than the key is there.
  function favoured() {
    const model = picked(), list = shown("positions").filter((row) => row.model === model && row.bias !== null);
    if (!list.length) return [];
    const of = new Map(list.map((row) => [`${row.kind} ${row.position}`, row]));
    return [picker(), figure(`How much more often ${model} chooses each position of the options than the key is there, points. Dark: far from 0.`, heat({ title: model, rows: unique(list.map((row) => row.kind)), columns: unique(list.map((row) => row.position)).sort((one, other) => one - other).map(String), cell: (kind, position) => {
      const row = of.get(`${kind} ${position}`);
      return row && { value: Math.min(4 * Math.abs(row.bias), 1), text: `${number(row.bias)} ${interval(row.bias_low, row.bias_high)}`, short: String(Math.round(100 * row.bias)).replace("-", "−"),
        lines: [`Chosen: ${number(row.chosen)} %, key: ${number(row.key_share)} %`, `n = ${number(row.answers, "count")} answers`], choice: { protocol: view.protocol, model, kind } };
    } }))];
  }

  const BY_SECTION = { places, without, effects: stability, confidence: () => [abstained()] };
  // All plots of a section: those of the views, then those of this module.
  const of = (anchor) => [...views.of(anchor), ...(BY_SECTION[anchor] ? BY_SECTION[anchor]() : [])].filter(Boolean);
  return { of };
})();
