// Live blocks as trees: the calls of the flame graph, and category, module and stack of the treemap.

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
  const row = data.tables.stacks[stack];
  if (!row.frames.length) return [stackName(data, stack)];
  return row.frames.map((i) => frameName(data.tables.frames[i])).reverse();
}

export function flameTree(data, groups) {
  const root = { name: "all", value: 0, children: [], index: new Map() };
  for (const group of groups) {
    const path = framesOf(data, group.stack);
    if (group.backward) path.push("backward of it");
    let node = root;
    node.value += group.bytes;
    for (const name of path) {
      let child = node.index.get(name);
      if (!child) {
        node.index.set(name, (child = { name, value: 0, children: [], index: new Map() }));
        node.children.push(child);
      }
      child.value += group.bytes;
      node = child;
    }
  }
  return root;
}

const MOST_BLOCKS = 200; // rectangles of one stack; the others are one

function blockLeaves(data, group) {
  const sorted = group.list.slice().sort((a, b) => data.blocks.sizeOf(b) - data.blocks.sizeOf(a));
  const leaves = sorted.slice(0, MOST_BLOCKS).map((i) => ({ name: `block ${i}`, value: data.blocks.sizeOf(i) }));
  const rest = sorted.slice(MOST_BLOCKS).reduce((sum, i) => sum + data.blocks.sizeOf(i), 0);
  if (rest) leaves.push({ name: `${sorted.length - MOST_BLOCKS} smaller blocks`, value: rest });
  return leaves;
}

// Category, module (or the place of the call), blocks.
export function treemapTree(data, groups, titles) {
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
      const node = { name, value: 0, children: [] };
      category.modules.set(name, node);
      category.children.push(node);
    }
    const module = category.modules.get(name);
    module.children.push(...blockLeaves(data, group));
    for (const node of [root, category, module]) node.value += group.bytes;
  }
  return root;
}

// Does a stack match what someone looks for: a function, a file, a module, or a size like ">1GiB"?
export function matcher(text) {
  const wanted = text.trim().toLowerCase();
  const size = /^([<>]=?)?\s*([\d.]+)\s*([kmgt]?)(i?)b?$/.exec(wanted);
  if (!wanted) return null;
  if (size && (size[1] || size[3])) {
    const unit = (size[4] || !size[3] ? 1024 : 1000) ** " kmgt".indexOf(size[3] || " ");
    const limit = Number(size[2]) * unit;
    return { size: (n) => (size[1] && size[1][0] === "<" ? n <= limit : n >= limit) };
  }
  return { text: (t) => t.toLowerCase().includes(wanted) };
}

export function stackMatches(data, match, stack) {
  const row = data.tables.stacks[stack];
  if (match.text(row.label) || match.text(row.module) || match.text(row.library)) return true;
  return row.frames.some((i) => match.text(`${data.tables.frames[i][0]} ${data.tables.frames[i][1]}`));
}
