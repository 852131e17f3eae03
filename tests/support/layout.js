// What is wrong with a page's layout: wider than the window, a box that leaves it, blocks that overlap, text cut off.
() => {
  const wrong = [], wide = document.documentElement.clientWidth, box = (node) => node.getBoundingClientRect();
  const shown = (node) => node.checkVisibility() && box(node).width > 0;
  const scrolled = (node) => node.closest(".scroll") && node.closest(".scroll") !== node;
  const name = (node) => `${node.tagName} ${node.id} ${node.getAttribute("class") || ""} '${node.textContent.slice(0, 30)}'`;
  if (document.documentElement.scrollWidth > wide) wrong.push(`page ${document.documentElement.scrollWidth} > ${wide}`);
  for (const node of document.querySelectorAll("main *")) {
    if (!shown(node) || scrolled(node) || node.closest(".sr") || node.closest("svg")) continue;
    if (box(node).right > wide + 1 || box(node).left < -1) wrong.push(`${name(node)} leaves the window`);
  }
  const meet = (one, other) => one.bottom > other.top + 1 && other.bottom > one.top + 1 && one.right > other.left + 1 && other.right > one.left + 1;
  for (const parent of document.querySelectorAll("main, .first, .panels, .best, #switches, header, .content, .figures")) {
    const blocks = [...parent.children].filter(shown);
    for (let place = 1; place < blocks.length; place += 1) {
      if (meet(box(blocks[place - 1]), box(blocks[place]))) wrong.push(`${name(blocks[place])} overlaps the block before it`);
    }
  }
  for (const svg of document.querySelectorAll("main svg:not(.bar)")) {
    const outer = box(svg);
    for (const text of svg.querySelectorAll("text")) {
      if (shown(svg) && (box(text).left < outer.left - 2 || box(text).right > outer.right + 2)) wrong.push(`${svg.getAttribute("aria-label")}: '${text.textContent}' is cut`);
    }
  }
  for (const node of document.querySelectorAll("main p, main td, main th, main dd, main h2, main figcaption, main summary")) {
    const isCut = node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX === "hidden";
    if (shown(node) && isCut && !node.querySelector("[title]")) wrong.push(`${name(node)} is cut`);
  }
  return [...new Set(wrong)].slice(0, 12);
}
