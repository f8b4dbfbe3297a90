// Unit tests of the page's modules, without a browser: node --test tests/page/test_*.mjs
import test from "node:test";
import assert from "node:assert";
import { load } from "./modules.mjs";

const { Column, Predicted } = await load("columns.js");
const { decodeBlocks, decodeTimes, NEVER } = await load("decode.js");
const { Blocks } = await load("blocks.js");
const { BlockCurves, ListedCurves, blockChanges, reduce } = await load("curves.js");
const { liveBlocks, difference, segmentsAt, largestLifetimes, eventAtTime } = await load("moment.js");
const { flameTree, treemapTree } = await load("trees.js");
const { matcher } = await load("search.js");
const { summaryOf } = await load("summary.js");
const { stepKnots, StepAxis, axisOf } = await load("axis.js");
const { size, time } = await load("format.js");
const { legendOf } = await load("timeline.js");
const { marksOf } = await load("marks.js");
const { seatText, layoutOf, neighbour } = await load("ranks.js");

// A column of codes and planes, as analyzer/html/columns.c writes it.
function column(codes, ...planes) {
  const lists = [codes, ...planes, ...Array(8 - planes.length).fill([])];
  const bytes = new Uint8Array(36 + lists.flat().length);
  lists.forEach((list, i) => new DataView(bytes.buffer).setUint32(4 * i, list.length, true));
  bytes.set(lists.flat(), 36);
  return bytes;
}

test("numbers of a column: values, changes, predictions", () => {
  const c = new Column(column([3, 4, 12, 12, 11, 9], [5, 128, 3, 4, 0xff], [1, 0xff], [0xff], [0xff], [0xff], [0xff], [0x1f]));
  assert.deepEqual([...Array(6)].map(() => c.next()), [5, 384, 382, 384, 384, 2 ** 53 - 1]);
  const p = new Predicted(column([3, 0, 1, 0, 6, 5], [7, 1, 1], [2, 2], [3, 3], [4]));
  assert.deepEqual([0, 1, 2, 3, 4, 5].map((i) => p.get(i, 1, 9)), [7, 7, 9, 9, 0x4030201, 0x30201]);
});

test("blocks and their frees, by distance and by slot; the summary of their bytes", () => {
  const zeros = column([0, 0, 0, 0]);
  const common = { kinds: Uint8Array.from([1, 1, 1, 2, 1, 6, 2]), stack: zeros, sizes: column([3, 3], [10, 30]), addresses: column([3], [100]), address: zeros,
    category: zeros, place: column([]), size: column([2, 2, 3, 2], [1]) };
  for (const [bySlot, gone] of [[false, column([3, 3], [2, 1])], [true, column([0, 0])]]) {
    const decoded = decodeBlocks({ ...common, gone }, 4, bySlot);
    assert.deepEqual([...decoded.subject], [0, 1, 2, 0, 3, -1, 2]);
    assert.deepEqual([...decoded.blocks.gone], [3, NEVER, 6, NEVER]);
    const curves = new BlockCurves(["a"], { ...decoded, events: 7, blocks: new Blocks(decoded.blocks), summary: summaryOf(7, 1, blockChanges(decoded)) });
    assert.deepEqual([0, 1, 2, 3, 4, 5, 6].map((i) => curves.totalAt(i)), [10, 20, 50, 40, 50, 50, 20]);
    assert.equal(curves.peak(), 2);
    assert.deepEqual(curves.extremes(3, 6), { least: 6, lowest: 20, most: 4, highest: 50 });
  }
});

test("times: of a coarse clock, the events of one unit are spread over it", () => {
  const deltas = column([3, 2, 2, 3, 3], [5, 1, 3]);
  assert.deepEqual([...decodeTimes(deltas, 1).times], [5, 5, 5, 6, 9].map((t) => t / 1e6));
  const { times, longestPause } = decodeTimes(deltas, 1e6);
  assert.deepEqual([...times].map((t) => Math.round(t * 3)), [15, 16, 17, 18, 27]);
  assert.equal(longestPause, 3);
});

test("a spike of one event survives the reduction", () => {
  const events = 100000;
  const delta = new Float64Array(events).fill(0);
  for (let i = 0; i < events; i++) delta[i] = i % 2 ? -1 : 1;
  delta[70000] += 5e9;
  delta[70001] -= 5e9;
  const curves = new ListedCurves(["a"], new Uint8Array(events), delta);
  const points = reduce(curves, 0, events - 1, 500, (pixel) => Math.floor((pixel * events) / 500));
  assert.ok(points.length <= 3 * 500 + 1);
  assert.equal(Math.max(...points.map((i) => curves.totalAt(i))), curves.totalAt(70000));
  assert.deepEqual(points, [...points].sort((a, b) => a - b));
  assert.equal(curves.peak(), 70000);
});

