// The page: reads the data, keeps what is chosen, and hands it to the views.
import { inflate, jsonOf, decodeStream, EVENT, eventsOf } from "./decode.js";
import { BlockCurves, ownerCurves, reservedCurve } from "./curves.js";
import { fromRecord } from "./record.js";
import { momentOf, partsOf, showDifference, showPeak, VIEWS } from "./views.js";
import { sumBytes } from "./moment.js";
import { marksOf } from "./marks.js";
import { failureOf, missingOf } from "./missing.js";
import { highestOf, linesOf } from "./lines.js";
import { searchOf } from "./search.js";
import { byId, element, size, time, count } from "./format.js";
import { axisOf, stepKnots } from "./axis.js";
import { Later } from "./later.js";
import { showDiff, headlineOf } from "./compare.js";
import { Timeline, drawLegend } from "./timeline.js";
import { showMatch } from "./match.js";
import { showFacts, showCards } from "./facts.js";
import { showRanks, seatText } from "./ranks.js";

const KEYS = [
  ["← →", "move the moment by one event (with Shift: by a hundredth of what is visible)"],
  ["+ −", "zoom in and out around the moment"],
  ["0", "show the whole trace"],
  ["p", "go to the peak"],
  ["o", "go to the next out-of-memory error"],
  ["c", "compare from this moment, or stop comparing (also Shift and a click)"],
  ["s", "stack by category or by owner"],
  ["a", "axis of time, of events or of steps"],
  ["1 … 5", "stacks, flame graph, treemap, segments, lifetimes"],
  ["f", "go into the flame graph or the treemap"],
  ["↑ ↓ ← →", "there: to the frame or module around, inside or beside; Enter enlarges it, Escape or Backspace leads back"],
  ["/", "search"],
  ["n", "next rank; of a comparison the other job"],
  ["?", "this list"],
];

const state = { entry: 0, stacked: "category", axis: null, event: null, fixed: null, view: "stacks", search: "" };
const page = { index: null, report: null, streams: new Map(), shown: new Map(), current: null, opened: null, titles: null, timelines: [], parts: {} };

// Takes over what the address says; what it does not name is as at first. Returns the place that it names: a rank, its event, the one to compare with, and the part of the axis.
function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  const place = { entry: page.index.shown, event: null, fixed: null };
  const zoom = (given.get("zoom") || "").split(",").map(Number);
  Object.assign(state, { stacked: "category", axis: null, view: "stacks", search: "" });
  for (const key of ["stacked", "axis", "view", "search"]) if (given.has(key)) state[key] = given.get(key);
  for (const key of Object.keys(place)) if (given.has(key) && /^\d+$/.test(given.get(key))) place[key] = Number(given.get(key));
  if (state.stacked !== "owner") state.stacked = "category";
  if (!["event", "time", "step", null].includes(state.axis)) state.axis = null;
  if (!VIEWS.some((v) => v.id === state.view)) state.view = "stacks";
  return { ...place, zoom: zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1] ? zoom : null };
}

// The controls of the page say what is chosen.
function showState() {
  for (const key of ["stacked", "axis"]) if (state[key]) byId(key).value = state[key];
  byId("search").value = state.search;
}

function keepState() {
  const kept = new URLSearchParams();
  const zoom = page.timeline.shownRange();
  if (zoom) kept.set("zoom", zoom.join());
  for (const [key, value] of Object.entries(state)) if (value !== null && value !== "") kept.set(key, value);
  history.replaceState(null, "", `#${kept}`);
}

async function load(entry) {
  const described = page.index.streams.find((s) => s.entry === entry);
  if (!described) return null;
  if (!page.streams.has(entry)) {
    const data = await decodeStream(described, page.titles.categories.length, (id) => byId(`b${id}`).textContent);
    const owner = ownerCurves(data, knowsDevice(page.report.ranks[entry]) ? page.titles.owners : []);
    page.streams.set(entry, { data, category: new BlockCurves(page.titles.categories, data), owner, reserved: reservedCurve(data) });
  }
  return page.streams.get(entry);
}

// A file of another tool does not tell what is outside PyTorch's allocator.
function knowsDevice(rank) {
  return rank.peak.device_bytes !== null;
}

// The entries that are drawn: the chosen one, or both jobs of a comparison.
function drawnEntries(entry) {
  return page.index.compares ? [0, 1] : [entry];
}

