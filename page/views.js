// The views of a moment: stacks, flame graph, treemap, segments, lifetimes. Each has `show(place, context)`.
import { groupByStack, liveBlocks, difference, segmentsAt, largestLifetimes, sumBytes } from "./moment.js";
import { flameTree, treemapTree, stackName, framesOf } from "./trees.js";
import { FOUND_COLOUR, isPlaceFound } from "./search.js";
import { breakable, element, headRow, growingTable, size, change, count, time, escapeHtml, byId } from "./format.js";
import { colourOf, decalOf, fillOf, inkOn, patternOf } from "./palette.js";
import { MARGIN, labelStep } from "./timeline.js";
import { TreeFocus } from "./tree_focus.js";

const ROWS = 60; // of a table; a button shows the others

// What fills a block in a picture: the pattern of its category. `pattern`: of palette.js.
function blockFill({ data, search }, block, pattern) {
  return search?.block(block) ? FOUND_COLOUR : pattern(data.blocks.category[block]);
}

function stackDetails(context, group) {
  const frames = framesOf(context.data, group.stack);
  const title = (group.backward ? "backward of " : "") + stackName(context.data, group.stack);
  const details = element("details", { class: "stack" }, element("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1)
      details.append(element("ol", {}, ...frames.slice().reverse().map((f) => element("li", { class: "mono" }, f))));
  });
  return details;
}

const PLACE_COLUMNS = [["bytes", "n"], ["blocks", "n"], "category", "allocated by", "module"];

// Blocks of one stack. `by`: the stack, as an element or as text.
function placeRow(isFound, bytes, sign, blocks, category, by, module) {
  return element("tr", { class: isFound ? "found" : null }, element("td", { class: "n", title: `${bytes} bytes` }, sign + size(bytes)),
    element("td", { class: "n" }, count(blocks)), element("td", {}, category), element("td", {}, by), element("td", {}, ...breakable(module)));
}

function stackTable(context, groups, sign = "") {
  const row = (group) => placeRow(context.search?.any(group.list), group.bytes, sign, group.blocks, context.titles.categories[group.category], stackDetails(context, group),
    context.data.tables.stacks[group.stack].module);
  return growingTable({}, headRow(...PLACE_COLUMNS), groups, row, ROWS, `show all ${count(groups.length)} stacks`);
}

// What the views of a moment show: all that is live, or of two moments what came and what went. `key` tells them apart in the page.
export function partsOf(data, event, fixed, groups) {
  if (fixed === null) return { parts: [{ key: "", title: "", sign: "", groups }] };
  const { came, went } = difference(data, fixed, event);
  const parts = [["came", "Came", "+", came], ["went", "Went", "−", went]].map(([key, title, sign, list]) => ({ key: `-${key}`, title, sign, groups: groupByStack(data, list) }));
  return { parts, changed: { came, went } };
}

// The sentence about two moments, which is above each view.
export function showDifference(place, { data, event, fixed, changed }) {
  if (!changed) return;
  const { came, went } = changed;
  const added = sumBytes(data, came);
  const gone = sumBytes(data, went);
  place.append(element("p", { id: "difference", "data-came": added, "data-went": gone },
    `From event ${count(fixed)} to event ${count(event)}: ${change(added - gone)}. ${count(came.length)} blocks came, ${size(added)}; ` +
    `${count(went.length)} went, ${size(gone)}.`));
}

// `show(part)` for each part that has blocks.
function eachPart(place, context, show) {
  for (const part of context.parts) {
    if (part.title) place.append(element("h3", {}, part.title));
    if (part.groups.length || !part.title) show(part);
    else place.append(element("p", { class: "hint" }, "nothing"));
  }
}

function showStacks(place, context) {
  eachPart(place, context, (part) => place.append(stackTable(context, part.groups, part.sign)));
}

// The largest stacks at a rank's peak, as the report has them. `searched`: what is looked for.
export function showPeak(place, rank, searched) {
  const { stacks, blocks } = rank.peak;
  const row = (s) => placeRow(isPlaceFound(searched, s), s.bytes, "", s.blocks, s.category, s.frame, s.module || "");
  place.append(element("p", { class: "hint" }, `The ${count(stacks.length)} largest places at the peak, ${count(blocks)} blocks in all.`),
    growingTable({ id: "peak-places" }, headRow(...PLACE_COLUMNS), stacks, row, stacks.length, ""));
}

function showFlame(place, context) {
  eachPart(place, context, (part) => drawFlame(place, context, part));
}

const FRAME_HEIGHT = 20; // pixels
const LEAST_FRAME = 1;

