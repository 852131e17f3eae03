"use strict";
// Places that a reader gives: clicked on the radiograph or typed, in pixels of the radiograph. The answer is always text
// in the cell, so that a page and a sheet say the same.
const NOWHERE = "nowhere";
// By answer form: the corners of one shape (0: as many as the reader wants), and how a shape is clicked.
const DRAWN = {
  point: [1, "Click the place."],
  box: [2, "Click two opposite corners of the box."],
  boxes: [2, "Click two opposite corners of each box."],
  outline: [0, "Click the corners of the outline in order; click the first corner again (or press Enter) to close it."],
  width: [2, "Click the two ends."],
};

const placer = (() => {
  let corners = [];  // of the shape that is being clicked, as pairs of numbers
  const asked = () => row().place ?? null;
  const takesMany = () => ["boxes", "outline"].includes(asked().form);
  const round = (value) => Math.round(value * 10) / 10;

  // The shapes that an answer's text names, to be drawn; text that is no place has none. Commands of chexqa read it anew.
  function shapesOf(text, form) {
    const groups = text.includes("[") ? [...text.matchAll(/\[([^[\]]*)\]/g)].map((found) => found[1]) : [text];
    const shapes = groups.map((group) => group.split(/[\s,;]+/).filter(Boolean).map(Number));
    const count = 2 * DRAWN[form][0];
    const fits = (shape) => shape.every(Number.isFinite) && (count ? shape.length === count : shape.length >= 6 && shape.length % 2 === 0);
    return shapes.every(fits) && (shapes.length === 1 || ["boxes", "outline"].includes(form)) ? shapes : [];
  }
  const words = (shapes) => (takesMany() && shapes.length > 1 ? shapes.map((shape) => `[${shape.join(", ")}]`).join(", ") : shapes.map((shape) => shape.join(", ")).join(""));
  const said = () => answers.of(row().id)[answerTitle()] ?? "";
  function say(text, typing = false) {
    const cells = { ...filled(), [answerTitle()]: text };
    if (!DATA.blind) return;
    put(cells, typing);
  }
  function add(shape) {
    const before = takesMany() ? shapesOf(said(), asked().form) : [];
    corners = [];
    say(words([...before, shape]));
  }
  function close() {
    if (!asked() || asked().form !== "outline" || corners.length < 3) return false;
    add(corners.flat());
    return true;
  }
  // A click at a share of the picture; true if the row takes places.
  function click(plate, at) {
    if (!asked()) return false;
    if (answers.locked || at.x < 0 || at.y < 0 || at.x > 1 || at.y > 1) return true;
    const { form, size: [width, height] } = asked(), [count] = DRAWN[form];
    const corner = [round(at.x * width), round(at.y * height)];
    const [first] = corners, box = plate.stage.getBoundingClientRect();
    const near = first && Math.hypot(((corner[0] - first[0]) * box.width) / width, ((corner[1] - first[1]) * box.height) / height) < 9;
    if (form === "outline" && near && corners.length > 2) { close(); return true; }
    corners.push(corner);
    if (count && corners.length === count) {
      const [[ax, ay], [bx, by] = []] = corners;
      if (form !== "box" && form !== "boxes") add(corners.flat());
      else if (ax === bx || ay === by) { corners.pop(); message("A box needs a width and a height: click its second corner again."); return true; }
      else add([Math.min(ax, bx), Math.min(ay, by), Math.max(ax, bx), Math.max(ay, by)]);
    }
    drawAll();
    return true;
  }
  function choose(number) {
    if (number === 1) { corners = []; say(said() === NOWHERE ? "" : NOWHERE); }
    else if (number === 2) {
      if (corners.length) corners.pop();
      else { const shapes = shapesOf(said(), asked().form); say(shapes.length > 1 ? words(shapes.slice(0, -1)) : ""); }
    }
    drawAll();
  }
  function clear() { const any = corners.length > 0; corners = []; if (any) drawAll(); return any; }
  function show() {
    corners = [];
    byId("typed-place").hidden = !asked();
    if (!asked()) return;
    byId("options-title").textContent = "Place";
    byId("how").textContent = `${DRAWN[asked().form][1]} Or type: ${asked().words}.`;
    byId("options").className = "many";
    byId("options").replaceChildren(...[NOWHERE, "take the last one back"].map((text, i) => {
      const button = document.createElement("button"), key = document.createElement("kbd");
      key.textContent = String(i + 1);
      button.append(key, ` ${text}`);
      button.onclick = () => choose(i + 1);
      return button;
    }));
  }
  function paint() {
    if (!asked()) return;
    const field = byId("coordinates");
    if (document.activeElement !== field) field.value = said();
    field.disabled = answers.locked;
    byId("options").children[0]?.setAttribute("aria-pressed", String(said().toLowerCase() === NOWHERE));
    byId("options").children[1]?.removeAttribute("aria-pressed");
  }
  // Lines over the radiograph, in its pixels.
  function nodes(shown) {
    if (!shown.place || shown !== row()) return [];
    const { form, size } = shown.place, side = Math.max(...size), text = answers.of(shown.id)[answerTitle()] ?? "";
    const lines = shapesOf(text, form).map((shape) => {
      if (form === "box" || form === "boxes") { const [a, b, c, d] = shape; return `M${a} ${b}L${c} ${b}L${c} ${d}L${a} ${d}Z`; }
      return form === "outline" ? closed(shape) : form === "width" ? `M${shape.join(" ")}` : "";
    });
    const dots = [...(form === "point" || form === "width" ? shapesOf(text, form) : []), corners.flat()].flat();
    if (corners.length > 1) lines.push(`M${corners.flat().join(" ")}`);
    const marks = [];
    for (let i = 0; i + 1 < dots.length; i += 2) marks.push(svg("circle", { cx: dots[i], cy: dots[i + 1], r: side / 160, class: "given" }));
    return [svg("path", { d: lines.join(""), class: "edge" }), svg("path", { d: lines.join(""), class: "given" }), ...marks];
  }
  byId("coordinates").oninput = (event) => { corners = []; say(event.target.value.trim(), true); drawAll(); };
  byId("coordinates").onblur = () => answers.endTyping(row().id);
  return { asked, click, choose, clear, close, show, paint, nodes };
})();
