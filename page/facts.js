// The figures of the report as text. Each cell has its bytes, so that nothing has to be read from a picture.
import { element, size, count } from "./format.js";
import { hasDied } from "./ranks.js";

function table(title, key, rows) {
  const body = rows.map(([name, title2, bytes]) =>
    element("tr", {}, element("th", { scope: "row" }, title2), element("td", { class: "n" }, bytes === null ? "unknown" : size(bytes)),
      element("td", { class: "n mono", "data-key": `${key}.${name}` }, bytes === null ? "unknown" : String(bytes))));
  return element("table", { "data-table": key }, element("caption", {}, title), ...body);
}

export function showFacts(place, rank, titles) {
  const owners = new Map(titles.ownerKeys.map((key, i) => [key, titles.owners[i]]));
  const categories = new Map(titles.categoryKeys.map((key, i) => [key, titles.categories[i]]));
  const named = (object, map) => Object.entries(object || {}).map(([key, bytes]) => [key, map.get(key) || key, bytes]);
  place.replaceChildren(
    table("Peaks", "peak", [["allocated_bytes", "allocated", rank.peak.allocated_bytes], ["reserved_bytes", "reserved", rank.peak.reserved_bytes],
      ["device_bytes", "device", rank.peak.device_bytes], ["capacity", "capacity of the device", rank.device_memory_bytes]]),
    table("Categories at the peak of allocated", "peak.by_category", named(rank.peak.by_category, categories)),
    table("Owners at the peak of the device", "peak.by_owner", named(rank.peak.by_owner, owners)),
    ...rank.oom.map((oom, i) => table(`Out of memory ${i + 1}`, `oom.${i}`, ["requested_bytes", "segment_bytes", "allocated_bytes", "reserved_bytes", "free_bytes", "largest_free_bytes"]
      .map((key) => [key, key.replace("_bytes", "").replace("_", " "), oom[key]]))));
}

function card(value, label, bad) {
  return element("div", { class: bad ? "card bad" : "card", role: "listitem" }, element("b", {}, value), element("span", {}, label));
}

// PyTorch takes whole segments from the device, which may be larger than the request.
function requestOf(oom) {
  const asked = `${size(oom.requested_bytes)} requested`;
  return oom.segment_bytes > oom.requested_bytes ? `${asked} in a segment of ${size(oom.segment_bytes)}` : asked;
}

export function showCards(place, rank) {
  const capacity = rank.device_memory_bytes;
  const share = capacity && rank.peak.device_bytes !== null ? ` of ${size(capacity)}, ${((100 * rank.peak.device_bytes) / capacity).toFixed(0)} %` : "";
  const oom = rank.oom[rank.oom.length - 1];
  place.replaceChildren(
    card(size(rank.peak.allocated_bytes), "peak allocated to tensors"),
    card(size(rank.peak.reserved_bytes), "peak reserved by the allocator"),
    card(size(rank.peak.device_bytes), `peak of the device${share}`),
    card(hasDied(rank) ? "out of memory" : rank.end, oom ? `${requestOf(oom)}, ${size(oom.free_bytes)} free` : "end of the process", hasDied(rank)),
    card(count(rank.events), rank.simulated ? "events, on a simulated device" : "events"));
}
