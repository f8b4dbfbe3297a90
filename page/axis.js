// The axes of a timeline: where an event is, and which event is at a place. `label(v, step)` tells labels apart that are a step from each other.
import { eventAtTime } from "./moment.js";
import { count, digitsOf, time } from "./format.js";

function clamp(n, most) {
  return Math.max(0, Math.min(most, n));
}

const NARROWEST = 1e-5; // milliseconds that the whole width can show: between two events of a clock of nanoseconds are then many pixels
const MOST_ENLARGED = 1e12; // beyond that, the places of pixels are more than a double has digits for

export class EventAxis {
  constructor(data) {
    this.data = data;
  }

  // A little room behind the last event, whose level would have no width.
  domain() {
    return [0, Math.max(1, this.data.events * 1.005)];
  }

  // How many times a domain can be enlarged: to a few events.
  deepest([first, last]) {
    return Math.max(1, (last - first) / 4);
  }

  position(event) {
    return event;
  }

  eventAt(position) {
    return clamp(Math.floor(position), this.data.events - 1);
  }

  label(v) {
    return Number.isInteger(v) ? count(v) : "";
  }
}

export class TimeAxis {
  constructor(data) {
    this.data = data;
  }

  domain() {
    const { events, times } = this.data;
    const first = events ? times[0] : 0;
    const last = events ? times[events - 1] : 1;
    return [first, last > first ? last + (last - first) / 200 : first + 1];
  }

  deepest([first, last]) {
    return Math.min(MOST_ENLARGED, Math.max(1, (last - first) / NARROWEST));
  }

  position(event) {
    return this.data.times[event];
  }

  eventAt(position) {
    return eventAtTime(this.data, position);
  }

  label(v, step) {
    return time(v, step);
  }
}

// Places [time, step] between which steps grow evenly: what is before the first step is one step wide, and so is each step.
// `phaseStarts`: [seconds, step or 0, phase] as in the report. Empty: the trace shows no steps.
export function stepKnots(data, phaseStarts) {
  const knots = [];
  for (const [start, step] of phaseStarts || []) {
    const last = knots[knots.length - 1];
    if (step && (!last || (step > last[1] && start * 1000 > last[0]))) knots.push([start * 1000, step]);
  }
  if (!knots.length || !data.events) return [];
  const [begin, end] = new TimeAxis(data).domain();
  if (begin < knots[0][0]) knots.unshift([begin, knots[0][1] - 1]);
  knots.push([Math.max(end, knots[knots.length - 1][0] + 1e-6), knots[knots.length - 1][1] + 1]);
  return knots;
}

// On such an axis two jobs of different speed lie upon each other.
export class StepAxis {
  constructor(data, knots) {
    this.data = data;
    this.knots = knots;
  }

  domain() {
    return [this.knots[0][1], this.knots[this.knots.length - 1][1]];
  }

  // As of the time, in the longest step.
  deepest([first, last]) {
    const longest = this.knots.reduce((most, knot, k) => Math.max(most, k ? (knot[0] - this.knots[k - 1][0]) / (knot[1] - this.knots[k - 1][1]) : 0), 0);
    return Math.min(MOST_ENLARGED, Math.max(1, ((last - first) * longest) / NARROWEST));
  }

  // The value of column `to` at a value of column `from`, 0 or 1.
  between(value, from, to) {
    const { knots } = this;
    let low = 1;
    let high = knots.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (knots[middle][from] <= value) low = middle + 1;
      else high = middle;
    }
    const [a, b] = [knots[low - 1], knots[low]];
    return a[to] + ((value - a[from]) / (b[from] - a[from])) * (b[to] - a[to]);
  }

  position(event) {
    return this.between(this.data.times[event], 0, 1);
  }

  eventAt(position) {
    return eventAtTime(this.data, this.between(position, 1, 0));
  }

  label(v, step) {
    return Number.isInteger(v) ? `step ${count(v)}` : v.toFixed(digitsOf(step));
  }
}

export function axisOf(name, data, knots) {
  if (name === "step" && knots.length) return new StepAxis(data, knots);
  return name === "event" ? new EventAxis(data) : new TimeAxis(data);
}
