"use strict";
// The pictures: side by side, moved and magnified together, with lines drawn over them.
const SVG = "http://www.w3.org/2000/svg";
const view = { zoom: 1, x: 0.5, y: 0.5, brightness: 100, contrast: 100, invert: false, range: null, layers: new Set() };
let plates = [];

function svg(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  return node;
}
const closed = (line) => {
  let text = "";
  for (let i = 0; i < line.length; i += 2) text += `${i ? "L" : "M"}${line[i]} ${line[i + 1]}`;
  return `${text}Z`;
};

class Plate {
  constructor(picture, row) {
    this.row = row;
    this.width = row.size[1] || 1;
    this.height = row.size[0] || 1;
    this.ready = false;
    this.figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = picture.label;
    caption.hidden = !picture.label;
    this.frame = document.createElement("div");
    this.frame.className = "frame";
    this.stage = document.createElement("div");
    this.stage.className = "stage";
    this.image = document.createElement("img");
    this.image.alt = picture.label || "radiograph";
    this.image.draggable = false;
    this.source = null;
    this.canvas = null;
    this.over = null;
    this.lines = svg("svg", { "aria-hidden": "true", preserveAspectRatio: "none" });
    this.image.onload = () => {
      this.ready = true;
      if (!this.source) { this.width = this.image.naturalWidth; this.height = this.image.naturalHeight; }
      const [wide, high] = row.place?.size ?? [row.size[1] || this.width, row.size[0] || this.height];
      this.lines.setAttribute("viewBox", `0 0 ${wide} ${high}`);
      this.draw();
      this.place();
      onPicture();
    };
    this.image.onerror = () => {
      const words = document.createElement("div");
      words.className = "missing";
      words.textContent = `${picture.src} is missing: keep the folder "pictures" beside this page.`;
      this.frame.replaceChildren(words);
    };
    this.stage.append(this.image, this.lines);
    if (picture.over) {
      this.over = document.createElement("img");
      this.over.alt = "";
      this.over.draggable = false;
      this.over.className = "over";
      this.over.onload = () => { this.overReady = true; onPicture(); };
      this.over.onerror = this.image.onerror;
      this.image.after(this.over);
    }
    this.frame.append(this.stage);
    this.figure.append(caption, this.frame);
    this.listen();
    this.image.src = picture.src;
    if (picture.over) this.over.src = picture.over;
    if (picture.source) this.deepen(picture.source);
  }

  get shown() { return this.ready && (!this.over || this.overReady === true); }
  // Put the source's own pixels in the place of the small picture.
  async deepen(name) {
    try {
      const source = await sources.load(name);
      if (!plates.includes(this)) return;
      this.source = source;
      this.canvas = document.createElement("canvas");
      this.image.after(this.canvas);
      this.width = source.width;
      this.height = source.height;
      this.window();
      placeAll();
      editor.redraw();
    } catch (error) { if (plates.includes(this)) message(error.message); }
  }
  // Draw the samples anew, from an equal plate if there is one.
  window() {
    const other = plates.find((plate) => plate.source === this.source && plate.canvas?.width === this.width && plate.drawn === view.range && plate !== this);
    if (other && view.range) {
      this.canvas.width = this.width;
      this.canvas.height = this.height;
      this.canvas.getContext("2d").drawImage(other.canvas, 0, 0);
    } else sources.draw(this.source, this.canvas, view.range);
    this.drawn = view.range;
    this.canvas.dataset.window = view.range ? `${Math.round(view.range.low)} ${Math.round(view.range.high)}` : "first";
  }

