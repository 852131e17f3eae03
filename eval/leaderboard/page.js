"use strict";
// A column's heading sorts the rows of its table, best first; reference rows stay last.
for (const button of document.querySelectorAll("[data-sort]")) {
  button.addEventListener("click", () => {
    const table = button.closest("table"), body = table.tBodies[0], place = Number(button.dataset.sort);
    const value = (row) => { const given = row.querySelectorAll("[data-value]")[place].dataset.value; return given === "" ? -Infinity : Number(given); };
    const rows = [...body.querySelectorAll("[data-row]")].sort((one, other) => value(other) - value(one));
    body.prepend(...rows);
    for (const head of table.tHead.querySelectorAll("th")) head.removeAttribute("aria-sort");
    button.parentElement.setAttribute("aria-sort", "descending");
  });
}
