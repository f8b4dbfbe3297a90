// Levels over a trace, exact at every event, and the least and most of a range without a walk over all of it.
import { EVENT } from "./decode.js";
import { CHUNK, summaryOf } from "./summary.js";

// Curves of changes, each of which is of one series: `changes` has `seriesOf(change)` and `deltaOf(change)`. A kind of curves has `eventOf` and
// `changeAt`.
class Curves {
  constructor(names, count, changes, summary = summaryOf(count, names.length, changes)) {
    this.names = names;
    this.colours = names.map((_, i) => i); // of palette.js
    this.count = count;
    this.changes = changes;
    this.summary = summary;
  }

  // Applies a change to levels. Returns by how much the total changes.
  add(change, levels) {
    const delta = this.changes.deltaOf(change);
    if (delta !== 0) levels[this.changes.seriesOf(change)] += delta;
    return delta;
  }

  // The levels before a chunk.
  start(chunk) {
    const width = this.names.length;
    return this.summary.before.slice(chunk * width, (chunk + 1) * width);
  }

  // The level of each series after a change.
  levels(change) {
    if (change < 0) return new Float64Array(this.names.length);
    const chunk = Math.floor(change / CHUNK);
    const now = this.start(chunk);
    for (let i = chunk * CHUNK; i <= change; i++) this.add(i, now);
    return now;
  }

  totalAt(change) {
    return sumOf(this.levels(change));
  }

  // The changes with the least and the most total among first … last, and these totals.
  extremes(first, last) {
    const { summary } = this;
    const found = { least: first, lowest: Infinity, most: first, highest: -Infinity };
    for (let chunk = Math.floor(first / CHUNK); chunk * CHUNK <= last; chunk++) {
      const begin = chunk * CHUNK;
      if (begin >= first && Math.min(begin + CHUNK, this.count) - 1 <= last)
        note(found, summary.least[chunk], summary.lowest[chunk], summary.most[chunk], summary.highest[chunk]);
      else this.walk(chunk, first, Math.min(last, begin + CHUNK - 1), found);
    }
    return found;
  }

  // The changes of a part of a chunk.
  walk(chunk, first, last, found) {
    const now = this.start(chunk);
    let total = sumOf(now);
    for (let i = chunk * CHUNK; i <= last; i++) {
      total += this.add(i, now);
      if (i >= first) note(found, i, total, i, total);
    }
  }

  // The change with the highest total, the first of them.
  peak() {
    return this.count ? this.extremes(0, this.count - 1).most : -1;
  }

  get used() {
    return this.summary.used;
  }
}

function sumOf(levels) {
  let all = 0;
  for (let k = 0; k < levels.length; k++) all += levels[k];
  return all;
}

function note(found, least, lowest, most, highest) {
  if (lowest < found.lowest) {
    found.least = least;
    found.lowest = lowest;
  }
  if (highest > found.highest) {
    found.most = most;
    found.highest = highest;
  }
}

// Changes that are listed. `at`: the event of each; null: change i is of event i.
export class ListedCurves extends Curves {
  constructor(names, series, delta, at = null) {
    super(names, series.length, { seriesOf: (i) => series[i], deltaOf: (i) => delta[i] });
    this.at = at;
  }

  eventOf(change) {
    return this.at ? this.at[change] : change;
  }

  // The last change at or before an event; -1: none.
  changeAt(event) {
    if (!this.at) return Math.min(event, this.count - 1);
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.at[middle] <= event) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

// What each event changes: the bytes of its block, in the block's category. `has(block)`: of these blocks only.
export function blockChanges({ blocks, subject, kinds }, has = null) {
  const { sizes, sizeNumber, category } = blocks;
  const { ALLOC } = EVENT;
  return {
    seriesOf: (event) => category[subject[event]],
    deltaOf: (event) => {
      const block = subject[event];
      if (block < 0 || (has && !has(block))) return 0;
      return kinds[event] === ALLOC ? sizes[sizeNumber[block]] : -sizes[sizeNumber[block]];
    },
  };
}

// What PyTorch's allocator gave to tensors, by category: each event is a change. The summary of all blocks is made while the events are decoded;
// `has(block)`: of these blocks only.
export class BlockCurves extends Curves {
  constructor(names, data, has = null) {
    super(names, data.events, blockChanges(data, has), has ? undefined : data.summary);
  }

  eventOf(change) {
    return change;
  }

  changeAt(event) {
    return Math.min(event, this.count - 1);
  }
}

// What each owner holds of the device, and what the caching allocator holds (`reserved`). Changes of one event are one moment: only the
// last of them is a point of the curve, so the others are moved to it as if they came at once.
// Without names: of none of them.
export function ownerCurves(data, names) {
  const { at, series, level } = data.levels;
  const keep = Uint32Array.from(at, (_, i) => i).filter((i) => series[i] > 0 && series[i] <= names.length);
  const now = new Float64Array(names.length);
  const delta = new Float64Array(keep.length);
  keep.forEach((i, k) => {
    delta[k] = level[i] - now[series[i] - 1];
    now[series[i] - 1] = level[i];
  });
  return new ListedCurves(names, Uint8Array.from(keep, (i) => series[i] - 1), delta, Uint32Array.from(keep, (i) => at[i]));
}

export function reservedCurve(data) {
  const { at, series, level } = data.levels;
  const keep = Uint32Array.from(at, (_, i) => i).filter((i) => series[i] === 0);
  let now = 0;
  const delta = Float64Array.from(keep, (i) => {
    const change = level[i] - now;
    now = level[i];
    return change;
  });
  return new ListedCurves(["reserved"], new Uint8Array(keep.length), delta, Uint32Array.from(keep, (i) => at[i]));
}

// The changes to draw for `pixels` columns: of each column the least, the most and the last one. `column(event)` gives the column of an
// event and does not fall.
export function reduce(curves, firstEvent, lastEvent, pixels, eventAtColumn) {
  const points = [];
  let from = Math.max(0, curves.changeAt(firstEvent));
  const end = curves.changeAt(lastEvent);
  if (end < 0) return points;
  points.push(from);
  for (let pixel = 0; pixel < pixels && from <= end; pixel++) {
    const last = Math.min(end, curves.changeAt(eventAtColumn(pixel + 1)));
    if (last < from) continue;
    const { least, most } = curves.extremes(from, last);
    for (const i of [Math.min(least, most), Math.max(least, most), last]) if (i > points[points.length - 1]) points.push(i);
    from = last + 1;
  }
  return points;
}