  get scale() {
    return Math.min(this.frame.clientWidth / this.width, this.frame.clientHeight / this.height) * view.zoom;
  }
  // Where the pointer is, as shares of the picture.
  at(event) {
    const box = this.stage.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  }
  place() {
    // Whole pixels of the screen: at half of one, every pixel of the picture would be mixed with its neighbours.
    const s = this.scale, dots = window.devicePixelRatio || 1, whole = (value) => Math.round(value * dots) / dots;
    const left = whole(this.frame.clientWidth / 2 - view.x * this.width * s);
    const top = whole(this.frame.clientHeight / 2 - view.y * this.height * s);
    // A size of its own instead of a scale keeps the lines over the picture as wide at every magnification.
    Object.assign(this.stage.style, {
      width: `${this.width * s}px`, height: `${this.height * s}px`, transform: `translate(${left}px, ${top}px)`,
    });
    const shades = this.canvas ? "" : `brightness(${view.brightness}%) contrast(${view.contrast}%)`;
    for (const node of [this.image, this.canvas]) {
      if (!node) continue;
      node.style.filter = `${shades}${view.invert ? " invert(1)" : ""}`;
      node.style.imageRendering = s > 3 ? "pixelated" : "auto";
    }
  }
  draw() {
    const nodes = [];
    for (const layer of this.row.layers) {
      if (!view.layers.has(layer.kind)) continue;
      const path = svg("path", { d: layer.lines.map(closed).join(""), class: layer.kind });
      if (layer.color) path.style.stroke = layer.color;
      nodes.push(path);
    }
    const wide = (this.row.size[1] || this.width) / 8, high = (this.row.size[0] || this.height) / 8;
    for (const [kind, cells] of Object.entries(cellsShown(this.row))) {
      for (const cell of cells) {
        nodes.push(svg("rect", { x: "ABCDEFGH".indexOf(cell[0]) * wide, y: (Number(cell[1]) - 1) * high, width: wide, height: high, class: kind }));
      }
    }
    if (view.layers.has("places")) nodes.push(...placesOf(this.row, Math.max(...this.row.size, 0) || Math.max(this.width, this.height)));
    this.lines.replaceChildren(...nodes, ...placer.nodes(this.row), ...editor.nodes(this));
  }
  listen() {
    const frame = this.frame;
    frame.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoomTo(view.zoom * (event.deltaY < 0 ? 1.15 : 1 / 1.15), this, event);
    }, { passive: false });
    frame.addEventListener("pointerdown", (event) => {
      frame.setPointerCapture(event.pointerId);
      if (event.button === 2) { shadeBy(frame, event); return; }
      if (event.button === 0 && editor.press(this, event)) return;
      frame.classList.add("dragging");
      const from = { x: event.clientX, y: event.clientY, vx: view.x, vy: view.y };
      let moved = false;
      frame.onpointermove = (move) => {
        if (Math.hypot(move.clientX - from.x, move.clientY - from.y) > 4) moved = true;
        if (!moved) return;
        view.x = from.vx - (move.clientX - from.x) / (this.width * this.scale);
        view.y = from.vy - (move.clientY - from.y) / (this.height * this.scale);
        placeAll();
      };
      frame.onpointerup = (up) => { if (!moved) clicked(this, this.at(up)); };
    });
    frame.addEventListener("contextmenu", (event) => event.preventDefault());
    const stop = () => { frame.onpointermove = frame.onpointerup = null; frame.classList.remove("dragging"); };
    frame.addEventListener("lostpointercapture", stop);
    frame.addEventListener("pointermove", (event) => editor.hover(this, event));
  }
}