// A picture of a tree, in which the keyboard leads from node to node.
function treeBox(place, what, part) {
  const box = element("div", { class: "picture", role: "tree", "aria-label": `${what}${part.title ? `, ${part.title.toLowerCase()}` : ""}` });
  place.append(box);
  return box;
}

function nodeTitle(name, bytes, all, isFound) {
  return `${name}: ${size(bytes)}, ${((100 * bytes) / (all || 1)).toFixed(1)} % of all${isFound ? ", found" : ""}`;
}

function drawFlame(place, context, part) {
  const root = flameTree(context.data, part.groups, context.search);
  const box = element("div", { id: `flame${part.key}`, "data-bytes": root.value, "aria-hidden": "true" });
  place.append(element("p", { class: "hint" }, `${part.sign}${size(root.value)} by call, outermost at the top. A click enlarges a frame; so do the arrow keys and Enter.`));
  const width = place.clientWidth;
  const outer = treeBox(place, "Flame graph", part);
  outer.append(box);
  let enlarged = null;
  let focus = null;
  const chart = flamegraph().width(width).cellHeight(FRAME_HEIGHT).inverted(true).minFrameSize(LEAST_FRAME).transitionDuration(0).sort(true)
    .setColorMapper((d, original) => (d.data.found ? FOUND_COLOUR : original))
    .tooltip(false).label((d) => `${d.data.name}: ${size(d.data.value)}`);
  d3.select(box).datum(root).call(chart);
  const all = d3.select(box).datum();
  enlarged = all;
  const enlarge = (d) => {
    enlarged = d;
    enlargeFrame(all, d);
    chart.update();
    focus.follow(d);
  };
  focus = new TreeFocus(outer, flamePicture(all, width, () => enlarged, enlarge));
  box.addEventListener("click", (e) => {
    const frame = e.target.closest("g.frame");
    if (!frame) return;
    e.stopPropagation();
    enlarge(d3.select(frame).datum());
  }, true);
}

// What d3-flame-graph draws of a frame that takes all of the room: frames around it are faded, frames beside these are hidden. Its own zoomTo() calls
// itself for each frame inside, which is too deep for a browser if a stack has thousands.
function enlargeFrame(all, frame) {
  all.each(({ data }) => { data.hide = data.fade = false; });
  for (let inner = frame, outer = frame.parent; outer; inner = outer, outer = outer.parent) {
    outer.data.fade = true;
    for (const d of outer.children) d.data.hide = d !== inner;
  }
}

// The tree of d3-flame-graph: frames that are left out have no bytes.
function flamePicture(all, width, enlarged, enlarge) {
  const scale = width / (all.x1 - all.x0);
  return {
    root: () => all,
    enlarged,
    parent: (d) => d.parent,
    children: (d) => (d.children || []).filter((c) => (c.x1 - c.x0) * scale > LEAST_FRAME),
    box: (d) => ({ x: d.x0 * scale, y: d.depth * FRAME_HEIGHT, width: (d.x1 - d.x0) * scale, height: FRAME_HEIGHT }),
    title: (d) => nodeTitle(d.data.name, d.data.value, all.data.value, d.data.found),
    enlarge,
  };
}

// `label`: null if what is around it says what it is.
function chartAt(view, place, id, label) {
  const box = element("div", { class: "chart", id, role: label && "img", "aria-label": label, "aria-hidden": label ? null : "true" });
  place.append(box);
  const chart = echarts.init(box, null, { renderer: "canvas" });
  view.addEventListener("memtrace-clear", () => chart.dispose(), { once: true });
  return chart;
}

function inkOf(place) {
  return getComputedStyle(place).color;
}

function showTreemap(place, context) {
  eachPart(place, context, (part) => drawTreemap(place, context, part));
}

// A node of a category's colour and hatching, upon which its text can be read; what is found has a border.
function paintNode(node, category) {
  node.itemStyle = { decal: decalOf(category), ...(node.found && { borderColor: FOUND_COLOUR, borderWidth: 4 }) };
  node.label = { color: inkOn(category), textBorderColor: colourOf(category), textBorderWidth: decalOf(category) ? 4 : 0 };
}

