// What someone looks for lights up in every view: a view asks about the blocks of what it draws.

export const FOUND_COLOUR = "#9246fe";

// What a text asks for: a function, a file, a module; or a size like ">1GiB". Null: nothing.
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

// The stack that a block is shown under: of the backward pass, that of its place in the forward pass.
export function shownStack({ stack, place }, block) {
  return place[block] >= 0 ? place[block] : stack[block];
}

// `block(i)`: is it found? `frame(i)`: is its function or its file, of the tables? `count`, `bytes`: of a list of blocks. Null: nothing is looked for.
export function searchOf(text, { blocks, tables }) {
  const match = matcher(text);
  if (!match) return null;
  const frames = tables.frames.map(([name, file]) => Boolean(match.text?.(`${name} ${file}`)));
  const stacks = tables.stacks.map((row) => [row.label, row.module, row.library].some((t) => match.text?.(t)) || row.frames.some((i) => frames[i]));
  const sizes = match.size && Uint8Array.from(blocks.sizes, (n) => (match.size(n) ? 1 : 0));
  const block = sizes ? (i) => sizes[blocks.sizeNumber[i]] === 1 : (i) => stacks[shownStack(blocks, i)];
  return { text: text.trim(), block, frame: (i) => frames[i], any: (list) => list.some(block) };
}

// Is a place of a record found? It is not known of which sizes its blocks are: its own bytes count.
export function isPlaceFound(text, place) {
  const match = matcher(text);
  if (!match) return false;
  return match.size ? match.size(place.bytes) : [place.stack, place.frame, place.module || ""].some(match.text);
}