test("levels of several series, across chunks", () => {
  const n = 5000;
  const series = Uint8Array.from({ length: n }, (_, i) => i % 3);
  const delta = Float64Array.from({ length: n }, (_, i) => i);
  const curves = new ListedCurves(["a", "b", "c"], series, delta);
  const wanted = [0, 0, 0];
  for (let i = 0; i <= 3333; i++) wanted[i % 3] += i;
  assert.deepEqual([...curves.levels(3333)], wanted);
  assert.deepEqual([...curves.levels(-1)], [0, 0, 0]);
});

const data = {
  events: 6,
  blocks: new Blocks({ count: 3, born: [1, 2, 4], gone: [3, 0xffffffff, 0xffffffff], sizeNumber: [0, 1, 2], sizes: [10, 20, 30], addressNumber: [0, 1, 2],
    addresses: [100, 120, 150], category: [0, 0, 1], stack: [0, 1, 1], place: [-1, -1, 0] }),
  segments: [{ address: 100, size: 50, born: 0, gone: 9 }, { address: 150, size: 50, born: 0, gone: 9 }],
  tables: { frames: [["f", "/a/b.py", 3], ["main", "/a/c.py", 4]], stacks: [{ frames: [0, 1], label: "f  b.py:3", module: "M.N", library: "l" },
    { frames: [], label: "", module: "", library: "/x/libc10.so" }] },
};

test("live blocks and differences", () => {
  assert.deepEqual(liveBlocks(data, 2), [0, 1]);
  assert.deepEqual(liveBlocks(data, 3), [1]);
  assert.deepEqual(difference(data, 2, 5), { came: [2], went: [0] });
  assert.deepEqual(difference(data, 5, 2), { came: [0], went: [2] });
});

test("segments that are mapped side by side are one, with holes", () => {
  const [segment, ...more] = segmentsAt(data, 5);
  assert.equal(more.length, 0);
  assert.deepEqual([segment.size, segment.used, segment.largestHole], [100, 50, 20]);
});

test("lifetimes: the largest in a range", () => {
  assert.deepEqual(largestLifetimes(data, 3, 5, 2).map((l) => l.block), [2, 1]);
});

test("the event at a time: the last one until then", () => {
  const trace = { events: 4, times: [5, 10, 10, 30] };
  assert.deepEqual([0, 5, 9.9, 10, 29, 30, 99].map((t) => eventAtTime(trace, t)), [0, 0, 0, 2, 2, 3, 3]);
});

test("trees add up", () => {
  const groups = [{ stack: 0, backward: false, category: 0, bytes: 10, list: [0] }, { stack: 1, backward: false, category: 1, bytes: 50, list: [1, 2] }];
  assert.equal(flameTree(data, groups).value, 60);
  assert.deepEqual(flameTree(data, groups).children.map((c) => c.name), ["main c.py:4", "(no Python stack) libc10.so"]);
  assert.equal(treemapTree(data, groups, ["parameters", "buffers"]).value, 60);
});

test("sizes as the report writes them", () => {
  assert.deepEqual([0, 1023, 1024, 1023.96 * 2 ** 20, 2 ** 31, null].map(size), ["0 B", "1023 B", "1.0 KiB", "1.0 GiB", "2.0 GiB", "unknown"]);
});

test("searches", () => {
  assert.ok(matcher(">1MiB").size(2 ** 20));
  assert.ok(!matcher(">1MiB").size(2 ** 20 - 1));
  assert.ok(matcher("linear").text("GPT.Linear"));
  assert.equal(matcher("  "), null);
});

test("seats of ranks", () => {
  const seat = (rank, tp, pp) => ({ rank, tp, pp, dp: 0 });
  const job = { layout: { tp: 2, dp: 1, pp: 2 }, seats: [seat(0, 0, 0), seat(1, 1, 0), seat(2, 0, 1)] };
  assert.deepEqual(layoutOf([0, 1, 2], job).map(({ x, y }) => [x, y]), [[0, 0], [1, 0], [0, 1]]);
  const wide = { layout: { tp: 1, pp: 3 }, seats: job.seats };
  assert.deepEqual(layoutOf([0, 1, 2], wide).map(({ x, y }) => [x, y]), [[0, 0], [0, 0], [1, 0]]);
  assert.equal(seatText(2, job), "tp 0, pp 1");
  const cells = layoutOf([0, 1, 2], job);
  assert.deepEqual(["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"].map((key) => neighbour(cells, 0, key)), [1, -1, 2, -1]);
  assert.deepEqual(["ArrowRight", "ArrowUp"].map((key) => neighbour(cells, 2, key)), [-1, 0]);
  assert.deepEqual(layoutOf([0, 33], null).map(({ x, y }) => [x, y]), [[0, 0], [1, 0]]);
});

