// Live blocks as trees: the calls of the flame graph, and category, module and stack of the treemap.
import { count } from "./format.js";

export function frameName(frame) {
  const [name, file, line] = frame;
  return file ? `${name || "?"} ${file.split("/").pop()}:${line}` : name || "?";
}

export function stackName(data, stack) {
  const row = data.tables.stacks[stack];
  if (row.label) return row.label;
  return row.library ? `(no Python stack) ${row.library.split("/").pop()}` : "(no stack)";
}

// Frames outermost first; what has none is under its library.
export function framesOf(data, stack) {
  return pathOf(data, stack).map(({ name }) => name);
}

// The same, each with its number in the table of frames; -1: it is none of them.
function pathOf(data, stack) {
  const row = data.tables.stacks[stack];
  if (!row.frames.length) return [{ name: stackName(data, stack), frame: -1 }];
  const path = row.frames.map((i) => ({ name: frameName(data.tables.frames[i]), frame: i })).reverse();
  return row.left_out ? [{ name: `(${count(row.left_out)} outer frames are left out)`, frame: -1 }, ...path] : path;
}

function childOf(node, name) {
  let child = node.index.get(name);
  if (!child) {
    node.index.set(name, (child = { name, value: 0, children: [], index: new Map(), found: false }));
    node.children.push(child);
  }
  return child;
}

// `search`: of search.js. Of a stack with blocks that are found, the frames that are asked for are marked, and if it is none of them, the last one.
export function flameTree(data, groups, search = null) {
  const root = { name: "all", value: 0, children: [], index: new Map(), found: false };
  for (const group of groups) {
    const path = pathOf(data, group.stack);
    if (group.backward) path.push({ name: "backward of it", frame: -1 });
    const isFound = search !== null && search.any(group.list);
    const isFrame = isFound && path.some(({ frame }) => search.frame(frame));
    let node = root;
    node.value += group.bytes;
    for (const { name, frame } of path) {
      node = childOf(node, name);
      node.value += group.bytes;
      if (isFrame && search.frame(frame)) node.found = true;
    }
    if (isFound && !isFrame) node.found = true;
  }
  return root;
}

const MOST_BLOCKS = 200; // rectangles of one stack; the others are one

function blockLeaves(data, group, search) {
  const sorted = group.list.slice().sort((a, b) => data.blocks.sizeOf(b) - data.blocks.sizeOf(a));
  const isFound = (list) => search !== null && search.any(list);
  const leaves = sorted.slice(0, MOST_BLOCKS).map((i) => ({ name: `block ${i}`, value: data.blocks.sizeOf(i), found: isFound([i]) }));
  const others = sorted.slice(MOST_BLOCKS);
  const rest = others.reduce((sum, i) => sum + data.blocks.sizeOf(i), 0);
  if (rest) leaves.push({ name: `${others.length} smaller blocks`, value: rest, found: isFound(others) });
  return leaves;
}

// Category, module (or the place of the call), blocks; `found`: blocks that are searched are in it.
export function treemapTree(data, groups, titles, search = null) {
  const root = { name: "all", value: 0, children: [] };
  const categories = new Map();
  for (const group of groups) {
    if (!categories.has(group.category)) {
      const node = { name: titles[group.category], category: group.category, value: 0, children: [], modules: new Map() };
      categories.set(group.category, node);
      root.children.push(node);
    }
    const category = categories.get(group.category);
    const row = data.tables.stacks[group.stack];
    const name = (row.module || stackName(data, group.stack)) + (group.backward ? " (backward)" : "");
    if (!category.modules.has(name)) {
      const node = { name, value: 0, children: [], found: false };
      category.modules.set(name, node);
      category.children.push(node);
    }
    const module = category.modules.get(name);
    const leaves = blockLeaves(data, group, search);
    module.children.push(...leaves);
    module.found = module.found || leaves.some((leaf) => leaf.found);
    for (const node of [root, category, module]) node.value += group.bytes;
  }
  return root;
}
