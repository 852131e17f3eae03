"use strict";
// Plots as SVG: every mark tells its interval and its number of items, and opens these items.
const plots = (() => {
  const { data, make, draw, rows, view, here, order, number, interval, gallery, tell, words, about, rove, visible } = report;
  const LABEL = 138, PANEL = 392, LINE = 19;

  // A text, shortened to fit into ``room`` units of a plot at the given font size.
  const ruler = document.createElement("canvas").getContext("2d");
  function fit(text, room, size = 12, weight = "400") {
    const whole = visible(text);
    ruler.font = `${weight} ${size}px system-ui, "Segoe UI", "DejaVu Sans", sans-serif`;
    if (ruler.measureText(whole).width <= room) return whole;
    // Letters in the middle are left out, because names of models of one family differ at their end.
    const letters = [...whole], most = Math.min(letters.length - 1, 60);
    for (let kept = most; kept > 0; kept -= 1) {
      const end = Math.floor(kept / 2), text = `${letters.slice(0, kept - end).join("")}…${end ? letters.slice(-end).join("") : ""}`;
      if (ruler.measureText(text).width <= room) return text;
    }
    return "…";
  }
  const title = (text, room) => write(4, 13, fit(text, room - 6, 13, "600"), { class: "title" });
  // A mark that can be hovered, focused and, with a filter of the gallery, clicked.
  function mark(name, lines, choice, ...shapes) {
    const attributes = { "data-mark": true, "aria-label": [name, ...lines].filter(Boolean).join(". "), class: "mark" };
    const node = choice ? draw("a", { ...attributes, href: gallery(choice) }, ...shapes) : draw("g", { ...attributes, role: "img" }, ...shapes);
    return tell(node, [name, ...lines, choice ? report.OPENS : null]);
  }
  const svg = (width, height, name, ...children) =>
    rove(draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": name, style: `max-width: ${Math.round(width * 1.2)}px` }, ...children));
  const write = (x, y, text, more = {}) => draw("text", { x, y, ...more }, text);
  const few = `it comes from fewer than ${data.least} ${data.unit}, or it is a mean and one of its kinds or findings has fewer than 2`;
  // A note on why marks of a figure have no interval; empty if all marks have one.
  const bare = (parts) => parts.filter((part) => part && "bare" in part.dataset).slice(0, 1).map((part) => ` A number without a line has no interval: ${part.dataset.bare}.`);
  const figure = (caption, ...parts) => parts.some(Boolean) && make("figure", {}, make("figcaption", {}, caption, bare(parts)), make("div", { class: "panels" }, ...parts.filter(Boolean)));
  const SHAPES = { model: "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5Z", reader: "M0-6L6 0L0 6L-6 0Z", baseline: "M-4-4H4V4H-4Z" };

  // A panel of rows with a mark and an interval each. ``rows``: label, value, low, high, lines, choice, role, tone,
  // and, for a number outside what was tested, ``instead`` and ``between`` as texts. ``without``: why a number may have no interval.
  // ``marks``: [value, name] of lines across, such as chance. ``form``: how numbers are written. No panel without rows.
  function dots({ title: title_, note, rows: shown, from = 0, to = 1, marks = [], form = "share", without = few }) {
    if (!shown.length) return null;
    ruler.font = `400 11.5px system-ui, "Segoe UI", "DejaVu Sans", sans-serif`;
    const label = Math.min(LABEL, Math.max(...shown.map((row) => ruler.measureText(visible(row.label)).width)) + 6);
    const known = shown.flatMap((row) => [row.low ?? row.value, row.high ?? row.value]).filter((value) => value !== null && value !== undefined);
    const least = Math.min(from, ...known), most = Math.max(to, ...known);
    const at = (value) => label + 10 + ((PANEL - label - 56) * (value - least)) / (most - least || 1);
    const top = 38, height = top + LINE * shown.length + 22, parts = [write(label + 10, 13, fit(title_, PANEL - label - 12, 13, "600"), { class: "title" })];
    for (const value of ticks(least, most)) {
      parts.push(draw("line", { x1: at(value), x2: at(value), y1: top - 6, y2: height - 18, class: "grid" }), write(at(value), height - 5, axis(value, form), { class: "tick middle" }));
    }
    const rightmost = (name) => PANEL - 8 - 6.4 * name.length;
    let named = -99, last = null;
    for (const [value, name] of marks) {
      if (value === null || value === undefined) continue;
      parts.push(draw("line", { x1: at(value), x2: at(value), y1: top - 8, y2: height - 18, class: "chance" }));
      // Lines side by side have their names side by side, in the order of the lines.
      if (last && name && Math.abs(at(value) - named) <= Math.max(42, 6.4 * last.textContent.length)) {
        last.textContent += `, ${name}`;
        last.setAttribute("x", Math.min(last.getAttribute("x"), rightmost(last.textContent)));
      } else {
        last = write(Math.min(at(value), rightmost(name)), top - 10, name, { class: "tick" });
        parts.push(last);
      }
      named = at(value);
    }
    shown.forEach((row, place) => {
      const y = top + LINE * (place + 0.5), none = row.value === null || row.value === undefined;
      const shape = [draw("rect", { x: 0, y: y - LINE / 2, width: PANEL, height: LINE, class: "hit" }), write(label, y + 4, fit(row.label, label - 2, 11.5), { class: "end label" })];
      if (none) shape.push(write(label + 12, y + 4, `– ${row.instead ?? "no number"}`, { class: "pale" }));
      else {
        if (row.low !== null && row.low !== undefined) shape.push(draw("line", { x1: at(row.low), x2: at(row.high), y1: y, y2: y, class: `whisker ${row.role || ""} ${row.tone || ""}` }));
        shape.push(draw("path", { d: SHAPES[row.role || "model"], transform: `translate(${at(row.value)} ${y})`, class: `point ${row.role || ""} ${row.tone || ""}` }),
          write(PANEL - 2, y + 4, row.instead ?? number(row.value, form), { class: "end value" }));
      }
      parts.push(mark(`${row.label}: ${row.instead ?? number(row.value, form)} ${row.between ?? interval(row.low, row.high, form)}`.trim(), row.lines || [], row.choice, ...shape));
    });
    const isBare = shown.some((row) => row.value !== null && row.value !== undefined && (row.low === null || row.low === undefined));
    return make("div", { class: "panel", "data-bare": isBare ? without : null }, svg(PANEL, height, `${title_}${note ? `, ${note}` : ""}`, ...parts));
  }

  function ticks(least, most) {
    const width = most - least, step = [0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100].find((one) => width / one <= 5) || width / 4;
    const found = [];
    for (let value = Math.ceil(least / step - 1e-9) * step; value <= most + 1e-9; value += step) found.push(Math.abs(value) < 1e-9 ? 0 : value);
    return found;
  }
  const axis = (value, form) => (typeof form === "number" ? String(Math.round(value * 100) / 100) : String(Math.round(100 * value))).replace("-", "−");

  // The darkness of a share's cell. The middle of the scale is left out: neither dark nor light digits are readable on it.
  const darkness = (share) => (share > 0.5 ? 0.66 + 0.68 * (share - 0.5) : 0.8 * share);

  // Cells of shares with a text in each. ``cell(row, column)``: value from 0 to 1, text, lines, choice; or null. In a narrow
  // window the cells keep their size, and the panel scrolls sideways.
  function heat({ title: title_, rows: down, columns: across, cell, side = report.narrow.matches ? 28 : 32, widest = report.narrow.matches ? 150 : 210, isWide = true }) {
    ruler.font = `400 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif`;
    const label = Math.min(Math.max(report.narrow.matches ? 116 : LABEL, ...down.map((one) => ruler.measureText(words(one)).width + 14)), widest);
    const heads = across.map((one) => fit(words(one), 190, 11)), long = heads.map((one) => ruler.measureText(one).width), isShort = Math.max(...long) < side - 8, top = isShort ? 40 : 34 + 0.62 * Math.max(...long);
    const width = Math.max(label + side * across.length + 8, ...long.map((one, x) => label + side * (x + 0.5) + 0.79 * one + 6)), height = top + 22 * down.length + 4;
    const parts = [title(title_, width)];
    heads.forEach((one, x) => parts.push(write(0, 0, one, { class: isShort ? "tick middle" : "tick", transform: `translate(${label + side * (x + 0.5)} ${top - 6})${isShort ? "" : " rotate(-38)"}` })));
    down.forEach((row, y) => {
      parts.push(write(label - 6, top + 22 * y + 15, fit(words(row), label - 10), { class: "end" }));
      across.forEach((column, x) => {
        const one = cell(row, column);
        if (!one) return;
        const box = { x: label + side * x, y: top + 22 * y, width: side - 1, height: 21 }, share = Math.min(Math.max(one.value ?? 0, 0), 1);
        parts.push(mark(`${words(row)}, ${words(column)}: ${one.text}`, one.lines, one.choice, draw("rect", { ...box, class: "back" }), draw("rect", { ...box, class: "shade", "fill-opacity": darkness(share).toFixed(3) }),
          write(box.x + side / 2, box.y + 15, one.short ?? one.text, { class: share > 0.5 ? "middle on" : "middle off" })));
      });
    });
    const whole = svg(width, height, title_, ...parts);
    if (report.narrow.matches) whole.style.minWidth = `${Math.round(width)}px`;
    const isCut = report.narrow.matches && width > document.documentElement.clientWidth - 28;
    return make("div", { class: `${isWide ? "panel wide" : "panel"} cells` }, isCut ? make("p", { class: "pale small sideways" }, "More columns to the right: the plot scrolls sideways →") : "", whole);
  }

  // Marks of verdicts: filled if the answers follow the lesion, a cross if they do not, hollow if undecided.
  const VERDICTS = { "uses the lesion": ["M0-6L6 5H-6Z", ""], "not shown to use it": ["M-5-5L5 5M-5 5L5-5", "cross"], undecided: [SHAPES.model, "hollow"] };

  // A plane with a mark for each model, intervals in both directions and names that do not overlap. ``points``: label, x, y (each
  // a row of ``value``, ``low``, ``high``), verdict, role, lines, choice. ``across`` and ``up``: name, from, to; ``marks``: [value, name] of
  // lines at a height.
  function plane({ title: title_, points, across, up, marks = [] }) {
    if (!points.length) return null;
    const isNarrow = report.narrow.matches, width = isNarrow ? 390 : 620, height = isNarrow ? 400 : 420, left = 44, top = 44, right = width - 14, bottom = height - 40;
    const x = (value) => left + ((right - left) * (value - across.from)) / (across.to - across.from), y = (value) => bottom - ((bottom - top) * (value - up.from)) / (up.to - up.from);
    const parts = [title(title_, width), write(4, 31, `↑ ${up.name}`, { class: "tick" }), write(right, height - 6, `${across.name} →`, { class: "tick end" })];
    for (const value of ticks(across.from, across.to)) parts.push(draw("line", { x1: x(value), x2: x(value), y1: top, y2: bottom, class: "grid" }), write(x(value), bottom + 15, axis(value, "share"), { class: "tick middle" }));
    for (const value of ticks(up.from, up.to)) parts.push(draw("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }), write(left - 6, y(value) + 4, axis(value, "share"), { class: "tick end" }));
    const taken = [];
    for (const [value, name] of marks) {
      parts.push(draw("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "chance" }), write(left + 3, y(value) - 4, name, { class: "tick" }));
      ruler.font = `400 11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif`;
      taken.push([left, y(value) - 15, left + 6 + ruler.measureText(name).width, y(value)]);
    }
    const places = points.map((one) => ({ ...one, at: [x(one.x.value), y(one.y.value)] }));
    const lines = places.flatMap(({ at: [h, v], x: { low, high }, y: { low: least, high: most } }) => [known(low) ? [x(low), v - 1, x(high), v + 1] : null, known(least) ? [h - 1, y(most), h + 1, y(least)] : null]).filter(Boolean);
    taken.push(...places.map(({ at: [h, v] }) => [h - 8, v - 8, h + 8, v + 8]));
    // Marks that coincide share one label, which stands at the first of them.
    const firsts = places.map(({ at: [h, v] }) => places.findIndex(({ at }) => Math.hypot(h - at[0], v - at[1]) < 4));
    const named = places.map((one, place) => ({ at: one.at, place, own: places.filter((_, other) => firsts[other] === place) })).filter(({ own }) => own.length);
    const wide = isNarrow ? 230 : 380, joined = (own) => { const all = own.map((one) => one.label).join(", "); return fit(all, wide) === all ? all : `${own[0].label} and ${own.length - 1} more`; };
    const names = besides(named.map(({ at, own }) => ({ at, label: joined(own), room: own.length > 1 ? wide : null })), isNarrow ? 130 : 190, [left, top, right, bottom], taken, lines), nameOf = new Map(named.map(({ place }, number_) => [place, names[number_]]));
    for (const [number_, one] of places.entries()) {
      const [h, v] = one.at, [shape, look] = VERDICTS[one.verdict] ?? VERDICTS.undecided;
      const cross = [known(one.x.low) ? draw("line", { x1: x(one.x.low), x2: x(one.x.high), y1: v, y2: v, class: `whisker ${one.role}` }) : null, known(one.y.low) ? draw("line", { x1: h, x2: h, y1: y(one.y.low), y2: y(one.y.high), class: `whisker ${one.role}` }) : null].filter(Boolean);
      parts.push(mark(`${one.label}: ${up.name} ${number(one.y.value)} ${interval(one.y.low, one.y.high)}, ${across.name} ${number(one.x.value)} ${interval(one.x.low, one.x.high)}`.trim(), one.lines, one.choice,
        draw("circle", { cx: h, cy: v, r: 10, class: "hit" }), ...cross, draw("path", { d: shape, transform: `translate(${h} ${v})`, class: `point ${one.role} ${look}` }), ...(nameOf.get(number_) ?? [])));
    }
    const shown = Object.entries(VERDICTS).filter(([name]) => points.some((one) => one.verdict === name));
    const legend = make("ul", { class: "key" }, ...shown.map(([name, [shape, look]]) => make("li", {}, draw("svg", { viewBox: "-7 -7 14 14", class: "patch", "aria-hidden": "true" }, draw("path", { d: shape, class: `point ${look}` })), name)));
    return make("div", { class: "panel wide plane" }, legend, svg(width, height, title_, ...parts));
  }
  const known = (value) => value !== null && value !== undefined;
  const meet = (one, other) => one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
  // Names beside places of a plot, from the best of a few orders in which they are placed. ``places``: label and at ([x, y]).
  // A name is at most ``room`` wide and has a line to its place if it is far away. It lies inside the box [left, top, right,
  // bottom], off all boxes of ``taken``, and where few boxes of ``lines`` run.
  function besides(places, room, frame, taken, lines = []) {
    const found = [0, 1].flatMap((axis) => [1, -1].map((sign) => {
      const order = [...places.keys()].sort((one, other) => sign * (places[one].at[axis] - places[other].at[axis]));
      const filled = [...taken], crossed = [...lines], nodes = [];
      let cost = 0;
      for (const place of order) {
        const [own, least] = beside(places[place].label, places[place].at, places[place].room ?? room, frame, filled, crossed);
        nodes[place] = own;
        cost += least;
      }
      return { cost, nodes };
    }));
    return found.reduce((best, one) => (one.cost < best.cost ? one : best)).nodes;
  }
  // One name and its cost. Its box and its line are added to ``taken`` and ``lines``.
  function beside(text, [h, v], room, [left, top, right, bottom], taken, lines) {
    const name = fit(text, room), wide = ruler.measureText(name).width + 4;
    const nearest = (box) => [Math.min(Math.max(h, box[0]), box[2]), Math.min(Math.max(v, box[1]), box[3])];
    const along = ([x, y]) => Array.from({ length: Math.max(Math.floor(Math.hypot(x - h, y - v) / 5), 1) }, (_, step, count = Math.hypot(x - h, y - v) / 5) => [h + ((x - h) * step) / count, v + ((y - v) * step) / count]).map(([x, y]) => [x - 1, y - 1, x + 1, y + 1]);
    let best = null, least = 1e5;
    for (let away = 9; away < Math.min(least, 400); away = away * 1.2 + 2) {
      for (let turn = 0; turn < 16; turn += 1) {
        const across = Math.cos((Math.PI * turn) / 8), start = h + away * across - (wide * (1 - across)) / 2, from = v + away * Math.sin((Math.PI * turn) / 8) - 8;
        const box = [start, from, start + wide, from + 16];
        if (start < left || box[2] > right || from < top || box[3] > bottom || taken.some((one) => meet(one, box))) continue;
        // A line to the name that crosses another name or mark costs more than one that crosses an interval.
        const cost = away + 10 * lines.filter((one) => meet(one, box)).length + 30 * along(nearest(box)).slice(2).filter((step) => taken.some((one) => meet(one, step))).length + (turn ? 4 : 0);
        if (cost < least) [best, least] = [box, cost];
      }
    }
    if (!best) return [[], least];
    const end = nearest(best);
    taken.push(best);
    lines.push(...along(end));
    const isFar = Math.hypot(end[0] - h, end[1] - v) > 12;
    return [[isFar ? draw("line", { x1: h, y1: v, x2: end[0], y2: end[1], class: "leader" }) : null, write(best[0] + 2, best[3] - 4, name, { class: "name" })], least];
  }

  // Bars of parts that make up a whole. ``rows``: label and parts [value, name, tone, choice].
  function stacks({ title: title_, rows: shown, label = LABEL, isWide = true }) {
    const width = report.narrow.matches || !isWide ? 390 : 620, height = 26 + 21 * shown.length, parts = [title(title_, width)];
    shown.forEach((row, y) => {
      const whole = row.parts.reduce((sum, [value]) => sum + value, 0) || 1;
      let left = 0;
      parts.push(write(label - 6, 40 + 21 * y, fit(row.label, label - 8, 11.5), { class: "end label" }));
      for (const [value, name, tone, choice] of row.parts) {
        const wide = ((width - label) * value) / whole;
        if (value > 0) {
          parts.push(mark(`${row.label}: ${name}`, [`${number(value, "count")} of ${number(whole, "count")} items, ${number(value / whole)} %`], choice,
            draw("rect", { x: label + left, y: 27 + 21 * y, width: Math.max(wide - 1, 0.7), height: 17, class: `part ${tone}` }), wide > 34 ? write(label + left + wide / 2, 40 + 21 * y, number(value, "count"), { class: "middle ink" }) : null));
        }
        left += wide;
      }
    });
    return make("div", { class: isWide ? "panel wide" : "panel" }, svg(width, height, title_, ...parts.filter(Boolean)));
  }

  // The ends of a scale that all panels of a figure share, from the numbers of their rows and at least ``from`` to ``to``.
  function scale(rows_, column, from, to) {
    const known = rows_.flatMap((row) => [row[column], row[`${column}_low`], row[`${column}_high`]]).filter((value) => value !== null && value !== undefined);
    return { from: Math.min(from, ...known), to: Math.max(to, ...known) };
  }

  const key = (entries) => make("ul", { class: "key" }, ...entries.map(([name, tone]) => make("li", {}, draw("svg", { viewBox: "0 0 12 12", class: "patch", "aria-hidden": "true" }, draw("rect", { width: 12, height: 12, class: `part ${tone}` })), words(name))));

  // A panel of curves of one model over a few places, with an interval at each. ``lines``: name, tone, dashed, and points
  // [place, value, low, high, lines, choice]; ``marks`` are dashed lines at a value.
  function curves({ title: title_, places, lines, marks = [0], isSmall = true, ends = [] }) {
    const known = [...marks, ...ends, ...lines.flatMap((line) => line.points.flatMap(([, value, low, high]) => [value, low, high]))].filter((value) => value !== null && value !== undefined);
    const least = Math.min(...known), most = Math.max(...known, least + 0.05), width = 200, height = 180;
    const x = (place) => 40 + ((width - 54) * places.indexOf(place)) / Math.max(places.length - 1, 1), y = (value) => 26 + ((height - 56) * (most - value)) / (most - least);
    const parts = [title(title_, width)];
    for (const value of ticks(least, most)) parts.push(draw("line", { x1: 40, x2: width - 12, y1: y(value), y2: y(value), class: "grid" }), write(34, y(value) + 4, axis(value, "share"), { class: "tick end" }));
    for (const value of marks) parts.push(draw("line", { x1: 40, x2: width - 12, y1: y(value), y2: y(value), class: "chance" }));
    for (const place of places) parts.push(write(x(place), height - 8, place, { class: "tick middle" }));
    for (const { name, tone, dashed, points } of lines) {
      parts.push(draw("path", { d: "M" + points.map(([place, value]) => `${x(place)} ${y(value)}`).join("L"), class: `line ${tone}`, "stroke-dasharray": dashed ? "5 3" : null }));
      for (const [place, value, low, high, said, choice] of points) {
        const ends = low === null || low === undefined ? null : draw("line", { x1: x(place), x2: x(place), y1: y(low), y2: y(high), class: `whisker ${tone}` });
        parts.push(mark(`${name}, ${place}: ${number(value)} ${interval(low, high)}`, said, choice, draw("circle", { cx: x(place), cy: y(value), r: 8, class: "hit" }), ...(ends ? [ends] : []), draw("circle", { cx: x(place), cy: y(value), r: 3.5, class: `point ${tone}` })));
      }
    }
    return make("div", { class: isSmall ? "panel small" : "panel" }, svg(width, height, title_, ...parts));
  }

  // Heights that are at least ``gap`` apart, from ``least`` to ``most``, and otherwise near the given ones, which are sorted. Heights
  // that push each other apart form a group, which lies around the mean of its wishes.
  function apart(wishes, gap, least, most) {
    const groups = [];
    for (const wish of wishes) {
      groups.push({ sum: wish, count: 1 });
      const from = ({ sum, count }) => Math.min(Math.max(sum / count - (gap * (count - 1)) / 2, least), most - gap * (count - 1));
      while (groups.length > 1 && from(groups.at(-1)) < from(groups.at(-2)) + gap * groups.at(-2).count) { const last = groups.pop(), before = groups.at(-1); before.sum += last.sum; before.count += last.count; }
      for (const group of groups) group.from = from(group);
    }
    return groups.flatMap((group) => Array.from({ length: group.count }, (_, place) => group.from + gap * place));
  }

  // Lines of models over a few places, with names at their ends that do not overlap.
  function slopes({ title: title_, places, lines, marks }) {
    ruler.font = `600 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif`;
    const longest = Math.max(0, ...[...lines.map((line) => line.label), ...marks.map(([, name]) => name)].map((name) => ruler.measureText(visible(name)).width));
    // As many units as the place has pixels, so that names are not made smaller with the plot.
    const width = Math.min(Math.max(report.$("stops").clientWidth, 330), 440), height = Math.min(Math.max(0.95 * width, 330), 400), left = 30, right = Math.min(Math.max(longest + 65, 110), 0.51 * width), top = 14, bottom = 44;
    const x = (place) => left + ((width - left - right) * place) / Math.max(places.length - 1, 1), y = (share) => top + (height - top - bottom) * (1 - share);
    const parts = [];
    for (const share of [0, 0.25, 0.5, 0.75, 1]) parts.push(draw("line", { x1: left, x2: width - right, y1: y(share), y2: y(share), class: "grid" }), write(left - 6, y(share) + 4, axis(share, "share"), { class: "tick end" }));
    places.forEach((place, number_) => parts.push(write(x(number_), height - 10, place, { class: "tick middle" })));
    const path = (points) => "M" + points.map((share, place) => `${x(place)} ${y(share)}`).join("L");
    const ends = [];
    for (const [points, name] of marks) {
      parts.push(draw("path", { d: path(points), class: name === "guessing" ? "chance" : "chance constant" }));
      ends.push({ name, points, at: y(points.at(-1)) });
    }
    for (const line of lines) ends.push({ line, name: line.label, points: line.points, at: y(line.points.at(-1)) });
    // Lines that end at the same place have their names in the order of the stage before.
    ends.sort((one, other) => one.at - other.at || (other.points.at(-2) ?? 0) - (one.points.at(-2) ?? 0));
    const gap = Math.min(16, (height - top - 16) / Math.max(ends.length, 1)), spread = apart(ends.map((one) => one.at), gap, top - 8, height - 24);
    ends.forEach((one, place) => { one.at = spread[place]; });
    for (const { line, name, points, at } of ends) {
      const last = places.length - 1, leader = draw("path", { d: `M${x(last) + 6} ${y(points.at(-1))}L${x(last) + 27} ${at}h3`, class: "leader" });
      const text = write(x(last) + 57, at + 4, fit(name, right - 59, 12, "600"), { class: line ? `name ${line.tone}` : "name guess" }), share = write(x(last) + 49, at + 4, axis(points.at(-1), "share"), { class: "tick end" });
      if (!line) { parts.push(leader, share, text); continue; }
      parts.push(mark(line.label, line.lines, line.choice, draw("path", { d: path(line.points), class: `line ${line.role} ${line.tone}`, "stroke-dasharray": line.dash, "data-model": line.label }), draw("path", { d: path(line.points), class: "hit-line" }),
        ...line.points.map((share, place) => draw("path", { d: SHAPES[line.role], transform: `translate(${x(place)} ${y(share)}) scale(.7)`, class: `point ${line.role} ${line.tone}` })), leader, share, text));
    }
    return make("div", { class: "panel" }, svg(width, height, title_, ...parts));
  }

  // Where models stop seeing: the share of cases in which a stage and all stages before it are right.
  function stops() {
    const known = rows("stages").filter(here), found = known.filter((row) => row.path === "revision_required");
    const path = found.length ? "revision_required" : known.at(-1)?.path, own = known.filter((row) => row.path === path);
    if (!own.length) return [];
    const stages = [...new Set(own.map((row) => row.stage))].sort();
    const names = { 1: "detect", 2: "judge", 3: "revise", 4: "describe" };
    const guess = stages.map((stage) => own.find((row) => row.stage === stage).chance).map((_, place, all) => all.slice(0, place + 1).reduce((product, share) => product * share, 1));
    const models = order(), above = new Set(rows("levels").filter((row) => here(row) && row.level === data.overall && row.corrected_low > 0).map((row) => row.model)), best = models.filter((model) => about(model).role === "model" && above.has(model)).slice(0, 3);
    const others = models.filter((model) => !best.includes(model)), DASHES = [null, "8 3", "2 3", "8 3 2 3"];
    const lines = models.map((model) => {
      const list = stages.map((stage) => own.find((row) => row.model === model && row.stage === stage));
      if (list.some((row) => !row || row.gated === null)) return null;
      return { label: model, role: about(model).role, tone: best.includes(model) ? `first-${best.indexOf(model) + 1}` : "other", dash: best.includes(model) ? null : DASHES[others.indexOf(model) % DASHES.length], points: list.map((row) => row.gated), lost: list, choice: { model, path, protocol: view.protocol, state: "not_correct" },
        lines: list.map((row) => `${names[row.stage] || `stage ${row.stage}`}: ${number(row.gated)} % ${interval(row.gated_low, row.gated_high)} of ${row.cases} cases`) };
    }).filter(Boolean);
    const same = constant(path, stages.map((stage) => names[stage] || `stage ${stage}`));
    return [make("h2", {}, "Where models stop seeing"), make("p", { class: "pale small" }, `Share of cases (${PATHS[path] ?? words(path)}) that are right in a stage and in all earlier stages, %; a stage is right if all its questions are. ${same ? `${same.said} ` : ""}${steepest(lines, stages.map((stage) => names[stage] || `stage ${stage}`))}${lines.length > 3 ? ` ${["No line is thick, because no model is surely above guessing", "The best model has a thick line", "The two best models have thick lines", "The three best models have thick lines"][best.length]}.` : ""}`),
      slopes({ title: `Stages passed in a row, ${words(path)}`, places: stages.map((stage) => names[stage] || `stage ${stage}`), lines, marks: [[guess, "guessing"], ...(same ? [[stages.map((_, place) => Number(place < same.depth)), same.name]] : [])] })];
  }

  // The constant answers that pass most stages of a path; null if they pass none. Their name, number of stages, and a sentence.
  function constant(path, names) {
    const own = rows("depth").filter((row) => here(row) && row.path === path), NAMES = { depth_always_yes: "always yes", depth_yes_then_no: "yes, then no", depth_always_no: "always no" };
    const found = Object.entries(NAMES).map(([column, name]) => ({ name, depth: Math.floor((report.shared(own, column) ?? 0) + 1e-9) })).sort((one, other) => other.depth - one.depth)[0];
    if (!own.length || found.depth < 1) return null;
    return { ...found, said: `Without a look, ${found.name === "yes, then no" ? "answering “yes” to detection and “no” to the outline" : `answering “${found.name.slice(7)}” every time`} passes ${names.slice(0, found.depth).join(" and ")} in all these cases.` };
  }

  const PATHS = { lesion_free: "no lesion", revision_free: "a lesion whose outline fits", revision_required: "a lesion whose outline must be revised" };
  // Yes/no questions of stages that a constant answer can pass without a look: the models that are not surely above guessing there
  // see nothing that later stages could lose.
  const DECIDED = ["detection", "contour_evaluation"];
  // A sentence on where models stop: at a yes/no stage at which they are not surely above guessing, otherwise at the largest loss.
  function steepest(lines, names) {
    const own = lines.filter((line) => line.role === "model"), asked = own.length ? own : lines, noun = own.length ? "model" : "baseline";
    const blind = names.map(() => 0), most = names.map(() => 0);
    let unsettled = 0;
    for (const { label, lost } of asked) {
      const at = names.findIndex((_, place) => rows("kinds").some((row) => here(row) && row.model === label && row.kind === DECIDED[lost[place].stage - 1] && !(row.corrected_low > 0)));
      const [first, ...others] = [...lost].sort((one, other) => other.lost - one.lost);
      if (at >= 0) blind[at] += 1;
      else if (first.lost > 0 && first.lost_low > Math.max(0, ...others.map((row) => row.lost_high))) most[lost.indexOf(first)] += 1;
      else if (first.lost > 0) unsettled += 1;
    }
    const listed = (counts) => names.map((name, place) => [name, counts[place]]).filter(([, count]) => count).sort((one, other) => other[1] - one[1]).map(([name, count]) => `${name} (${report.plural(count, noun)})`).join(", ");
    const said = [["Not surely above guessing at", listed(blind)], ["Stage with the largest loss:", listed(most)], ["Largest loss not settled, as intervals overlap:", unsettled ? report.plural(unsettled, noun) : ""]];
    return said.filter(([, found]) => found).map((one) => `${one.join(" ")}.`).join(" ");
  }

  return { constant, figure, dots, plane, besides, scale, heat, stacks, curves, slopes, stops, key, mark, svg, write, fit, title };
})();