function timelineOf(entry) {
  return page.timelines[page.index.compares ? entry : 0];
}

// What is looked for in a stream, and its curve.
function searchIn(stream) {
  stream.search = stream.isRecord ? null : searchOf(state.search, stream.data);
  stream.found = stream.search && new BlockCurves(page.titles.categories, stream.data, stream.search.block);
}

function showTimeline() {
  const entries = drawnEntries(state.entry);
  const streams = entries.map((entry) => page.shown.get(entry));
  streams.forEach(searchIn);
  const knots = streams.map(({ data }, i) => stepKnots(data, page.report.ranks[entries[i]].phase_starts));
  const hasSteps = knots.every((k) => k.length);
  byId("axis").querySelector('[value="step"]').disabled = !hasSteps;
  if (state.axis === "step" && !hasSteps) state.axis = byId("axis").value = "time";
  const hasOwners = entries.every((entry) => knowsDevice(page.report.ranks[entry]));
  byId("stacked").querySelector('[value="owner"]').disabled = !hasOwners;
  if (state.stacked === "owner" && !hasOwners) state.stacked = byId("stacked").value = "category";
  const axes = streams.map(({ data }, i) => axisOf(state.axis, data, knots[i]));
  const domains = axes.map((axis) => axis.domain());
  const domain = [Math.min(...domains.map((d) => d[0])), Math.max(...domains.map((d) => d[1]))];
  const lines = linesOf(streams, state.stacked, `found: ${state.search.trim()}`);
  const bands = streams.map((stream) => (state.stacked === "owner" ? stream.owner : stream.category));
  const drawn = lines.map((all) => all.filter((line) => !line.isBeyond));
  const ceiling = streams.length > 1 ? highestOf([...bands, ...drawn.flat().map((line) => line.curves)]) : 0;
  entries.forEach((entry, i) => {
    const stream = streams[i];
    timelineOf(entry).show({ data: stream.data, axis: axes[i], domain, ceiling, bands: bands[i], lines: drawn[i],
      marks: marksOf(stream.data, stream.category, page.report.ranks[entry]) });
  });
  const named = lines.flat();
  drawLegend(byId("legend"), bands, named.filter(({ name }, i) => named.findIndex((l) => l.name === name) === i));
}

function showMissing(rank) {
  const notes = missingOf(rank, page.current, page.index.of_records);
  byId("missing").hidden = !notes.length;
  byId("missing").textContent = notes.join("\n");
}

function phaseAt(rank, ms) {
  let found = null;
  for (const [start, step, phase] of rank.phase_starts || []) {
    if (start * 1000 > ms) break;
    found = step ? `step ${step}, ${phase}` : phase;
  }
  return found;
}

// A point of a record's curve.
function showPoint() {
  const { data, category, owner, reserved } = page.current;
  const { peak } = page.report.ranks[state.entry];
  const at = (curves, most) => size(curves.count ? curves.totalAt(curves.changeAt(state.event)) : most && 0);
  const text = byId("moment");
  for (const key of Object.keys(text.dataset)) delete text.dataset[key];
  text.textContent = (data.events ? `From ${time(data.times[state.event])} until the next point of the curve, at most: allocated ${at(category, peak.allocated_bytes)}, ` +
    `reserved ${at(reserved, peak.reserved_bytes)}, device ${at(owner, peak.device_bytes)}. ` : "") + "Of this rank no events are in the page.";
}

// How much of what is live is found.
function showFound(live, search, data) {
  const found = search ? live.filter(search.block) : [];
  const bytes = sumBytes(data, found);
  const text = byId("found");
  text.hidden = !search;
  Object.assign(text.dataset, { bytes, blocks: found.length });
  text.textContent = search ? `Of these, ${count(found.length)} blocks are found by “${search.text}”: ${size(bytes)}.` : "";
}

