// Columns of a page as analyzer/html/columns.c writes them: a code for each number, and the bytes of those that nothing predicts.

const PREDICTOR_BITS = 16;
const PLANES = 8;
const OF_VALUE = 2; // + the bytes of the value
const OF_CHANGE = OF_VALUE + PLANES + 1; // + the bytes of its difference from the number before

// The codes of a column, and the bytes that they refer to: the lowest of all numbers together, and so on.
class Planes {
  constructor(bytes) {
    const lengths = new DataView(bytes.buffer, bytes.byteOffset, 4 * (1 + PLANES));
    let at = 4 * (1 + PLANES);
    const take = (i) => bytes.subarray(at, (at += lengths.getUint32(4 * i, true)));
    this.codes = take(0);
    this.planes = Array.from({ length: PLANES }, (_, i) => take(i + 1));
    this.places = new Uint32Array(PLANES);
    this.length = this.codes.length;
  }

  // A number of so many bytes. It is exact up to 2^53.
  bytes(count) {
    let n = 0;
    for (let i = 0, unit = 1; i < count; i++, unit *= 256) n += this.planes[i][this.places[i]++] * unit;
    return n;
  }
}

export class Column extends Planes {
  constructor(bytes) {
    super(bytes);
    this.at = 0;
    this.last = 0;
  }

  next() {
    const code = this.codes[this.at++];
    this.last = code < OF_CHANGE ? this.bytes(code - OF_VALUE) : this.last + unfold(this.bytes(code - OF_CHANGE));
    return this.last;
  }

  // All of the others. Most are equal to the number before, which needs no look at their bytes.
  rest(into) {
    const { codes, length } = this;
    let { last } = this;
    for (let i = 0, k = this.at; k < length; i++, k++) {
      const code = codes[k];
      if (code < OF_CHANGE) last = code === OF_VALUE ? 0 : this.bytes(code - OF_VALUE);
      else if (code > OF_CHANGE) last += unfold(this.bytes(code - OF_CHANGE));
      into[i] = last;
    }
    this.at = length;
    this.last = last;
    return into;
  }
}

// Numbers with a prediction, below 2^31. A loop over all events looks at `codes` and `table` itself: PREDICTED is the number of the table
// for what came before, OTHER a second prediction, and `read` gives what is written.
export const PREDICTED = 0;
export const OTHER = 1;

export class Predicted extends Planes {
  constructor(bytes) {
    super(bytes);
    this.table = new Int32Array(1 << PREDICTOR_BITS);
    this.read = reader(this.planes);
  }

  get(i, context, other) {
    const code = this.codes[i];
    const value = code === PREDICTED ? this.table[context] : code === OTHER ? other : this.read(code);
    this.table[context] = value;
    return value;
  }
}

function reader([first, second, third, fourth]) {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  return (code) => {
    const count = code - OF_VALUE;
    let n = count > 0 ? first[a++] : 0;
    if (count > 1) n |= second[b++] << 8;
    if (count > 2) n |= third[c++] << 16;
    if (count > 3) n |= fourth[d++] << 24;
    return n;
  };
}

// 0, -1, 1, -2 … from 0, 1, 2, 3 …
function unfold(code) {
  return code % 2 ? -(code + 1) / 2 : code / 2;
}

export function contextOf(a, b) {
  const h = Math.imul(a | 0, 0x9e3779b1) ^ Math.imul(b | 0, 0x85ebca6b);
  return Math.imul(h ^ (h >>> 15), 0x2c1b3c6d) >>> (32 - PREDICTOR_BITS);
}

export function valuesOf(bytes, Type = Float64Array) {
  const column = new Column(bytes);
  return column.rest(new Type(column.length));
}
