// Levels over a trace in chunks, so that nothing has to walk over all changes.

// Changes in a chunk. A walk to one change is at most so long.
export const CHUNK = 128;

// What is kept of each chunk of the changes of some levels.
class Summary {
  constructor(count, width) {
    const chunks = Math.ceil(count / CHUNK);
    this.least = new Uint32Array(chunks); // the change with the lowest total
    this.most = new Uint32Array(chunks);
    this.lowest = new Float64Array(chunks); // that total
    this.highest = new Float64Array(chunks);
    this.before = new Float64Array(chunks * width); // the levels before the chunk
    this.used = new Uint8Array(width); // series that are ever more than nothing
  }
}

// Of `count` changes of `width` series. `deltaOf` gives the bytes of a change, `seriesOf` its series, if it has bytes.
export function summaryOf(count, width, { seriesOf, deltaOf }) {
  const summary = new Summary(count, width);
  const now = new Float64Array(width);
  let total = 0;
  for (let i = 0, chunk = 0; i < count; chunk++) {
    const end = Math.min(count, i + CHUNK);
    let least = i;
    let most = i;
    let lowest = Infinity;
    let highest = -Infinity;
    summary.before.set(now, chunk * width);
    for (; i < end; i++) {
      const delta = deltaOf(i);
      if (delta !== 0) {
        const series = seriesOf(i);
        now[series] += delta;
        total += delta;
        if (delta > 0) summary.used[series] = 1;
      }
      if (total < lowest) {
        lowest = total;
        least = i;
      }
      if (total > highest) {
        highest = total;
        most = i;
      }
    }
    summary.least[chunk] = least;
    summary.most[chunk] = most;
    summary.lowest[chunk] = lowest;
    summary.highest[chunk] = highest;
  }
  return summary;
}
