"use strict";
// Editing of an outline at the resolution of its mask. A ring runs along the edges of pixels, one vertex each, so that
// filling it gives the mask back exactly; only the stretch that is moved differs afterwards.

// Run lengths down the columns, as numbers or as COCO's compressed text, as a mask of one byte a pixel, row by row.
function fromRuns({ size: [height, width], counts }) {
  const runs = typeof counts === "string" ? unpackRuns(counts) : counts;
  const mask = new Uint8Array(height * width);
  let at = 0;
  runs.forEach((run, number) => {
    if (number % 2) for (let i = at; i < at + run; i++) mask[(i % height) * width + Math.floor(i / height)] = 1;
    at += run;
  });
  return mask;
}
function unpackRuns(text) {
  const runs = [];
  for (let i = 0; i < text.length;) {
    let value = 0, shift = 0, code;
    do {
      code = text.charCodeAt(i++) - 48;
      value += (code & 31) * 2 ** shift;
      shift += 5;
    } while (code & 32);
    if (code & 16) value -= 2 ** shift;
    runs.push(runs.length > 2 ? value + runs.at(-2) : value);
  }
  return runs;
}
function toRuns(mask, width, height) {
  const counts = [];
  let last = 0, run = 0;
  for (let x = 0; x < width; x++) {
    for (let y = 0; y < height; y++) {
      const value = mask[y * width + x];
      if (value === last) { run++; } else { counts.push(run); last = value; run = 1; }
    }
  }
  counts.push(run);
  return counts;
}

// The borders of a mask as closed rings along the edges of pixels, x and y one after the other, the inside on the right.
function trace(mask, width, height) {
  const inside = (x, y) => x >= 0 && y >= 0 && x < width && y < height && mask[y * width + x] === 1;
  const seen = new Uint8Array(width * height), rings = [];
  const dx = [1, 0, -1, 0], dy = [0, 1, 0, -1];
  // The pixels ahead on the left and on the right of a vertex, by direction: right, down, left, up.
  const left = [[0, -1], [0, 0], [-1, 0], [-1, -1]], right = [[0, 0], [-1, 0], [-1, -1], [0, -1]];
  for (let start = 0; start < mask.length; start++) {
    if (!mask[start] || seen[start] || (start >= width && mask[start - width])) continue;
    const ring = [];
    let x = start % width, y = Math.floor(start / width), way = 0;
    const x0 = x, y0 = y;
    do {
      ring.push(x, y);
      if (way === 0) seen[y * width + x] = 1;
      x += dx[way];
      y += dy[way];
      if (!inside(x + right[way][0], y + right[way][1])) way = (way + 1) % 4;
      else if (inside(x + left[way][0], y + left[way][1])) way = (way + 3) % 4;
    } while (x !== x0 || y !== y0 || way !== 0);
    rings.push(ring);
  }
  return rings;
}

// The pixels whose middles lie inside the rings, even-odd.
function fill(rings, width, height) {
  const mask = new Uint8Array(width * height), crossings = Array.from({ length: height }, () => []);
  for (const ring of rings) {
    for (let i = 0, j = ring.length - 2; i < ring.length; j = i, i += 2) {
      let [xa, ya, xb, yb] = [ring[j], ring[j + 1], ring[i], ring[i + 1]];
      if (ya === yb) continue;
      if (ya > yb) [xa, ya, xb, yb] = [xb, yb, xa, ya];
      const first = Math.max(0, Math.ceil(ya - 0.5)), last = Math.min(height, Math.ceil(yb - 0.5));
      for (let y = first; y < last; y++) crossings[y].push(xa + ((y + 0.5 - ya) / (yb - ya)) * (xb - xa));
    }
  }
  crossings.forEach((found, y) => {
    found.sort((a, b) => a - b);
    for (let i = 0; i + 1 < found.length; i += 2) {
      const from = Math.max(0, Math.ceil(found[i] - 0.5)), to = Math.min(width, Math.ceil(found[i + 1] - 0.5));
      if (to > from) mask.fill(1, y * width + from, y * width + to);
    }
  });
  return mask;
}

