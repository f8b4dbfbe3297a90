// A search lights up in every view: the blocks that are found, and what the views make of them.
import test from "node:test";
import assert from "node:assert";
import { load } from "./modules.mjs";

const { searchOf, isPlaceFound } = await load("search.js");
const { Blocks } = await load("blocks.js");
const { BlockCurves } = await load("curves.js");
const { groupByStack, difference } = await load("moment.js");
const { jsonOf } = await load("decode.js");
const { flameTree, framesOf, treemapTree } = await load("trees.js");

// Four blocks: of f and main; of g and main; of a library; of the backward pass, whose place is the stack of g.
const data = {
  events: 5,
  kinds: Uint8Array.from([1, 1, 1, 1, 2]),
  subject: Int32Array.from([0, 1, 2, 3, 1]),
  blocks: new Blocks({ count: 4, born: [0, 1, 2, 3], gone: [9, 4, 9, 9], sizeNumber: [0, 1, 2, 0], sizes: [10, 2048, 30], addressNumber: [0, 1, 2, 3],
    addresses: [100, 120, 150, 200], category: [0, 1, 1, 2], stack: [0, 1, 2, 2], place: [-1, -1, -1, 1] }),
  tables: { frames: [["f", "/torch/nn/linear.py", 3], ["main", "/a/c.py", 4], ["g", "/a/d.py", 5]],
    stacks: [{ frames: [0, 1], label: "f  linear.py:3", module: "GPT.Linear", library: "" }, { frames: [2, 1], label: "g  d.py:5", module: "", library: "" },
      { frames: [], label: "", module: "", library: "/x/libcublas.so" }] },
};
const found = (text) => [0, 1, 2, 3].filter(searchOf(text, data).block);

test("blocks by function, file, module, library and size", () => {
  assert.deepEqual(["main", "nn/linear.py", "gpt.linear", "cublas", "g", ">1KiB", "<10"].map(found), [[0, 1, 3], [0], [0], [2], [0, 1, 3], [1], [0, 3]]);
  assert.deepEqual(found("d.py"), [1, 3]);
  assert.equal(searchOf(" ", data), null);
});

test("the curve of what is found", () => {
  const curves = new BlockCurves(["a", "b", "c"], { ...data, summary: null }, searchOf("d.py", data).block);
  assert.deepEqual([0, 1, 2, 3, 4].map((i) => curves.totalAt(i)), [0, 2048, 2048, 2058, 10]);
  assert.equal(curves.peak(), 3);
});

test("frames of a flame graph: those that are asked for, or the last one of a stack that is", () => {
  const marked = (text) => {
    const names = [];
    const visit = (node) => { if (node.found) names.push(node.name); node.children.forEach(visit); };
    visit(flameTree(data, groupByStack(data, [0, 1, 2, 3]), searchOf(text, data)));
    return names.sort();
  };
  assert.deepEqual(marked("main"), ["main c.py:4"]);
  assert.deepEqual(marked("d.py"), ["g d.py:5"]);
  assert.deepEqual(marked("gpt.linear"), ["f linear.py:3"]);
  assert.deepEqual(marked("cublas"), ["(no Python stack) libcublas.so"]);
  assert.deepEqual(marked(">1KiB"), ["g d.py:5"]);
  assert.deepEqual(marked("nowhere"), []);
});

test("modules and blocks of a treemap", () => {
  const tree = treemapTree(data, groupByStack(data, [0, 1, 2, 3]), ["a", "b", "c"], searchOf(">1KiB", data));
  const modules = tree.children.flatMap((c) => c.children);
  assert.deepEqual(modules.filter((m) => m.found).map((m) => m.name), ["g  d.py:5"]);
  assert.deepEqual(modules.flatMap((m) => m.children).filter((b) => b.found).map((b) => [b.name, b.value]), [["block 1", 2048]]);
});

test("frames that are left out are said to be, outermost", () => {
  const tables = { frames: data.tables.frames, stacks: [{ ...data.tables.stacks[0], left_out: 1234 }] };
  assert.deepEqual(framesOf({ ...data, tables }, 0), ["(1,234 outer frames are left out)", "main c.py:4", "f linear.py:3"]);
});

test("characters that cannot be seen, or turn a text around, are their numbers", () => {
  const bytes = new TextEncoder().encode(JSON.stringify(["a\u2028b\\", "\u202eright\u2066", "\u061c\u200f\u00e9", 5]));
  assert.deepEqual(jsonOf(bytes), ["a\\u2028b\\", "\\u202eright\\u2066", "\\u061c\\u200f\u00e9", 5]);
});

test("places of a record", () => {
  const place = { stack: "main c.py:4;f linear.py:3", frame: "f  linear.py:3", module: null, bytes: 4096 };
  assert.deepEqual(["linear.py", ">4KiB", ">5KiB", "g", ""].map((text) => isPlaceFound(text, place)), [true, true, false, false, false]);
});

test("two moments: what came and what went is that of each view", () => {
  const { came, went } = difference(data, 1, 4);
  assert.deepEqual([came, went], [[2, 3], [1]]);
  assert.equal(flameTree(data, groupByStack(data, came)).value, 40);
  assert.equal(treemapTree(data, groupByStack(data, went), ["a", "b", "c"]).value, 2048);
});
