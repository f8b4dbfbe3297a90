// The axes of a timeline: where an event is, and which event is at a place. `label(v, step)` tells labels apart that are a step from each other.
import { eventAtTime } from "./moment.js";
import { count, digitsOf, time } from "./format.js";

function clamp(n, most) {
  return Math.max(0, Math.min(most, n));
}

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

  // To a tenth of a nanosecond.
  deepest() {
    return 1e6;
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

  deepest() {
    return 1e6;
  }

  // The value of column `to` at a value of column `from`, 0 or 1.
  between(value, from, to) {
    const { knots } = this;
    let k = 1;
    while (k + 1 < knots.length && knots[k][from] <= value) k++;
    const [a, b] = [knots[k - 1], knots[k]];
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