// Vertices that stand for a ring: no vertex lies farther than `reach` from the lines between them.
function controls(ring, reach) {
  const count = ring.length / 2, kept = new Set([0, Math.floor(count / 3), Math.floor((2 * count) / 3)]);
  const ends = [...kept];
  const stack = ends.map((from, i) => [from, i + 1 < ends.length ? ends[i + 1] : count]);
  while (stack.length) {
    const [from, to] = stack.pop();
    const ax = ring[2 * from], ay = ring[2 * from + 1], bx = ring[2 * (to % count)], by = ring[2 * (to % count) + 1];
    const length = Math.hypot(bx - ax, by - ay) || 1;
    let worst = reach, place = -1;
    for (let i = from + 1; i < to; i++) {
      const far = Math.abs((bx - ax) * (ring[2 * i + 1] - ay) - (by - ay) * (ring[2 * i] - ax)) / length;
      if (far > worst) { worst = far; place = i; }
    }
    if (place >= 0) { kept.add(place); stack.push([from, place], [place, to]); }
  }
  return [...kept].sort((a, b) => a - b);
}

const editor = (() => {
  let on = false, row = null, width = 0, height = 0, mask = null, rings = [], points = [], held = null, tool = "move";
  let steps = [], undone = [], strokes = 0, pointer = null, painting = null, verdictBefore = "";
  const panel = byId("editor");

  function take(from) {
    mask = from;
    rings = trace(mask, width, height);
    points = rings.map((ring) => controls(ring, Math.max(1.5, Math.max(width, height) / 400)));
  }
  function start(shown) {
    if (!shown.mask || answers.locked) return;
    row = shown;
    [height, width] = row.mask.size;
    const before = answers.contour(row.id);
    strokes = before ? before.changes : 0;
    verdictBefore = answers.of(row.id)[TITLES.verdict] ?? "";
    steps = [];
    undone = [];
    take(fromRuns(before ?? row.mask));
    on = true;
    panel.hidden = false;
    byId("edit").setAttribute("aria-pressed", "true");
    view.layers.add("outline");
    choose("move");
    drawAll();
    placeAll();
  }
  function stop() {
    if (!on) return;
    on = false;
    held = painting = null;
    panel.hidden = true;
    byId("changed").textContent = "";
    byId("edit").setAttribute("aria-pressed", "false");
    plates.forEach((plate) => plate.frame.classList.remove("drawing"));
    drawAll();
    placeAll();
  }
  function choose(name) {
    tool = name;
    for (const button of panel.querySelectorAll("[data-tool]")) button.setAttribute("aria-pressed", String(button.dataset.tool === name));
    plates.forEach((plate) => plate.frame.classList.add("drawing"));
    say();
    redraw();
  }
  function say() {
    if (!on) return;
    const first = fromRuns(row.mask);
    let changed = 0;
    for (let i = 0; i < mask.length; i++) if (mask[i] !== first[i]) changed++;
    byId("changed").textContent = `${width} × ${height} px, ${changed.toLocaleString("en")} px changed`;
  }
  const state = () => ({ mask: mask.slice(), rings: rings.map((ring) => ring.slice()), points: points.map((p) => p.slice()), strokes });
  function remember() { steps.push(state()); if (steps.length > 40) steps.shift(); undone = []; }
  function kept() {
    strokes++;
    if (answers.of(row.id)[TITLES.verdict] !== "fix") judge("fix");
    answers.drawn(row.id, { size: [height, width], counts: toRuns(mask, width, height), changes: strokes });
    say();
    redraw();
  }
  // Takes the last change of the outline back or, with `again`, does the one again that was taken back last.
  function turn(again) {
    const [from, to] = again ? [undone, steps] : [steps, undone], step = from.pop();
    if (!step) return;
    to.push(state());
    ({ mask, rings, points, strokes } = step);
    const first = fromRuns(row.mask);
    const same = mask.every((value, i) => value === first[i]);
    answers.drawn(row.id, same ? null : { size: [height, width], counts: toRuns(mask, width, height), changes: Math.max(1, strokes) });
    if (same) asBefore(); else if (answers.of(row.id)[TITLES.verdict] !== "fix") judge("fix");
    say();
    redraw();
  }
  function drop() {
    remember();
    strokes = 0;
    take(fromRuns(row.mask));
    answers.drawn(row.id, null);
    asBefore();
    say();
    redraw();
  }
  // Without a new outline, the verdict is again the one that the row had when editing began.
  function asBefore() {
    if (answers.locked) return;
    const cells = filled();
    if (cells[TITLES.verdict] === "fix") {
      cells[TITLES.verdict] = verdictBefore;
      if (verdictBefore === "accept") delete cells[TITLES.reason];
      put(cells);
    }
    message(`The outline is the first one again; ${cells[TITLES.verdict] ? `the verdict is ${cells[TITLES.verdict]}` : "the row has no verdict"}.`);
  }

  const inPixels = (plate, event) => { const p = plate.at(event); return { x: p.x * width, y: p.y * height }; };
  const perScreen = (plate) => width / (plate.width * plate.scale);  // pixels of the mask in one of the screen
  function nearest(plate, at, all) {
    let best = null, far = 12 * perScreen(plate);
    rings.forEach((ring, number) => {
      const places = all ? Array.from({ length: ring.length / 2 }, (_, i) => i) : points[number];
      for (const i of places) {
        const distance = Math.hypot(ring[2 * i] - at.x, ring[2 * i + 1] - at.y);
        if (distance < far) { far = distance; best = { ring: number, index: i }; }
      }
    });
    return best;
  }
  // The stretch from the control point before to the one after, as vertices with the share by which each follows.
  function stretch({ ring, index }) {
    const line = rings[ring], count = line.length / 2, marks = points[ring], place = marks.indexOf(index);
    const before = marks[(place + marks.length - 1) % marks.length], after = marks[(place + 1) % marks.length];
    const part = [];
    const back = (index - before + count) % count || count, ahead = (after - index + count) % count || count;
    for (let i = 0; i <= back; i++) part.push({ at: (before + i) % count, share: i / back });
    for (let i = 1; i <= ahead; i++) part.push({ at: (index + i) % count, share: 1 - i / ahead });
    return part;
  }
  function press(plate, event) {
    if (!on) return false;
    const at = inPixels(plate, event);
    if (tool === "paint" || tool === "erase") {
      remember();
      painting = { last: at, value: tool === "paint" ? 1 : 0 };
      stamp(plate, at);
      follow(plate, (to) => stamp(plate, to), () => { painting = null; kept(); });
      return true;
    }
    const found = nearest(plate, at, tool === "add");
    if (!found) return false;
    if (tool === "delete") { remove(found); return true; }
    if (tool === "add" && !points[found.ring].includes(found.index)) {
      points[found.ring] = [...points[found.ring], found.index].sort((a, b) => a - b);
    }
    remember();
    const line = rings[found.ring], part = stretch(found).filter(({ share }) => share > 0);
    const from = part.map((vertex) => [line[2 * vertex.at], line[2 * vertex.at + 1]]);
    held = found;
    let moved = false;
    follow(plate, (to) => {
      moved = true;
      part.forEach((vertex, i) => {
        line[2 * vertex.at] = Math.min(width, Math.max(0, from[i][0] + vertex.share * (to.x - at.x)));
        line[2 * vertex.at + 1] = Math.min(height, Math.max(0, from[i][1] + vertex.share * (to.y - at.y)));
      });
      redraw();
    }, () => {
      held = null;
      if (!moved) { steps.pop(); redraw(); return; }
      mask = fill(rings, width, height);
      kept();
    });
    redraw();
    return true;
  }
  function remove({ ring, index }) {
    if (points[ring].length <= 3) return;
    remember();
    const line = rings[ring], part = stretch({ ring, index }), first = part[0].at, last = part.at(-1).at;
    const [xa, ya, xb, yb] = [line[2 * first], line[2 * first + 1], line[2 * last], line[2 * last + 1]];
    part.forEach((vertex, i) => {
      const share = i / (part.length - 1);
      if (i === 0 || i === part.length - 1) return;
      line[2 * vertex.at] = xa + share * (xb - xa);
      line[2 * vertex.at + 1] = ya + share * (yb - ya);
    });
    points[ring] = points[ring].filter((i) => i !== index);
    mask = fill(rings, width, height);
    kept();
  }
  function follow(plate, move, end) {
    const frame = plate.frame;
    frame.onpointermove = (event) => move(inPixels(plate, event));
    frame.onpointerup = end;
  }
  const radius = (plate) => Math.max(0.5, Number(byId("brush").value) * perScreen(plate));
  function stamp(plate, to) {
    const r = radius(plate), { last, value } = painting, far = Math.hypot(to.x - last.x, to.y - last.y);
    const count = Math.max(1, Math.ceil(far / Math.max(1, r / 3)));
    for (let i = 1; i <= count; i++) {
      const x = last.x + (to.x - last.x) * (i / count), y = last.y + (to.y - last.y) * (i / count);
      for (let py = Math.max(0, Math.ceil(y - r - 0.5)); py < Math.min(height, y + r - 0.5); py++) {
        const half = Math.sqrt(Math.max(0, r * r - (py + 0.5 - y) ** 2));
        const from = Math.max(0, Math.ceil(x - half - 0.5)), to = Math.min(width, Math.ceil(x + half - 0.5));
        if (to > from) mask.fill(value, py * width + from, py * width + to);
      }
    }
    painting.last = to;
    if (!painting.asked) {
      painting.asked = true;
      requestAnimationFrame(() => { if (painting) painting.asked = false; if (on) { take(mask); redraw(); } });
    }
  }
  function hover(plate, event) {
    if (!on || (tool !== "paint" && tool !== "erase")) return;
    pointer = { plate, at: inPixels(plate, event) };
    redraw();
  }
  // What the editor draws over a picture: the new outline and, while it is on, the points that can be moved.
  function nodes(plate) {
    const drawn = on ? { lines: rings, size: [height, width] } : shownContour(plate.row);
    if (!drawn || (!on && !view.layers.has("outline"))) return [];
    const scale = (plate.row.size[1] || plate.width) / drawn.size[1];
    const group = svg("g", { transform: `scale(${scale})` });
    group.append(svg("path", { d: drawn.lines.map(closed).join(""), class: "drawn" }));
    if (on && (tool === "move" || tool === "add" || tool === "delete")) {
      const size = 4 * perScreen(plate);
      rings.forEach((ring, number) => points[number].forEach((i) => group.append(svg("circle", {
        cx: ring[2 * i], cy: ring[2 * i + 1], r: size,
        class: `point${held && held.ring === number && held.index === i ? " held" : ""}`,
      }))));
    }
    if (on && pointer && pointer.plate === plate && (tool === "paint" || tool === "erase")) {
      group.append(svg("circle", { cx: pointer.at.x, cy: pointer.at.y, r: radius(plate), class: "brush" }));
    }
    return [group];
  }
  const traced = new Map();
  function shownContour(shown) {
    const contour = answers.contour(shown.id);
    if (!contour) return null;
    if (traced.get(shown.id)?.contour !== contour) {
      traced.set(shown.id, { contour, size: contour.size, lines: trace(fromRuns(contour), contour.size[1], contour.size[0]) });
    }
    return traced.get(shown.id);
  }
  function redraw() { if (on) plates.forEach((plate) => plate.draw()); }
  if (panel) {
    for (const button of panel.querySelectorAll("[data-tool]")) button.onclick = () => choose(button.dataset.tool);
    byId("edit-undo").onclick = () => turn(false);
    byId("edit-redo").onclick = () => turn(true);
    byId("edit-drop").onclick = drop;
    byId("edit-done").onclick = stop;
  }
  return { start, stop, press, hover, nodes, redraw, turn, choose, get on() { return on; } };
})();
