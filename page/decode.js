// The columns of a page (analyzer/html/stream_write.c writes them) as typed arrays.
import { Blocks } from "./blocks.js";
import { Column, OTHER, PREDICTED, Predicted, contextOf, valuesOf } from "./columns.js";
import { visible } from "./format.js";
import { HelperLost, help, helpersFor } from "./helpers.js";

export const EVENT = { ALLOC: 1, FREE: 2, SEGMENT: 3, SEGMENT_END: 4, LEVELS: 5, FAILURE: 6, GAP: 7 };
export const NEVER = 0xffffffff;
const FINE_UNIT = 1000; // nanoseconds: a microsecond

export function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export async function inflate(base64) {
  const stream = new Blob([bytesOfBase64(base64)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export function jsonOf(bytes) {
  return JSON.parse(visible(new TextDecoder().decode(bytes)));
}

// Milliseconds of each event, and the longest time between two; `unit`: nanoseconds of the page's clock. Of events that are in one unit of
// a coarse clock only the order is known: they are spread over it.
export function decodeTimes(bytes, unit) {
  const times = valuesOf(bytes);
  const { length } = times;
  let pause = 0;
  for (let i = 1; i < length; i++) if (times[i] > pause) pause = times[i];
  let now = 0;
  for (let i = 0; i < length; ) {
    now += times[i];
    let end = i + 1;
    while (end < length && times[end] === 0) end++;
    const step = unit > FINE_UNIT ? 1 / (end - i) : 0;
    for (let k = 0; i < end; i++, k++) times[i] = ((now + k * step) * unit) / 1e6;
  }
  return { times, longestPause: (pause * unit) / 1e6 };
}

function emptyBlocks(parts, count, places) {
  return {
    count,
    stack: new Int32Array(count),
    sizeNumber: new Int32Array(count),
    sizes: valuesOf(parts.sizes),
    addressNumber: new Int32Array(count),
    addresses: valuesOf(parts.addresses),
    category: new Uint8Array(count),
    place: new Int32Array(places), // a stack of the forward pass; -1: none
    born: new Uint32Array(count),
    gone: new Uint32Array(count).fill(NEVER),
  };
}

// Blocks, and the block of each event: the one that is allocated or freed; -1: none. One loop with all of its state in local variables: it
// runs for millions of events, and takes half the time of calls. `bySlot`: frees name the block by its slot among the live ones.
export function decodeBlocks(parts, count, bySlot) {
  const { kinds } = parts;
  const { ALLOC, FREE } = EVENT;
  const [stack, size, address, category, place, gone] = ["stack", "size", "address", "category", "place", "gone"].map((name) => new Predicted(parts[name]));
  const { codes: stackCodes, table: stackTable, read: readStack } = stack;
  const { codes: sizeCodes, table: sizeTable, read: readSize } = size;
  const { codes: addressCodes, table: addressTable, read: readAddress } = address;
  const hasPlaces = place.length > 0;
  const blocks = emptyBlocks(parts, count, place.length);
  const { stack: stacks, sizeNumber, addressNumber, category: categories, place: places, born: births, gone: ends } = blocks;
  const subject = new Int32Array(kinds.length);
  const live = new Int32Array(bySlot ? count : 0);
  let lives = 0;
  let born = 0;
  let frees = 0;
  let freed = 0; // the block that was freed last; if there is none, no code refers to it
  let s = 0; // stack, and numbers of size and address, of the last block
  let n = 0;
  let a = 0;
  let named = 0; // a distance or a slot
  let ago = 0;
  for (let i = 0; i < kinds.length; i++) {
    const kind = kinds[i];
    if (kind === ALLOC) {
      // What takes the place of the block that was freed last is often alike.
      let context = contextOf(s, n);
      let code = stackCodes[born];
      s = stackTable[context] = code === PREDICTED ? stackTable[context] : code === OTHER ? stacks[freed] : readStack(code);
      context = contextOf(s, n);
      code = sizeCodes[born];
      n = sizeTable[context] = code === PREDICTED ? sizeTable[context] : code === OTHER ? sizeNumber[freed] : readSize(code);
      context = contextOf(s, a);
      code = addressCodes[born];
      a = addressTable[context] = code === PREDICTED ? addressTable[context] : code === OTHER ? addressNumber[freed] : readAddress(code);
      context = contextOf(s, n);
      stacks[born] = s;
      sizeNumber[born] = n;
      addressNumber[born] = a;
      categories[born] = category.get(born, context, 0);
      if (hasPlaces) places[born] = place.get(born, context, 0) - 1;
      births[born] = i;
      if (bySlot) live[lives++] = born;
      subject[i] = born++;
    } else if (kind === FREE) {
      const earlier = named;
      named = gone.get(frees++, contextOf(earlier, ago), 0);
      ago = earlier;
      freed = bySlot ? live[named] : born - 1 - named;
      if (bySlot) live[named] = live[--lives];
      ends[freed] = i;
      subject[i] = freed;
    } else {
      subject[i] = -1;
    }
  }
  return { blocks, subject, kinds };
}

// The events of a kind, at most `most`.
export function eventsOf(kinds, kind, most = Infinity) {
  const found = [];
  for (let i = kinds.indexOf(kind); i >= 0 && found.length < most; i = kinds.indexOf(kind, i + 1)) found.push(i);
  return found;
}

// The allocator's segments, with the events that begin and end them.
function decodeSegments(parts, kinds) {
  const column = new Column(parts.segments);
  const ended = new Column(parts.ended);
  const list = eventsOf(kinds, EVENT.SEGMENT).map((i) => ({ address: column.next(), size: column.next(), stack: column.next(), born: i, gone: NEVER }));
  for (const i of eventsOf(kinds, EVENT.SEGMENT_END)) list[ended.next()].gone = i;
  return list;
}

// Changes of levels: of `reserved` (series 0) and of each owner (1 and on).
function decodeLevels(parts) {
  return { at: valuesOf(parts.level_at, Uint32Array), series: valuesOf(parts.level_of, Uint8Array), level: valuesOf(parts.level) };
}

const EARLY = ["kinds", "stack", "size", "sizes"];
const LATE = ["gone", "address", "addresses", "category", "place"];
const OTHERS = ["segments", "ended", "level_at", "level_of", "level", "tables"];

// `blob(id)` gives the base64 text of an element. If a helper dies, the page does the work itself.
export async function decodeStream(described, categories, blob) {
  try {
    return await decodeWith(await helpersFor(described.events), described, categories, blob);
  } catch (error) {
    if (!(error instanceof HelperLost)) throw error;
    return decodeWith([], described, categories, blob);
  }
}

// Two helpers share the work: one decodes the blocks, the other the times.
async function decodeWith([first, second], described, categories, blob) {
  const texts = (names) => Object.fromEntries(names.map((name) => [name, blob(described[name])]));
  const early = help(first, "inflate", texts(EARLY));
  const late = help(second, "inflate", texts(LATE));
  const all = Promise.all([early, late]).then(([a, b]) =>
    help(first, "blocks", { parts: { ...a, ...b }, count: described.blocks, bySlot: described.by_slot, categories }));
  const timed = help(second, "times", { text: blob(described.time), unit: described.unit_ns });
  const [{ blocks, subject, summary, kinds }, times, others] = await Promise.all([all, timed, inflateAll(texts(OTHERS))]);
  return {
    events: kinds.length,
    kinds,
    subject,
    summary,
    blocks: new Blocks(blocks),
    ...times,
    segments: decodeSegments(others, kinds),
    levels: decodeLevels(others),
    tables: jsonOf(others.tables),
    entry: described.entry,
  };
}

export async function inflateAll(texts) {
  const names = Object.keys(texts);
  const inflated = await Promise.all(names.map((name) => inflate(texts[name])));
  return Object.fromEntries(names.map((name, i) => [name, inflated[i]]));
}
