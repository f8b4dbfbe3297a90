// The ranks of a job as a grid on their parallel coordinates.
import { element, size } from "./format.js";

const CELL = 22; // pixels
const [FAILED, OUTLIER] = ["✕", "◆"];
const LEAST_CELL = 8; // the width of a cell of a wide grid

const seatsOfJobs = new WeakMap();

// {rank: seat} of a report's job, made once: a job has ten thousand of them.
function seatsOf(job) {
  if (!job) return new Map();
  if (!seatsOfJobs.has(job)) seatsOfJobs.set(job, new Map((job.seats || []).map((seat) => [seat.rank, seat])));
  return seatsOfJobs.get(job);
}

// Rows and columns of a grid by the seats of the job's layout: the axis with most values across, the others down. Without a layout, 32 ranks
// a row. `ranks`: the numbers of the ranks; `job`: of the report.
export function layoutOf(ranks, job) {
  const wide = Object.entries(job?.layout || {}).filter(([, n]) => n > 1).sort((a, b) => b[1] - a[1]);
  const seats = seatsOf(job);
  if (!wide.length || ranks.some((r) => !seats.has(r) || seats.get(r)[wide[0][0]] === null)) return ranks.map((r, i) => ({ x: i % 32, y: Math.floor(i / 32) }));
  const across = wide[0][0];
  const down = wide.slice(1);
  return ranks.map((r) => {
    const seat = seats.get(r);
    return { x: seat[across], y: down.reduce((y, [axis, n]) => y * n + seat[axis], 0), across, down: down.map(([axis]) => axis) };
  });
}

// "pp 1, tp 3"
export function seatText(rank, job) {
  const seat = seatsOf(job).get(rank);
  return Object.entries(job?.layout || {}).filter(([axis, n]) => n > 1 && seat && seat[axis] !== null).map(([axis]) => `${axis} ${seat[axis]}`).join(", ");
}

// Pale to dark blue: lightness alone tells more from less.
export function shade(part) {
  const p = Math.max(0, Math.min(1, part));
  return `rgb(${Math.round(235 - 228 * p)},${Math.round(243 - 190 * p)},${Math.round(251 - 130 * p)})`;
}

// The rank that an arrow key leads to from rank `i`; -1: none.
export function neighbour(cells, i, key) {
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const next = i + (key === "ArrowLeft" ? -1 : 1);
    return next < cells.length ? next : -1;
  }
  const down = { ArrowUp: -1, ArrowDown: 1 }[key];
  return down ? cells.findIndex((c) => c.x === cells[i].x && c.y === cells[i].y + down) : -1;
}

// One stop of the tabulator key; arrows lead from rank to rank.
function moveFocus(e, grid, cells) {
  const i = Number(e.target.dataset.entry);
  const next = neighbour(cells, i, e.key);
  if (!e.key.startsWith("Arrow")) return;
  e.preventDefault();
  e.stopPropagation();
  if (next < 0) return;
  grid.children[i].tabIndex = -1;
  grid.children[next].tabIndex = 0;
  grid.children[next].focus();
}

// Did the job end with a request that was refused? As rank_died() of analyzer/report/report.c: a snapshot does not tell the end, and nothing follows.
export function hasDied(rank) {
  return rank.end === "oom" || (rank.oom.length > 0 && rank.oom[rank.oom.length - 1].survived === null);
}

// What colours the ranks: one measure for all of them, or they could not be compared. `of`: its name; `share`: of the device's memory, or of the
// highest rank if the memory of some is not known, as `whole` and `over` say.
export function measureOf(ranks) {
  const isDevice = ranks.every((r) => r.peak.device_bytes || !r.peak.allocated_bytes);
  const level = isDevice ? (r) => r.peak.device_bytes : (r) => r.peak.allocated_bytes;
  const most = ranks.reduce((n, r) => Math.max(n, level(r)), 0) || 1;
  const hasCapacity = ranks.every((r) => r.device_memory_bytes);
  return { level, of: isDevice ? "of the device" : "allocated", whole: hasCapacity ? "the device" : "the highest rank",
    over: hasCapacity ? "the device's memory" : "the highest rank's",
    share: (r) => level(r) / (hasCapacity ? r.device_memory_bytes : most) };
}

// What the colours and the marks of the ranks mean; of the marks, those that there are.
export function hintOf({ of, over }, hasFailed, hasOutlier) {
  const marks = [hasFailed && `${FAILED} ran out of memory`, hasOutlier && `${OUTLIER} differs from its group`].filter(Boolean);
  return `Coloured by the peak ${of} as a share of ${over}${marks.length ? `; ${marks.join(", ")}` : ""}. A click opens a rank; so do the arrow keys and Enter.`;
}

export function showRanks(place, report, whole, chosen, open) {
  const cells = layoutOf(report.ranks.map((r) => r.rank), report.job);
  const outliers = new Set((report.job?.outliers || []).map((o) => o.rank));
  const measure = measureOf(report.ranks);
  const { level, share, of, whole: entirety } = measure;
  const [columns, rows] = [(c) => c.x, (c) => c.y].map((of) => 1 + cells.reduce((most, c) => Math.max(most, of(c)), 0));
  const grid = element("div", { class: "grid", style: `display:grid;gap:2px;grid-template-columns:repeat(${columns},minmax(${LEAST_CELL}px,${CELL}px));grid-auto-rows:${CELL}px;--rows:${rows}` });
  report.ranks.forEach((r, i) => {
    const seat = seatText(r.rank, report.job);
    const label = `rank ${r.rank}${seat ? `, ${seat}` : ""}: ${size(level(r))} ${of}, ${(100 * share(r)).toFixed(0)} % of ${entirety}${hasDied(r) ? ", out of memory" : ""}` +
      `${outliers.has(r.rank) ? ", differs from its group" : ""}${whole.has(i) ? "" : ", record only"}`;
    const text = hasDied(r) ? FAILED : outliers.has(r.rank) ? OUTLIER : "";
    const dark = share(r) > 0.55;
    grid.append(element("button", { type: "button", title: label, "aria-label": label, "data-entry": i, "data-bytes": level(r), "aria-pressed": i === chosen ? "true" : "false",
      tabindex: i === chosen ? 0 : -1,
      style: `grid-column:${cells[i].x + 1};grid-row:${cells[i].y + 1};padding:0;border-radius:3px;line-height:1;background:${shade(share(r))};color:${dark ? "#fff" : "#111"};` +
        (i === chosen ? "outline:2px solid var(--accent);" : ""), onclick: () => open(i) }, text));
  });
  const axes = cells[0]?.across ? `${cells[0].across} across${cells[0].down.length ? `, ${cells[0].down.join(" and ")} down` : ""}` : "";
  grid.addEventListener("keydown", (e) => moveFocus(e, grid, cells));
  const hadFocus = place.contains(document.activeElement);
  const hint = hintOf(measure, report.ranks.some(hasDied), report.ranks.some((r) => !hasDied(r) && outliers.has(r.rank)));
  place.replaceChildren(element("p", { class: "hint" }, hint), grid, element("p", { class: "hint" }, axes));
  if (hadFocus) grid.children[chosen].focus();
}
