// The address decides what is shown; keys move between cards and items.
let open = null;

async function route() {
  const given = new URLSearchParams(location.hash.slice(1)), item = given.get("item");
  given.delete("item");
  if (given.has("report")) {
    $("report").setAttribute("href", `index.html#${given.get("report")}`);
    given.delete("report");
    const own = new URLSearchParams(given);
    if (item !== null) own.set("item", item);
    history.replaceState(null, "", `#${own}`);
  }
  if (memory !== String(given)) { memory = String(given); choice = given; filter(); }
  $("list").hidden = item !== null;
  $("item").hidden = item === null;
  if (item === null) {
    const before = open;
    open = null;
    $("item").replaceChildren();  // so that the next item does not begin with this one
    showList();
    if (before !== null) [...$("cards").querySelectorAll("a")].find((link) => new URLSearchParams(link.hash.slice(1)).get("item") === before)?.focus();
    document.title = $("title").textContent;
    return;
  }
  open = item;
  const entry = data.byId.get(item);
  if (!entry) { $("item").replaceChildren(back(), make("p", {}, "There is no such item in this report.")); return; }
  try {
    const record = await loadCase(entry), outline = await loadOutline(entry);
    if (open === item) showItem(entry, record, outline);
  } catch (error) {
    $("item").replaceChildren(back(), make("p", {}, `The item cannot be shown (${error.message}). Check that the complete folder 'gallery' is beside this page.`));
  }
}

const neighbour = (step) => { const place = matches.findIndex((entry) => entry.id === open); return place < 0 ? matches[0] : matches[place + step]; };

function keys(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (open !== null) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], next = step ? neighbour(step) : undefined;
    if (next) location.hash = address({ item: next.id });
    if (event.key === "Escape") location.hash = address();
    return;
  }
  if (event.key === "/") { event.preventDefault(); $("text").focus(); return; }
  const links = [...$("cards").querySelectorAll("a")], place = links.indexOf(document.activeElement);
  const columns = links.filter((link) => link.offsetTop === links[0].offsetTop).length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  if (!step || !links.length || (place < 0 && !["ArrowRight", "ArrowLeft"].includes(event.key))) return;
  const next = links[place < 0 ? 0 : place + step];
  if (next) { event.preventDefault(); next.focus(); }
}

addEventListener("DOMContentLoaded", () => {
  if (data === null) return;
  $("missing").remove();
  setUp();
  if (matchMedia("(max-width: 700px)").matches) $("filters").open = false;
  addEventListener("hashchange", route);
  document.addEventListener("keydown", keys);
  route();
  document.body.dataset.ready = "";
});
