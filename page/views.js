// The views of a moment: stacks, flame graph, treemap, segments, lifetimes. Each has `show(place, context)`.
import { groupByStack, liveBlocks, difference, segmentsAt, largestLifetimes, sumBytes } from "./moment.js";
import { flameTree, treemapTree, stackName, framesOf, stackMatches } from "./trees.js";
import { element, size, change, count, time, escapeHtml, byId } from "./format.js";
import { colourOf } from "./palette.js";

const ROWS = 60; // of a table; a button shows the others

export function isFound(context, stack, bytes) {
  const match = context.match;
  if (!match) return false;
  return match.size ? match.size(bytes) : stackMatches(context.data, match, stack);
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

function stackTable(context, groups, sign = "") {
  const body = element("tbody");
  const add = (from, to) => {
    for (const group of groups.slice(from, to)) {
      const row = element("tr", { class: isFound(context, group.stack, group.bytes) ? "found" : null });
      row.append(element("td", { class: "n", title: `${group.bytes} bytes` }, sign + size(group.bytes)), element("td", { class: "n" }, count(group.blocks)),
        element("td", {}, context.titles.categories[group.category]), element("td", {}, stackDetails(context, group)),
        element("td", {}, context.data.tables.stacks[group.stack].module));
      body.append(row);
    }
  };
  add(0, ROWS);
  const head = element("tr", {}, ...["bytes", "blocks", "category", "allocated by", "module"].map((t, i) => element("th", { class: i < 2 ? "n" : null, scope: "col" }, t)));
  const box = element("div", {}, element("table", {}, element("thead", {}, head), body));
  if (groups.length > ROWS) {
    const more = element("button", { type: "button", onclick: () => { add(ROWS, groups.length); more.remove(); } }, `show all ${count(groups.length)} stacks`);
    box.append(more);
  }
  return box;
}

function showStacks(place, context) {
  if (context.fixed === null) {
    place.append(stackTable(context, context.groups));
    return;
  }
  const { came, went } = difference(context.data, context.fixed, context.event);
  const added = sumBytes(context.data, came);
  const gone = sumBytes(context.data, went);
  place.append(element("p", { id: "difference", "data-came": added, "data-went": gone },
    `From event ${count(context.fixed)} to event ${count(context.event)}: ${change(added - gone)}. ${count(came.length)} blocks came, ${size(added)}; ` +
    `${count(went.length)} went, ${size(gone)}.`));
  place.append(element("h3", {}, "Came"), stackTable(context, groupByStack(context.data, came), "+"));
  place.append(element("h3", {}, "Went"), stackTable(context, groupByStack(context.data, went), "−"));
}

// The largest stacks at a rank's peak, as the report has them.
export function showPeak(place, rank) {
  const rows = rank.peak.stacks.map((s) => element("tr", {}, element("td", { class: "n", title: `${s.bytes} bytes` }, size(s.bytes)), element("td", { class: "n" }, count(s.blocks)),
    element("td", {}, s.category), element("td", {}, s.frame), element("td", {}, s.module || "")));
  const head = element("tr", {}, ...["bytes", "blocks", "category", "allocated by", "module"].map((t, i) => element("th", { class: i < 2 ? "n" : null, scope: "col" }, t)));
  place.append(element("p", { class: "hint" }, `The ${count(rows.length)} largest places at the peak, ${count(rank.peak.blocks)} blocks in all.`),
    element("table", { id: "peak-places" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

function showFlame(place, context) {
  const root = flameTree(context.data, context.groups);
  const box = element("div", { id: "flame", "data-bytes": root.value });
  place.append(element("p", { class: "hint" }, `${size(root.value)} by call, outermost at the top. Click a frame to enlarge it.`), box);
  const chart = flamegraph().width(place.clientWidth).cellHeight(20).inverted(true).minFrameSize(1).transitionDuration(0).sort(true)
    .setColorMapper((d, original) => (d.highlight ? "#e600e6" : original))
    .tooltip(false).label((d) => `${d.data.name}: ${size(d.data.value)}`);
  d3.select(box).datum(root).call(chart);
  if (context.match && context.match.text) chart.search(context.searched);
}

function chartAt(place, id, label) {
  const box = element("div", { class: "chart", id, role: "img", "aria-label": label });
  place.append(box);
  const chart = echarts.init(box, null, { renderer: "canvas" });
  place.addEventListener("memtrace-clear", () => chart.dispose(), { once: true });
  return chart;
}

function inkOf(place) {
  return getComputedStyle(place).color;
}

function showTreemap(place, context) {
  const root = treemapTree(context.data, context.groups, context.titles.categories);
  for (const category of root.children) {
    category.itemStyle = { color: colourOf(category.category) };
    for (const module of category.children) {
      module.itemStyle = context.match && context.match.text && context.match.text(module.name) ? { borderColor: "#e600e6", borderWidth: 4 } : undefined;
      delete module.modules;
    }
    delete category.modules;
  }
  place.append(element("p", { class: "hint", id: "treemap-root", "data-bytes": root.value }, `${size(root.value)} by category, module and block. Click to enter, the line below leads back.`));
  const chart = chartAt(place, "treemap", "Treemap of the live blocks; the stacks view has the same as text.");
  const upper = { show: true, height: 20, color: "#111", formatter: (p) => `${p.name}  ${size(p.value)}` };
  chart.setOption({
    animation: false,
    tooltip: { formatter: (p) => `${escapeHtml(p.name)}<br>${size(p.value)}`, confine: true },
    series: [{ type: "treemap", data: root.children, leafDepth: 2, roam: false, width: "100%", top: 0, bottom: 28, left: 0, right: 0, nodeClick: "zoomToNode",
      label: { color: "#111", formatter: (p) => `${p.name}\n${size(p.value)}` }, upperLabel: upper, breadcrumb: { bottom: 0 },
      levels: [{ itemStyle: { gapWidth: 3, borderWidth: 0 } }, { itemStyle: { gapWidth: 1, borderWidth: 2, borderColorSaturation: 0.5 }, upperLabel: upper },
        { itemStyle: { gapWidth: 1 }, colorSaturation: [0.35, 0.6] }] }],
  });
}

const MOST_SEGMENTS = 400;

function drawSegment(c, segment, y, width, longest, context) {
  const scale = (bytes) => Math.max(bytes > 0 ? 0.5 : 0, (bytes / longest) * width);
  c.strokeStyle = inkOf(byId("view"));
  c.globalAlpha = 0.35;
  c.strokeRect(0.5, y + 0.5, scale(segment.size) - 1, 13);
  c.globalAlpha = 1;
  for (const i of segment.blocks) {
    c.fillStyle = isFound(context, context.data.blocks.stack[i], context.data.blocks.sizeOf(i)) ? "#e600e6" : colourOf(context.data.blocks.category[i]);
    c.fillRect(scale(context.data.blocks.addressOf(i) - segment.address), y + 1, Math.max(0.6, scale(context.data.blocks.sizeOf(i)) - 0.4), 12);
  }
}

function showSegments(place, context) {
  const segments = segmentsAt(context.data, context.event).sort((a, b) => b.size - a.size);
  const held = segments.reduce((sum, s) => sum + s.size, 0);
  const used = segments.reduce((sum, s) => sum + s.used, 0);
  const hole = segments.reduce((most, s) => Math.max(most, s.largestHole), 0);
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

function showLifetimes(place, context) {
  const data = context.data;
  const [first, last] = context.visible();
  const bars = largestLifetimes(data, first, last, 80);
  place.append(element("p", { class: "hint" }, `The ${bars.length} largest blocks that were live in the visible part of the timeline, largest first.`));
  const chart = chartAt(place, "lifetimes", "Lifetimes of the largest blocks as bars");
  chart.getDom().style.height = `${Math.max(160, bars.length * 14 + 60)}px`;
  chart.resize();
  const ink = inkOf(place);
  chart.setOption({
    animation: false,
    grid: { left: 90, right: 20, top: 8, bottom: 30 },
    tooltip: { confine: true, formatter: (p) => {
      const b = bars[p.dataIndex];
      return `${size(data.blocks.sizeOf(b.block))} ${context.titles.categories[data.blocks.category[b.block]]}<br>${escapeHtml(stackName(data, data.blocks.stack[b.block]))}<br>` +
        `${time(data.times[b.from])} to ${time(data.times[b.to])}`;
    } },
    xAxis: { type: "value", min: data.times[first], max: data.times[last], axisLabel: { color: ink, formatter: (v) => time(v) }, splitLine: { show: false } },
    yAxis: { type: "category", inverse: true, data: bars.map((b) => size(data.blocks.sizeOf(b.block))), axisLabel: { color: ink } },
    series: [{ type: "custom", clip: true, data: bars.map((b, i) => [i, data.times[b.from], data.times[b.to]]), encode: { x: [1, 2], y: 0 },
      renderItem: (params, api) => {
        const start = api.coord([api.value(1), api.value(0)]);
        const end = api.coord([api.value(2), api.value(0)]);
        const b = bars[params.dataIndex];
        const found = isFound(context, data.blocks.stack[b.block], data.blocks.sizeOf(b.block));
        return { type: "rect", shape: { x: start[0], y: start[1] - 5, width: Math.max(1, end[0] - start[0]), height: 10 },
          style: { fill: found ? "#e600e6" : colourOf(data.blocks.category[b.block]) } };
      } }],
  });
}

export const VIEWS = [
  { id: "stacks", title: "Stacks", show: showStacks },
  { id: "flame", title: "Flame graph", show: showFlame },
  { id: "treemap", title: "Treemap", show: showTreemap },
  { id: "segments", title: "Segments and holes", show: showSegments },
  { id: "lifetimes", title: "Lifetimes", show: showLifetimes },
];

export function momentOf(data, event) {
  const live = liveBlocks(data, event);
  return { live, groups: groupByStack(data, live), bytes: sumBytes(data, live) };
}