// The key's place and the answered places, each with a letter: lines of their own width, letters of the picture's.
function placesOf(row, side) {
  const open = (line) => "M" + line.join(" ");
  return (row.places ?? []).flatMap(({ letter, color, lines, labels }) => {
    const d = lines.map(open).join(""), key = letter === "key" ? " key" : "";
    const line = svg("path", { d, class: `place${key}` });
    line.style.stroke = color;
    const letters = labels.map(([text, x, y]) => {
      const node = svg("text", { x, y, "font-size": side / 34, "stroke-width": side / 260 });
      node.textContent = text;
      node.style.fill = color;
      return node;
    });
    return [svg("path", { d, class: `edge${key}` }), line, ...letters];
  });
}
function showLegend(row) {
  if (!byId("legend")) return;
  const entries = row.legend?.length ? [...(row.places.some((one) => one.letter === "key") ? [["#ff4040", "", "key"]] : []), ...row.legend] : [];
  byId("legend").replaceChildren(...entries.map(([color, letter, name]) => {
    const entry = document.createElement("li"), patch = document.createElement("i"), mark = document.createElement("b");
    patch.style.background = color;
    mark.textContent = letter;
    entry.append(patch, mark, ` ${name}`);
    return entry;
  }));
  byId("whose").hidden = !entries.length;
}
function placeAll() {
  const first = plates[0];
  if (first) {
    const clamp = (value, half) => (half >= 0.5 ? 0.5 : Math.min(1 - half, Math.max(half, value)));
    view.x = clamp(view.x, first.frame.clientWidth / (2 * first.width * first.scale));
    view.y = clamp(view.y, first.frame.clientHeight / (2 * first.height * first.scale));
  }
  plates.forEach((plate) => plate.place());
  byId("zoom").textContent = `${Math.round(view.zoom * 100)} %`;
  for (const name of ["brightness", "contrast"]) byId(name).value = view[name];
  placeWindow();
  byId("invert").setAttribute("aria-pressed", String(view.invert));
}
function drawAll() {
  plates.forEach((plate) => plate.draw());
  for (const name of ["outline", "zones", "places"]) if (byId(name)) byId(name).setAttribute("aria-pressed", String(view.layers.has(name)));
}
function zoomTo(value, plate, event) {
  const next = Math.min(16, Math.max(1, value));
  if (plate && event) {
    const point = plate.at(event), box = plate.frame.getBoundingClientRect(), s = (plate.scale / view.zoom) * next;
    view.x = point.x - (event.clientX - box.left - plate.frame.clientWidth / 2) / (plate.width * s);
    view.y = point.y - (event.clientY - box.top - plate.frame.clientHeight / 2) / (plate.height * s);
  }
  view.zoom = next;
  placeAll();
  editor.redraw();
}
function resetView() { Object.assign(view, { zoom: 1, x: 0.5, y: 0.5, brightness: 100, contrast: 100, invert: false }); setRange(null); placeAll(); editor.redraw(); }
function panBy(across, down) {
  view.x += (across * 0.2) / view.zoom;
  view.y += (down * 0.2) / view.zoom;
  placeAll();
}
// One pixel of the picture, or of its source, on one pixel of the screen.
function zoomToPixels() {
  const plate = deepPlate() ?? plates[0];
  if (plate) zoomTo(view.zoom / plate.scale / (window.devicePixelRatio || 1));
}

