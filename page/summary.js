// Levels over a trace in chunks, so that nothing has to walk over all changes.

// Changes in a chunk. A walk to one change is at most so long.
export const CHUNK = 128;

// What is kept of each chunk of the changes of some levels.
export class Summary {
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
