// The blocks of a trace, in the order in which they were allocated. Sizes and addresses are numbers of tables: a job has few of them.

export class Blocks {
  constructor(columns) {
    Object.assign(this, columns);
  }

  static none() {
    const empty = new Int32Array(0);
    return new Blocks({ count: 0, stack: empty, sizeNumber: empty, sizes: empty, addressNumber: empty, addresses: empty, category: empty, place: empty, born: empty,
      gone: empty });
  }

  sizeOf(block) {
    return this.sizes[this.sizeNumber[block]];
  }

  addressOf(block) {
    return this.addresses[this.addressNumber[block]];
  }
}
