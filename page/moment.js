// What was live at a moment of a trace, and the difference between two. A moment is an event: the state behind it.
import { NEVER } from "./decode.js";
import { shownStack } from "./search.js";

export function liveBlocks(data, event) {
  const { born, gone, count } = data.blocks;
  const live = [];
  // Blocks are in the order in which they were allocated.
  for (let i = 0; i < count && born[i] <= event; i++) if (gone[i] > event) live.push(i);
  return live;
}

export function sumBytes(data, blocks) {
  let sum = 0;
  for (const i of blocks) sum += data.blocks.sizeOf(i);
  return sum;
}

// Blocks by stack and category, the largest first.
export function groupByStack(data, blocks) {
  const groups = new Map();
  for (const i of blocks) {
    const stack = shownStack(data.blocks, i);
    const backward = data.blocks.place[i] >= 0;
    const key = (stack * 2 + (backward ? 1 : 0)) * 64 + data.blocks.category[i];
    let group = groups.get(key);
    if (!group) groups.set(key, (group = { stack, backward, category: data.blocks.category[i], bytes: 0, blocks: 0, list: [] }));
    group.bytes += data.blocks.sizeOf(i);
    group.blocks++;
    group.list.push(i);
  }
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes);
}

// What the second moment has that the first has not, and the other way round.
export function difference(data, first, second) {
  const [early, late] = first < second ? [first, second] : [second, first];
  const { born, gone, count } = data.blocks;
  const came = [];
  const went = [];
  for (let i = 0; i < count && born[i] <= late; i++) {
    const before = born[i] <= early && gone[i] > early;
    const after = gone[i] > late;
    if (after && !before) came.push(i);
    if (before && !after) went.push(i);
  }
  return first < second ? { came, went } : { came: went, went: came };
}

// Segments that the allocator holds, each with its live blocks and the holes between them. Ranges that are mapped side by side are one.
export function segmentsAt(data, event) {
  const live = data.segments.filter((s) => s.born <= event && s.gone > event).sort((a, b) => a.address - b.address);
  const merged = [];
  for (const s of live) {
    const last = merged[merged.length - 1];
    if (last && last.address + last.size === s.address) last.size += s.size;
    else merged.push({ address: s.address, size: s.size, blocks: [], used: 0, largestHole: 0 });
  }
  const blocks = liveBlocks(data, event).sort((a, b) => data.blocks.addressOf(a) - data.blocks.addressOf(b));
  let k = 0;
  for (const segment of merged) {
    const end = segment.address + segment.size;
    while (k < blocks.length && data.blocks.addressOf(blocks[k]) < segment.address) k++;
    let at = segment.address;
    for (; k < blocks.length && data.blocks.addressOf(blocks[k]) < end; k++) {
      const start = data.blocks.addressOf(blocks[k]);
      segment.largestHole = Math.max(segment.largestHole, start - at);
      segment.blocks.push(blocks[k]);
      segment.used += data.blocks.sizeOf(blocks[k]);
      at = start + data.blocks.sizeOf(blocks[k]);
    }
    segment.largestHole = Math.max(segment.largestHole, end - at);
  }
  return merged;
}

// The largest blocks of those that are live between two events, largest first; at most `most`.
export function largestLifetimes(data, first, last, most) {
  const { blocks } = data;
  const { born, gone, count } = blocks;
  const found = [];
  let limit = 0;
  const prune = () => {
    found.sort((a, b) => blocks.sizeOf(b) - blocks.sizeOf(a));
    found.length = Math.min(found.length, most);
    if (found.length === most) limit = blocks.sizeOf(found[most - 1]);
  };
  for (let i = 0; i < count && born[i] <= last; i++) {
    if (gone[i] <= first || blocks.sizeOf(i) <= limit) continue;
    found.push(i);
    if (found.length >= 8 * most) prune();
  }
  prune();
  return found.map((i) => ({ block: i, from: born[i], to: gone[i], isLive: gone[i] === NEVER }));
}

// The last event at a time in milliseconds or before it; the first one of all if every event is later.
export function eventAtTime(data, time) {
  let low = 0;
  let high = data.events;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