function showMoment() {
  const { data, owner, reserved, isRecord, search } = page.current;
  const event = state.event;
  const view = byId("view");
  const hadFocus = view.contains(document.activeElement);
  view.dispatchEvent(new Event("memtrace-clear"));
  view.replaceChildren();
  byId("found").hidden = true;
  if (isRecord) {
    showPoint();
    showPeak(view, page.report.ranks[state.entry], state.search);
    return;
  }
  if (!data.events) {
    byId("moment").textContent = "The trace has no events.";
    return;
  }
  const moment = momentOf(data, event);
  const rank = page.report.ranks[state.entry];
  const device = owner.changeAt(event);
  const held = reserved.changeAt(event);
  const phase = phaseAt(rank, data.times[event]);
  const text = byId("moment");
  text.dataset.event = event;
  text.dataset.bytes = moment.bytes;
  text.dataset.blocks = moment.live.length;
  text.textContent = `Event ${count(event)} of ${count(data.events)}, ${time(data.times[event])}${phase ? `, ${phase}` : ""}: ${size(moment.bytes)} (${count(moment.bytes)} bytes) in ` +
    `${count(moment.live.length)} blocks; reserved ${size(held < 0 ? 0 : reserved.totalAt(held))}, device ${size(owner.names.length ? (device < 0 ? 0 : owner.totalAt(device)) : null)}`;
  const context = { data, event, fixed: state.fixed, titles: page.titles, search, ...partsOf(data, event, state.fixed, moment.groups),
    timeline: page.timeline };
  showFound(moment.live, search, data);
  showDifference(view, context);
  VIEWS.find((v) => v.id === state.view).show(view, context);
  // What had the focus is no longer there.
  if (hadFocus && !view.contains(document.activeElement)) (view.querySelector("[role=treeitem]") || view).focus({ preventScroll: true });
  for (const tab of byId("tabs").children) tab.setAttribute("aria-selected", tab.dataset.view === state.view ? "true" : "false");
  byId("fix").textContent = state.fixed === null ? "compare from here" : "stop comparing";
}

export function goTo(event, withCompare = false) {
  if (withCompare && state.fixed === null) state.fixed = state.event;
  state.event = Math.max(0, Math.min(page.current.data.events - 1, event));
  page.timeline.setMoment(state.event, state.fixed);
  showMoment();
  keepState();
}

// Is one pause longer than a third of the trace? Then an axis of time shows little.
function hasPause({ times, events, longestPause }) {
  return longestPause > (times[events - 1] - times[0]) / 3;
}

function peakEvent() {
  const { category } = page.current;
  const peak = category.peak();
  return peak < 0 ? 0 : category.eventOf(peak);
}

// The one behind the moment, or the first; -1: there is none.
function nextFailure() {
  const failures = eventsOf(page.current.data.kinds, EVENT.FAILURE);
  return failures.find((event) => event > state.event) ?? failures[0] ?? -1;
}

// Which of the two jobs the views below are of.
function showSides(entry) {
  const name = (i) => `${"AB"[i]}: ${page.report.ranks[i].trace}`;
  byId("side-a").textContent = name(0);
  byId("side-b").textContent = name(1);
  byId("sides").replaceChildren(...[0, 1].map((i) =>
    element("button", { type: "button", "aria-pressed": i === entry ? "true" : "false", onclick: () => open(i) }, `look into ${"AB"[i]}`)));
}

// Shows an entry, or says why it cannot be shown. `place`: the events to begin with.
async function open(entry, place = entry === state.entry ? state : { event: null, fixed: null }) {
  const rank = page.report.ranks[entry];
  if (!rank) return open(0);
  byId("failure").hidden = true;
  try {
    await show(entry, rank, place);
  } catch (error) {
    const isShown = page.current && state.entry !== entry;
    const failure = failureOf(rank, error, isShown ? page.report.ranks[state.entry] : null);
    if (!page.current) throw new Error(failure);
    byId("failure").hidden = page.opened !== entry;
    byId("failure").textContent = failure;
  }
  return undefined;
}