// Window and level: the range of the source's values from black to white; null as the radiograph was first shown.
const deepPlate = () => plates.find((plate) => plate.source);
const rangeNow = () => view.range ?? { low: deepPlate().source.low, high: deepPlate().source.high };
function setRange(range) {
  view.range = range;
  if (view.asked) return;
  view.asked = true;
  requestAnimationFrame(() => {
    view.asked = false;
    for (const plate of plates) if (plate.source && plate.drawn !== view.range) plate.window();
    placeWindow();
  });
}
function setWindow(level, width) {
  const { top } = deepPlate().source, wide = Math.min(2 * top + 2, Math.max(1, width));
  const middle = Math.min(top + wide / 2, Math.max(-wide / 2, level));
  setRange({ low: middle - wide / 2, high: middle + wide / 2 });
}
function placeWindow() {
  const plate = deepPlate(), some = Boolean(plate), all = some && plates.every((one) => one.source);
  for (const label of document.querySelectorAll("label.source")) label.hidden = !some;
  for (const label of document.querySelectorAll("label.window")) label.hidden = all;
  byId("depth").textContent = "";
  if (!some) return;
  const { width, height, top } = plate.source, { low, high } = rangeNow();
  byId("level").max = String(top);
  byId("width").max = String(top + 1);
  byId("level").value = String(Math.round((low + high) / 2));
  byId("width").value = String(Math.round(high - low));
  byId("depth").textContent = `level ${Math.round((low + high) / 2)}, window ${Math.round(high - low)} · source ${width} × ${height} px, ${Math.max(1, Math.ceil(Math.log2(top + 1)))} bits`;
}
// Steps of brightness (level) and contrast (window), in twentieths of the range; brighter and more contrast are positive.
function shade(brighter, steeper) {
  if (deepPlate()) {
    const { top } = deepPlate().source, { low, high } = rangeNow();
    setWindow((low + high) / 2 - brighter * (high - low) / 20, (high - low) * 0.9 ** steeper);
  }
  view.brightness = Math.min(300, Math.max(20, view.brightness + 5 * brighter));
  view.contrast = Math.min(400, Math.max(20, view.contrast + 5 * steeper));
  placeAll();
}
// Dragging with the right button: up and down for brightness, to the sides for contrast, as at a workstation.
function shadeBy(frame, event) {
  const first = { x: event.clientX, y: event.clientY, brightness: view.brightness, contrast: view.contrast };
  const range = deepPlate() ? rangeNow() : null;
  frame.onpointermove = (move) => {
    const right = move.clientX - first.x, up = first.y - move.clientY;
    if (range) {
      const width = range.high - range.low;
      setWindow((range.low + range.high) / 2 - (up / 300) * width, width * 2 ** (right / 200));
    }
    view.brightness = Math.min(300, Math.max(20, first.brightness + up / 2));
    view.contrast = Math.min(400, Math.max(20, first.contrast - right / 2));
    placeAll();
  };
}
function toggleLayer(kind) {
  if (view.layers.has(kind)) view.layers.delete(kind); else view.layers.add(kind);
  drawAll();
  onPicture();
}
// Puts the pictures side by side, or one above the other where they are larger so, as on an upright screen.
function arrange() {
  const box = byId("plates"), count = plates.length, usual = count <= 3 ? count : Math.ceil(count / 2);
  if (!count) return;
  const side = (across) => Math.min(box.clientWidth / across, box.clientHeight / Math.ceil(count / across));
  const across = side(1) > 1.1 * side(usual) ? 1 : usual;
  box.style.gridTemplate = `repeat(${Math.ceil(count / across)}, minmax(0, 1fr)) / repeat(${across}, minmax(0, 1fr))`;
}
function showPictures(row) {
  view.layers = new Set(row.start);
  Object.assign(view, { zoom: 1, x: 0.5, y: 0.5 });
  const name = row.pictures.find((picture) => picture.source)?.source ?? null;
  if (name !== view.source) { view.range = null; view.source = name; }
  plates = row.pictures.map((picture) => new Plate(picture, row));
  arrange();
  byId("plates").replaceChildren(...plates.map((plate) => plate.figure));
  for (const name of ["outline", "zones"]) if (byId(name)) byId(name).disabled = !row.layers.some((layer) => layer.kind === name);
  if (byId("places")) byId("places").disabled = !row.places?.length;
  showLegend(row);
  placeAll();
  drawAll();
}
new ResizeObserver(() => { arrange(); placeAll(); }).observe(byId("plates"));
byId("zoom-in").onclick = () => zoomTo(view.zoom * 1.25);
byId("zoom-out").onclick = () => zoomTo(view.zoom / 1.25);
byId("reset").onclick = resetView;
byId("pixels").onclick = zoomToPixels;
byId("level").oninput = byId("width").oninput = () => setWindow(Number(byId("level").value), Number(byId("width").value));
byId("invert").onclick = () => { view.invert = !view.invert; placeAll(); };
for (const name of ["brightness", "contrast"]) byId(name).oninput = (event) => { view[name] = Number(event.target.value); placeAll(); };
for (const name of ["outline", "zones", "places"]) if (byId(name)) byId(name).onclick = () => toggleLayer(name);