test("an axis of steps: each step has the same width, and what is before them too", () => {
  const job = { events: 7, times: [0, 5, 10, 20, 30, 70, 110] };
  const knots = stepKnots(job, [[0, 0, "startup"], [0.01, 3, "forward"], [0.02, 3, "backward"], [0.03, 4, "forward"], [0.02, 3, "late"]]);
  const axis = new StepAxis(job, knots);
  assert.deepEqual(axis.domain(), [2, 5]);
  assert.deepEqual([0, 1, 2, 3, 4].map((e) => axis.position(e)), [2, 2.5, 3, 3.5, 4]);
  for (let e = 0; e < 7; e++) assert.equal(axis.eventAt(axis.position(e) + 1e-9), e);
  assert.deepEqual(stepKnots(job, []), []);
  assert.equal(axisOf("step", job, []).constructor.name, "TimeAxis");
});

test("an axis of ten thousand steps is not walked through for each event", () => {
  const count = 10000;
  const trace = { events: 2, times: [0, count] };
  let looks = 0;
  const knots = new Proxy(Array.from({ length: count + 1 }, (_, i) => [2 * i, i + 5]), { get: (list, at) => { looks++; return list[at]; } });
  const axis = new StepAxis(trace, knots);
  for (const [time, step] of [[-2, 4], [0, 5], [1, 5.5], [9999, 5004.5], [10000, 5005], [20000, 10005], [20002, 10006]]) {
    looks = 0;
    assert.equal(axis.between(time, 0, 1), step);
    assert.equal(axis.between(step, 1, 0), time);
    assert.ok(looks < 100, `${looks} looks at ${time}`);
  }
});

test("on an axis of time or of steps, two events a nanosecond apart can be told apart, also of an hour", () => {
  const hour = 3600e3;
  for (const span of [5, 1000, hour]) {
    const trace = { events: 4, times: [0, span / 2, span / 2 + 1e-6, span] };
    for (const knots of [[], stepKnots(trace, [[0.001, 1, "forward"], [0.004, 2, "forward"]])]) {
      const axis = axisOf(knots.length ? "step" : "time", trace, knots);
      const [first, last] = axis.domain();
      const shown = (last - first) / axis.deepest([first, last]);
      const pixels = ((axis.position(2) - axis.position(1)) / shown) * 1000; // of a drawing with a thousand
      assert.ok(pixels >= 10, `${axis.constructor.name} of ${span} ms: ${pixels} pixels`);
      assert.ok(last * (1000 / shown) < 2 ** 53 / 8, "a pixel is an eighth");
    }
  }
});

test("the legend of two timelines has the bands of both, each once", () => {
  const bands = (names, colours, used) => ({ names, colours, used });
  const a = bands(["parameters", "gradients"], [0, 1], [1, 0]);
  assert.deepEqual(legendOf([a, bands(["parameters", "gradients"], [0, 1], [1, 1])]), [["parameters", 0], ["gradients", 1]]);
  assert.deepEqual(legendOf([bands(["all of them"], [10], [1]), a]), [["parameters", 0], ["all of them", 10]]);
});

test("moments that the job names are marked; many of them only where there is room", () => {
  const trace = { events: 4, times: Float64Array.from([0, 10, 20, 30]), kinds: new Uint8Array(4) };
  const category = { peak: () => 2, eventOf: (i) => i, totalAt: () => 2 ** 20 };
  const moments = (n) => Array.from({ length: n }, (_, i) => ({ name: `model ${i}`, time_s: 0.015 }));
  const few = marksOf(trace, category, { moments: moments(2), phase_starts: [[0, 1, "forward"]] });
  assert.deepEqual(few.map((m) => [m.event, m.text, m.weight || 0]), [[2, "peak 1.0 MiB", 2], [1, "model 0", 1], [1, "model 1", 1], [0, "step 1, forward", 0]]);
  assert.deepEqual(marksOf(trace, category, { moments: moments(1000) }).slice(1).map((m) => m.weight), Array(200).fill(0));
  assert.equal(marksOf(trace, category, {}).length, 1);
});

test("times of an axis have the digits that tell them apart", () => {
  assert.deepEqual([time(51), time(51.0004, 1e-4), time(1234.5), time(1234.5678, 0.001), time(0.5, 0.1), time(0.50004, 1e-5)],
    ["51.000 ms", "51.0004 ms", "1.234 s", "1.234568 s", "500.0 µs", "500.04 µs"]);
});
