"use strict";
// Source pixels: a radiograph's own samples, from a script beside the page that is loaded when the row is shown.
const sources = (() => {
  const waiting = new Map();  // name -> what settles its promise
  const kept = new Map();  // name -> promise of the samples, the newest last
  const KEPT = 3;

  // The shade of each value, and each sample, from the text in a script; see source_pixels.py.
  async function unpack(about) {
    const text = atob(about.data), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const data = new Uint8Array(await new Response(stream).arrayBuffer());
    const { width, height, top } = about, size = width * height, high = top + 1, low = high + size;
    const values = new Uint16Array(size);
    for (let y = 0, i = 0; y < height; y++) {
      for (let x = 0; x < width; x++, i++) {
        const folded = (data[high + i] << 8) | data[low + i], step = (folded >> 1) ^ -(folded & 1);
        values[i] = (x ? values[i - 1] : y ? values[i - width] : 0) + step;
      }
    }
    return { ...about, data: null, values, shades: data.subarray(0, high) };
  }
  function load(name) {
    if (kept.has(name)) {
      const found = kept.get(name);
      kept.delete(name);
      kept.set(name, found);
      return found;
    }
    const found = new Promise((resolve, reject) => {
      if (typeof DecompressionStream === "undefined") { reject(new Error("This browser is too old to unpack source pixels.")); return; }
      const script = document.createElement("script");
      waiting.set(name, (about) => unpack(about).then(resolve, reject));
      script.onerror = () => reject(new Error(`source/${name}.js is missing: keep the folder "source" beside this page.`));
      script.onload = () => { script.remove(); if (waiting.delete(name)) reject(new Error(`source/${name}.js is damaged.`)); };
      script.src = `source/${name}.js`;
      document.head.append(script);
    });
    found.catch(() => kept.delete(name));
    kept.set(name, found);
    for (const old of kept.keys()) { if (kept.size <= KEPT) break; kept.delete(old); }
    return found;
  }
  // Called by a script with the samples.
  window.sourcePixels = (name, about) => { const done = waiting.get(name); waiting.delete(name); if (done) done(about); };

  // The shades of all values: as first shown, or by a window from black at `low` to white at `high`.
  function table(source, range) {
    if (!range) return source.shades;
    const shades = new Uint8ClampedArray(source.top + 1), wide = Math.max(1e-6, range.high - range.low);
    for (let value = 0; value <= source.top; value++) shades[value] = ((value - range.low) / wide) * 255;
    return shades;
  }
  function draw(source, canvas, range) {
    const shades = table(source, range), colors = new Uint32Array(source.top + 1);
    for (let i = 0; i <= source.top; i++) colors[i] = 0xff000000 | (shades[i] * 0x10101);
    if (canvas.width !== source.width || canvas.height !== source.height) { canvas.width = source.width; canvas.height = source.height; }
    const context = canvas.getContext("2d"), image = context.createImageData(source.width, source.height);
    const pixels = new Uint32Array(image.data.buffer), { values } = source;
    for (let i = 0; i < values.length; i++) pixels[i] = colors[values[i]];
    context.putImageData(image, 0, 0);
  }
  return { load, draw };
})();
