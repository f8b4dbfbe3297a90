// Two jobs, A and B: the items of `memtrace diff` as bars.
import { element, headRow, growingTable, size, change } from "./format.js";

const KINDS = [["peak", "Peaks"], ["category", "At the peak, by category"], ["owner", "At the device's peak, by owner"], ["phase", "Most in a phase"],
  ["stack", "At the peak, by stack"]];
const ITEMS = 12; // of a kind; a button shows the others

function titleOf(item, titles) {
  const keys = { category: [titles.categoryKeys, titles.categories], owner: [titles.ownerKeys, titles.owners] }[item.kind];
  const at = keys ? keys[0].indexOf(item.name) : -1;
  if (at >= 0) return keys[1][at];
  if (item.kind === "stack" && item.name[0] === "(") return item.backward_of ? `backward of ${item.backward_of}` : item.frame;
  return item.kind === "peak" ? { allocated: "tensors" }[item.name] || item.name : item.name;
}

// A stack's own place is its first frame; the others are shown on demand.
function nameCell(item, titles) {
  const title = titleOf(item, titles);
  const frames = item.kind === "stack" ? title.split(";") : [title];
  if (frames.length === 1) return element("th", { scope: "row" }, title);
  return element("th", { scope: "row" }, element("details", { class: "stack" }, element("summary", {}, frames[frames.length - 1]),
    element("ol", {}, ...frames.slice().reverse().map((f) => element("li", { class: "mono" }, f)))));
}

// Growth is to the right of the middle, and plain; what shrank is to the left, and hatched.
function bar(delta, most) {
  const part = most ? (50 * Math.abs(delta)) / most : 0;
  const side = delta < 0 ? "less" : "more";
  const inner = delta ? element("span", { class: side, style: `width:${part.toFixed(2)}%` }) : null;
  return element("td", { class: "diff-bar", "aria-hidden": "true" }, inner);
}

// null: a side is unknown.
function deltaOf(item) {
  return item.a_bytes === null || item.b_bytes === null ? null : item.b_bytes - item.a_bytes;
}

function kindTable(kind, title, items, titles) {
  const most = Math.max(...items.map((i) => Math.abs(deltaOf(i))));
  const row = (item) => {
    const delta = deltaOf(item);
    return element("tr", { "data-item": `${item.kind}.${item.name}`, "data-a": item.a_bytes, "data-b": item.b_bytes }, nameCell(item, titles),
      element("td", { class: "n" }, size(item.a_bytes)), element("td", { class: "n" }, size(item.b_bytes)),
      element("td", { class: "n" }, delta === null ? "" : delta ? change(delta) : "="), bar(delta, most));
  };
  const head = headRow(title, ["A", "n"], ["B", "n"], ["change", "n"], ["less │ more", "middle"]);
  return growingTable({ class: "diff", "data-kind": kind }, head, items, row, ITEMS, `show all ${items.length}`);
}

// "Peak of tensors 1.3 GiB to 2.0 GiB (+0.7 GiB)", of each peak that both jobs' traces show.
export function headlineOf(diff) {
  const peaks = diff.items.filter((i) => i.kind === "peak" && i.a_bytes && i.b_bytes);
  const parts = peaks.map((i) => `${titleOf(i, {})} ${size(i.a_bytes)} to ${size(i.b_bytes)} (${i.b_bytes === i.a_bytes ? "the same" : change(i.b_bytes - i.a_bytes)})`);
  const failed = ["a", "b"].filter((side) => diff[side].some((run) => run.out_of_memory)).map((side) => side.toUpperCase());
  const ends = failed.length ? `; ${failed.join(" and ")} ran out of memory` : "";
  return `From A to B: peak of ${parts.join(", of ") || "nothing that both traces show"}${ends}`;
}

export function showDiff(place, diff, titles) {
  const given = (value) => (value === null ? "(not given)" : value || "given");
  place.replaceChildren();
  for (const [kind, title] of KINDS) {
    const items = diff.items.filter((i) => i.kind === kind && (kind === "peak" || i.a_bytes || i.b_bytes));
    items.sort((a, b) => (kind === "peak" ? 0 : Math.abs(b.b_bytes - b.a_bytes) - Math.abs(a.b_bytes - a.a_bytes)));
    if (items.length) place.append(kindTable(kind, title, items, titles));
  }
  const declared = diff.items.filter((i) => i.kind === "config");
  if (!declared.length) return;
  const rows = declared.map((i) => element("tr", {}, element("th", { scope: "row" }, i.name), element("td", {}, given(i.a_value)), element("td", {}, given(i.b_value))));
  place.append(element("table", { class: "diff" }, headRow("Configuration", "A", "B"), element("tbody", {}, ...rows)));
}