function drawTreemap(place, context, part) {
  const root = treemapTree(context.data, part.groups, context.titles.categories, context.search);
  for (const category of root.children) {
    category.itemStyle = { color: colourOf(category.category) };
    delete category.modules;
    for (const module of category.children) {
      for (const node of [module, ...module.children]) paintNode(node, category.category);
    }
  }
  place.append(element("p", { class: "hint", id: `treemap-root${part.key}`, "data-bytes": root.value },
    `${part.sign}${size(root.value)} by category, module and block. A click enters, the line below leads back; so do the arrow keys, Enter and Escape.`));
  const outer = treeBox(place, "Treemap of the blocks; the stacks view has the same as text", part);
  const chart = chartAt(place, outer, `treemap${part.key}`, null);
  const upper = { show: true, height: 20, color: "#111", formatter: (p) => `${p.name}  ${size(p.value)}` };
  const back = getComputedStyle(document.body).backgroundColor;
  const ink = inkOf(place);
  chart.setOption({
    animation: false,
    tooltip: { formatter: (p) => `${escapeHtml(p.name)}<br>${size(p.value)}`, confine: true },
    series: [{ type: "treemap", name: "all", data: root.children, leafDepth: 2, roam: false, width: "100%", top: 0, bottom: 28, left: 0, right: 0, nodeClick: "zoomToNode",
      label: { lineHeight: 16, formatter: (p) => `${p.name}\n${size(p.value)}` }, upperLabel: upper,
      breadcrumb: { bottom: 0, itemStyle: { color: back, borderColor: ink, borderWidth: 1, textStyle: { color: ink } } },
      levels: [{ itemStyle: { gapWidth: 3, borderWidth: 0, color: back, borderColor: back }, upperLabel: { show: false } },
        { itemStyle: { gapWidth: 1, borderWidth: 2, borderColorSaturation: 0.5 }, upperLabel: upper }, { itemStyle: { gapWidth: 1 }, colorSaturation: [0.35, 0.6] }] }],
  });
  const focus = new TreeFocus(outer, treemapPicture(chart));
  chart.on("treemaproottonode", () => focus.follow(focus.node));
}

// The tree of ECharts: of the node that is enlarged, what is drawn is in `viewChildren`; a place is relative to that of the node around it.
function treemapPicture(chart) {
  const series = () => chart.getModel().getSeriesByIndex(0);
  const all = series().getData().tree.root;
  const box = (node) => {
    const { width, height } = node.getLayout();
    const { x, y } = series().layoutInfo;
    return node.getAncestors(true).reduce((at, n) => ({ ...at, x: at.x + (n.getLayout().x || 0), y: at.y + (n.getLayout().y || 0) }), { x, y, width, height });
  };
  return {
    root: () => series().getViewRoot(),
    enlarged: () => series().getViewRoot(),
    parent: (node) => node.parentNode,
    children: (node) => node.viewChildren || [],
    box,
    title: (node) => nodeTitle(node.name, node.getValue(), all.getValue(), node.getModel().get("found")),
    enlarge: (node) => node.children.length && chart.dispatchAction({ type: "treemapRootToNode", seriesIndex: 0, targetNode: node }),
  };
}

const MOST_SEGMENTS = 400;

function drawSegment(c, segment, y, width, longest, context) {
  const scale = (bytes) => Math.max(bytes > 0 ? 0.5 : 0, (bytes / longest) * width);
  c.strokeStyle = inkOf(byId("view"));
  c.globalAlpha = 0.35;
  c.strokeRect(0.5, y + 0.5, scale(segment.size) - 1, 13);
  c.globalAlpha = 1;
  for (const i of segment.blocks) {
    c.fillStyle = blockFill(context, i, (category) => patternOf(c, category));
    c.fillRect(scale(context.data.blocks.addressOf(i) - segment.address), y + 1, Math.max(0.6, scale(context.data.blocks.sizeOf(i)) - 0.4), 12);
  }
}

function segmentTotals(segments) {
  return { held: segments.reduce((sum, s) => sum + s.size, 0), used: segments.reduce((sum, s) => sum + s.used, 0),
    hole: segments.reduce((most, s) => Math.max(most, s.largestHole), 0) };
}

// How the segments of the second moment, which are drawn, differ from those of the first.
function showSegmentChange(place, { data, event, fixed }, { held, used }) {
  const before = segmentTotals(segmentsAt(data, fixed));
  const holes = held - used - (before.held - before.used);
  place.append(element("p", { id: "segments-change", "data-held": held - before.held, "data-used": used - before.used },
    `Below are the segments of event ${count(event)}. Since event ${count(fixed)}: held ${change(held - before.held)}, in blocks ${change(used - before.used)}, in holes ${change(holes)}.`));
}

