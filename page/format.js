// Numbers and texts for people, as the report writes them.

const UNITS = [["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40]];

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  const n = Math.abs(bytes);
  let unit = n >= 1024 ? 1 : 0;
  // 1023.95 MiB would be shown as 1024.0 MiB; it is shown as 1.0 GiB.
  for (let i = 2; i < UNITS.length; i++) if (n >= UNITS[i][1] - UNITS[i][1] / 20480) unit = i;
  return unit === 0 ? `${bytes} B` : `${(bytes / UNITS[unit][1]).toFixed(1)} ${UNITS[unit][0]}`;
}

export function change(bytes) {
  return (bytes > 0 ? "+" : bytes < 0 ? "−" : "") + size(Math.abs(bytes));
}

export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

// `step`: the time to tell apart from this one; by itself, a thousandth of the unit.
export function time(ms, step = Infinity) {
  if (ms === null) return "unknown";
  const [unit, name, digits] = ms >= 1000 ? [1000, "s", 3] : ms >= 1 ? [1, "ms", 3] : [0.001, "µs", 1];
  return `${(ms / unit).toFixed(Math.max(digits, digitsOf(step / unit)))} ${name}`;
}

// The digits behind the point of a number that is written to a step.
export function digitsOf(step) {
  return Math.max(0, Math.min(12, Math.ceil(-Math.log10(step) - 1e-9)));
}

// An element with text; texts of a trace go into a page by this function only.
export function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) e.append(child);
  return e;
}

// A long name of classes for element(): a line may end behind each of its points.
export function breakable(text) {
  return text.split(/(?<=\.)(?=\w)/).flatMap((part, i) => (i ? [element("wbr"), part] : [part]));
}

// The row of titles of a table; a title is a text, or a text and its class.
export function headRow(...titles) {
  return element("thead", {}, element("tr", {}, ...titles.map((title) => [title].flat()).map(([text, of]) => element("th", { scope: "col", class: of }, text))));
}

// A table of the first `most` items; a button with the text `all` adds the others. `row(item)`: its row.
export function growingTable(attributes, head, items, row, most, all) {
  const body = element("tbody", {}, ...items.slice(0, most).map(row));
  const box = element("div", {}, element("table", attributes, head, body));
  if (items.length > most) {
    const more = element("button", { type: "button", onclick: () => { body.append(...items.slice(most).map(row)); more.remove(); } }, all);
    box.append(more);
  }
  return box;
}

export function byId(id) {
  return document.getElementById(id);
}

// The text of a JSON in which characters that separate lines or turn the direction of a text are their numbers, as the report has them.
export function visible(json) {
  return json.replace(/[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) => `\\\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function escapeHtml(text) {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
