// The lines of a timeline: what the device has in use, what PyTorch's allocator holds, and what a search found.
import { FOUND_COLOUR } from "./search.js";
import { size } from "./format.js";

// A device with so many times what PyTorch holds would leave the bands no room: its line is beyond the picture, and the legend says how high it is.
const FAR = 4;

export function highestOf(curves) {
  return curves.filter((c) => c.count).reduce((most, c) => Math.max(most, c.totalAt(c.peak())), 0);
}

// Of each of the streams, which are drawn on one scale: its lines, {name, curves, dash, colour, isBeyond}. `found`: the name of what a search found.
export function linesOf(streams, stacked, found) {
  const held = highestOf(streams.flatMap(({ category, reserved }) => [category, reserved]));
  const most = highestOf(streams.map(({ owner }) => owner));
  const isBeyond = held > 0 && most > FAR * held;
  return streams.map((stream) => {
    const lines = [{ name: "reserved", curves: stream.reserved, dash: [5, 3] }];
    if (stacked === "category") lines.unshift({ name: isBeyond ? `device, beyond the picture: up to ${size(most)}` : "device", curves: stream.owner, dash: [], isBeyond });
    if (stream.found?.used.some(Boolean)) lines.push({ name: found, curves: stream.found, dash: [], colour: FOUND_COLOUR });
    return lines.filter((l) => l.curves.count);
  });
}