function showSegments(place, context) {
  const segments = segmentsAt(context.data, context.event).sort((a, b) => b.size - a.size);
  const { held, used, hole } = segmentTotals(segments);
  if (context.fixed !== null) showSegmentChange(place, context, { held, used });
  place.append(element("p", { id: "segments-text", "data-held": held, "data-used": used, "data-hole": hole },
    segments.length ? `${count(segments.length)} segments of the caching allocator hold ${size(held)}: ${size(used)} in blocks, ${size(held - used)} in holes, the largest of ${size(hole)}.`
      : "The trace shows no segment of the caching allocator here."));
  if (!segments.length) return;
  const shown = segments.slice(0, MOST_SEGMENTS);
  const canvas = element("canvas", { id: "segments", role: "img", "aria-label": "Each segment as a bar, with its blocks by category and holes between them" });
  place.append(canvas);
  const width = place.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = shown.length * 18 * ratio;
  canvas.style.width = `${width}px`;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  shown.forEach((segment, row) => drawSegment(c, segment, row * 18, width, shown[0].size, context));
  canvas.addEventListener("mousemove", (e) => {
    const segment = shown[Math.floor(e.offsetY / 18)];
    const address = segment ? segment.address + (e.offsetX / width) * shown[0].size : 0;
    const block = segment?.blocks.find((i) => context.data.blocks.addressOf(i) <= address && address < context.data.blocks.addressOf(i) + context.data.blocks.sizeOf(i));
    const tip = byId("tip");
    tip.hidden = !segment || address > segment.address + segment.size;
    if (tip.hidden) return;
    tip.textContent = block === undefined ? `hole; the segment has ${size(segment.size)}, ${size(segment.used)} used`
      : `${size(context.data.blocks.sizeOf(block))} ${context.titles.categories[context.data.blocks.category[block]]}\n${stackName(context.data, context.data.blocks.stack[block])}`;
    tip.style.left = `${e.clientX + 12}px`;
    tip.style.top = `${e.clientY + 12}px`;
  });
  canvas.addEventListener("mouseleave", () => (byId("tip").hidden = true));
  if (segments.length > shown.length) place.append(element("p", { class: "hint" }, `The ${count(segments.length - shown.length)} smallest segments are not drawn.`));
}

// Bars on the axis of the timeline, below the part of it that is visible.
function showLifetimes(place, context) {
  const data = context.data;
  const { axis, x } = context.timeline;
  const [low, high] = x.domain();
  const bars = largestLifetimes(data, axis.eventAt(low), axis.eventAt(high), 80);
  place.append(element("p", { class: "hint" }, `The ${bars.length} largest blocks that were live in the visible part of the timeline, largest first${context.fixed === null ? "" : "; a comparison of moments does not change them"}.`));
  const chart = chartAt(place, place, "lifetimes", "Lifetimes of the largest blocks as bars");
  chart.getDom().style.height = `${Math.max(160, bars.length * 14 + 60)}px`;
  chart.resize();
  const ink = inkOf(place);
  const step = labelStep([low, high], place.clientWidth);
  chart.setOption({
    animation: false,
    grid: { left: MARGIN.left, right: MARGIN.right, top: 8, bottom: 30 },
    tooltip: { confine: true, formatter: (p) => {
      const b = bars[p.dataIndex];
      return `${size(data.blocks.sizeOf(b.block))} ${context.titles.categories[data.blocks.category[b.block]]}<br>${escapeHtml(stackName(data, data.blocks.stack[b.block]))}<br>` +
        `${time(data.times[b.from])} to ${b.isLive ? "the end" : time(data.times[b.to])}`;
    } },
    xAxis: { type: "value", min: low, max: high, interval: step, splitLine: { show: false },
      axisLabel: { color: ink, showMinLabel: Number.isInteger(low / step), showMaxLabel: Number.isInteger(high / step), formatter: (v) => axis.label(v, step) } },
    yAxis: { type: "category", inverse: true, data: bars.map((b) => size(data.blocks.sizeOf(b.block))), axisLabel: { color: ink } },
    series: [{ type: "custom", clip: true, data: bars.map((b, i) => [i, axis.position(b.from), b.isLive ? high : axis.position(b.to)]), encode: { x: [1, 2], y: 0 },
      renderItem: (params, api) => {
        const start = api.coord([api.value(1), api.value(0)]);
        const end = api.coord([api.value(2), api.value(0)]);
        const b = bars[params.dataIndex];
        return { type: "rect", shape: { x: start[0], y: start[1] - 5, width: Math.max(1, end[0] - start[0]), height: 10 },
          style: { fill: blockFill(context, b.block, fillOf) } };
      } }],
  });
}

export const VIEWS = [
  { id: "stacks", title: "Stacks", show: showStacks },
  { id: "flame", title: "Flame graph", show: showFlame },
  { id: "treemap", title: "Treemap", show: showTreemap },
  { id: "segments", title: "Segments and holes", show: showSegments },
  { id: "lifetimes", title: "Lifetimes", show: showLifetimes, followsZoom: true },
];

export function momentOf(data, event) {
  const live = liveBlocks(data, event);
  return { live, groups: groupByStack(data, live), bytes: sumBytes(data, live) };
}