// The page stays as it is until the entry is read.
async function show(entry, rank, place) {
  page.opened = entry;
  const shown = new Map(await Promise.all(drawnEntries(entry).map(async (i) => [i, (await load(i)) || fromRecord(page.report.ranks[i])])));
  if (page.opened !== entry) return; // another one was opened meanwhile
  page.shown = shown;
  Object.assign(state, { entry, event: place.event, fixed: place.fixed });
  page.current = page.shown.get(entry);
  page.timeline = timelineOf(entry);
  if (state.axis === null) state.axis = byId("axis").value = page.index.compares ? "step" : hasPause(page.current.data) ? "event" : "time";
  if (state.event === null || state.event >= page.current.data.events) state.event = peakEvent();
  if (state.fixed !== null && state.fixed >= page.current.data.events) state.fixed = null;
  byId("job").textContent = [page.index.compares && "AB"[entry], `rank ${rank.rank}`, seatText(rank.rank, page.report.job), rank.host && `host ${rank.host}`, rank.gpu, rank.command].filter(Boolean).join(" · ");
  showCards(byId("cards"), rank);
  showFacts(byId("facts"), rank, page.titles);
  if (page.parts.match) showMatch(byId("match"), rank, page.parts.match, page.parts.simulated, page.titles);
  showMissing(rank);
  byId("to-oom").hidden = !page.current.data.kinds.includes(EVENT.FAILURE);
  showTimeline();
  for (const timeline of page.timelines) if (timeline !== page.timeline && timeline.axis) timeline.setMoment(null, null);
  if (place.zoom === null && page.timeline.shownRange()) page.timeline.whole();
  if (page.current.data.events) page.timeline.setMoment(state.event, state.fixed);
  if (place.zoom) page.timeline.range(...place.zoom);
  showMoment();
  keepState();
  if (page.index.compares) showSides(entry);
  else if (page.report.ranks.length > 1) {
    byId("ranks-box").hidden = false;
    showRanks(byId("ranks"), page.report, new Set(page.index.streams.map((s) => s.entry)), entry, open);
  }
}

function choose(key, value) {
  state[key] = value;
  byId(key).value = value;
  showTimeline();
  page.timeline.setMoment(state.event, state.fixed);
  axisChanged();
}

function chooseView(id) {
  state.view = id;
  showMoment();
  keepState();
}

function compare() {
  state.fixed = state.fixed === null ? state.event : null;
  goTo(state.event);
}

function whole() {
  page.timeline.whole();
}

// Another axis is shown, or another part of it.
function axisChanged() {
  if (!page.current) return;
  if (VIEWS.find((v) => v.id === state.view).followsZoom) showMoment();
  keepState();
}

const searching = new Later(() => {
  showTimeline();
  showMoment();
  keepState();
});

function search(text) {
  state.search = text;
  searching.ask();
}

function onSearchKey({ key }) {
  if (key === "Enter" || key === "Escape") searching.now();
  if (key === "Escape") byId("search").blur();
}

function showKeys() {
  const rows = KEYS.map(([key, what]) => element("tr", {}, element("td", {}, key), element("td", {}, what)));
  const close = element("button", { type: "button", onclick: () => byId("help").close() }, "close");
  byId("help").replaceChildren(element("h2", {}, "Keys"), element("table", {}, ...rows), close);
  byId("help").showModal();
}

function moveBy(e, direction) {
  const [first, last] = page.timeline.x.domain().map((p) => page.timeline.axis.eventAt(p));
  goTo(state.event + direction * (e.shiftKey ? Math.max(1, Math.round((last - first) / 100)) : 1));
}

function nextRank() {
  open((page.opened + 1) % page.report.ranks.length);
}

function nextAxis() {
  const names = [...byId("axis").options].filter((o) => !o.disabled).map((o) => o.value);
  choose("axis", names[(names.indexOf(state.axis) + 1) % names.length]);
}

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || ["INPUT", "SELECT", "TEXTAREA"].includes(e.target.tagName) || byId("help").open) return;
  const actions = {
    ArrowLeft: () => moveBy(e, -1), ArrowRight: () => moveBy(e, 1), "+": () => page.timeline.scaleBy(2), "=": () => page.timeline.scaleBy(2),
    "-": () => page.timeline.scaleBy(0.5), 0: whole, p: () => goTo(peakEvent()), o: () => nextFailure() >= 0 && goTo(nextFailure()), c: compare,
    s: () => choose("stacked", state.stacked === "owner" ? "category" : "owner"), a: nextAxis,
    "/": () => byId("search").focus(), "?": showKeys, n: nextRank, f: () => byId("view").querySelector("[role=treeitem]")?.focus(),
  };
  VIEWS.forEach((v, i) => (actions[i + 1] = () => chooseView(v.id)));
  if (!actions[e.key]) return;
  e.preventDefault();
  actions[e.key]();
}

