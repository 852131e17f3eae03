"use strict";
// The pictures: side by side, moved and magnified together, with lines drawn over them.
const SVG = "http://www.w3.org/2000/svg";
const view = { zoom: 1, x: 0.5, y: 0.5, brightness: 100, contrast: 100, invert: false, layers: new Set() };
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
    this.lines = svg("svg", { "aria-hidden": "true", preserveAspectRatio: "none" });
    this.image.onload = () => {
      this.ready = true;
      this.width = this.image.naturalWidth;
      this.height = this.image.naturalHeight;
      this.lines.setAttribute("viewBox", `0 0 ${row.size[1] || this.width} ${row.size[0] || this.height}`);
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
    this.frame.append(this.stage);
    this.figure.append(caption, this.frame);
    this.listen();
    this.image.src = picture.src;
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
    const s = this.scale, left = this.frame.clientWidth / 2 - view.x * this.width * s;
    const top = this.frame.clientHeight / 2 - view.y * this.height * s;
    Object.assign(this.stage.style, {
      width: `${this.width}px`, height: `${this.height}px`, transform: `translate(${left}px, ${top}px) scale(${s})`,
    });
    this.image.style.filter = `brightness(${view.brightness}%) contrast(${view.contrast}%)${view.invert ? " invert(1)" : ""}`;
    this.image.style.imageRendering = s > 3 ? "pixelated" : "auto";
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
    this.lines.replaceChildren(...nodes, ...editor.nodes(this));
  }
  listen() {
    const frame = this.frame;
    frame.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoomTo(view.zoom * (event.deltaY < 0 ? 1.15 : 1 / 1.15), this, event);
    }, { passive: false });
    frame.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 && event.button !== 1) return;
      frame.setPointerCapture(event.pointerId);
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
    const stop = () => { frame.onpointermove = frame.onpointerup = null; frame.classList.remove("dragging"); };
    frame.addEventListener("lostpointercapture", stop);
    frame.addEventListener("pointermove", (event) => editor.hover(this, event));
  }
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
  byId("invert").setAttribute("aria-pressed", String(view.invert));
}
function drawAll() {
  plates.forEach((plate) => plate.draw());
  for (const name of ["outline", "zones"]) if (byId(name)) byId(name).setAttribute("aria-pressed", String(view.layers.has(name)));
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
function resetView() { Object.assign(view, { zoom: 1, x: 0.5, y: 0.5, brightness: 100, contrast: 100, invert: false }); placeAll(); editor.redraw(); }
function toggleLayer(kind) {
  if (view.layers.has(kind)) view.layers.delete(kind); else view.layers.add(kind);
  drawAll();
  onPicture();
}
function showPictures(row) {
  view.layers = new Set(row.start);
  Object.assign(view, { zoom: 1, x: 0.5, y: 0.5 });
  plates = row.pictures.map((picture) => new Plate(picture, row));
  const count = plates.length, across = count <= 3 ? count : Math.ceil(count / 2);
  byId("plates").style.gridTemplate = `repeat(${Math.ceil(count / across)}, minmax(0, 1fr)) / repeat(${across}, minmax(0, 1fr))`;
  byId("plates").replaceChildren(...plates.map((plate) => plate.figure));
  for (const name of ["outline", "zones"]) if (byId(name)) byId(name).disabled = !row.layers.some((layer) => layer.kind === name);
  placeAll();
  drawAll();
}
new ResizeObserver(placeAll).observe(byId("plates"));
byId("zoom-in").onclick = () => zoomTo(view.zoom * 1.25);
byId("zoom-out").onclick = () => zoomTo(view.zoom / 1.25);
byId("reset").onclick = resetView;
byId("invert").onclick = () => { view.invert = !view.invert; placeAll(); };
for (const name of ["brightness", "contrast"]) byId(name).oninput = (event) => { view[name] = Number(event.target.value); placeAll(); };
for (const name of ["outline", "zones"]) if (byId(name)) byId(name).onclick = () => toggleLayer(name);