function connect() {
  showState();
  for (const key of ["stacked", "axis"]) byId(key).addEventListener("change", () => choose(key, byId(key).value));
  byId("whole").addEventListener("click", whole);
  byId("keys").addEventListener("click", showKeys);
  byId("to-peak").addEventListener("click", () => goTo(peakEvent()));
  byId("to-oom").addEventListener("click", () => goTo(nextFailure()));
  byId("fix").addEventListener("click", compare);
  byId("search").addEventListener("input", () => search(byId("search").value));
  byId("search").addEventListener("change", () => searching.now());
  byId("search").addEventListener("keydown", onSearchKey);
  for (const view of VIEWS)
    byId("tabs").append(element("button", { type: "button", role: "tab", "data-view": view.id, "aria-controls": "view", onclick: () => chooseView(view.id) }, view.title));
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", () => {
    const place = readState();
    showState();
    open(place.entry, place);
  });
  window.addEventListener("beforeprint", () => page.timelines.forEach((t) => t.drawPrint()));
  window.addEventListener("afterprint", () => page.timelines.forEach((t) => t.resize()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { page.timelines.forEach((t) => t.resize()); showMoment(); });
}

async function readParts() {
  for (const [name, id] of Object.entries(page.index.parts)) page.parts[name] = jsonOf(await inflate(byId(`b${id}`).textContent));
  byId("match-box").hidden = !page.parts.match;
}

// A comparison has a timeline for each job, which are zoomed together.
function comparedTimelines() {
  const goIn = (entry) => async (event, withCompare) => {
    if (state.entry !== entry) await open(entry);
    if (state.entry === entry) goTo(event, withCompare);
  };
  for (const e of document.querySelectorAll(".of-comparison")) e.hidden = false;
  const both = ["timeline", "timeline-b"].map((id, entry) => new Timeline(byId(id), goIn(entry), axisChanged));
  both.forEach((t, i) => (t.partner = both[1 - i]));
  showDiff(byId("diff"), page.parts.diff, page.titles);
  return both;
}

function connectTimelines() {
  page.timelines = page.index.compares ? comparedTimelines() : [new Timeline(byId("timeline"), goTo, axisChanged)];
  [page.timeline] = page.timelines;
}

function setTitles() {
  const { categories, owners } = page.index;
  page.titles = { categories: categories.map((c) => c[1]), categoryKeys: categories.map((c) => c[0]), owners: owners.map((o) => o[1]), ownerKeys: owners.map((o) => o[0]) };
}

// Whose events the page has.
function eventsKept() {
  const whole = page.index.streams.length;
  const all = page.report.ranks.length;
  if (whole === all) return "Every event is in this file";
  return whole ? `Every event of ${count(whole)} of the ${count(all)} ranks is in this file, and the record of each other one` : "The records of the ranks are in this file, without events";
}

// The answer is above, the whole report below.
function placeReport() {
  byId("headline").textContent = page.index.compares ? headlineOf(page.parts.diff) : page.index.headline;
  byId("summary").textContent = page.index.answer.trimEnd();
  document.title = `memtrace: ${byId("headline").textContent}`;
  byId("report-place").append(byId("verdict"));
  const unit = Math.max(...page.index.streams.map((s) => s.unit_ns));
  const clock = unit > 1 ? ` Their order is exact, their times are to ${time(unit / 1e6)}.` : "";
  byId("footer").append(`memtrace ${page.index.version}. ${eventsKept()}; nothing is sent anywhere.${clock}`, element("details", {}, element("summary", {}, "licences"),
    byId("licences").content.cloneNode(true)));
}

export async function main() {
  try {
    page.index = jsonOf(await inflate(byId("index").textContent));
    page.report = jsonOf(await inflate(byId(`b${page.index.report}`).textContent));
    setTitles();
    const place = readState();
    byId("app").hidden = false;
    await readParts();
    connectTimelines();
    connect();
    placeReport();
    await open(place.entry, place);
    byId("wait").hidden = true;
    // For tests and for the curious: what is chosen, and how long it took from the request of the file.
    window.memtrace = { page, state, goTo, readyMs: performance.now() };
    document.body.dataset.ready = Math.round(window.memtrace.readyMs);
  } catch (error) {
    byId("wait").textContent = `The page cannot be shown: ${error.message}. The report is above.`;
    throw error;
  }
}
