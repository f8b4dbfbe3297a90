// A rank of which the page has its record: its curve is drawn as if each point were an event.
import { Blocks } from "./blocks.js";
import { ListedCurves } from "./curves.js";
import { PLAIN } from "./palette.js";

// A curve by its levels; one that is never above zero has no changes.
function levelCurve(name, levels) {
  const known = levels.some((level) => level > 0) ? levels : [];
  const delta = Float64Array.from(known, (level, i) => level - (i ? known[i - 1] : 0));
  return Object.assign(new ListedCurves([name], new Uint8Array(delta.length), delta), { colours: [PLAIN] });
}

// `rank`: of the report. A point of its curve is [seconds, allocated, reserved, device], the highest of the time until the next one.
export function fromRecord(rank) {
  const points = rank.timeline || [];
  const data = { events: points.length, kinds: new Uint8Array(points.length), subject: new Int32Array(points.length).fill(-1), blocks: Blocks.none(),
    times: Float64Array.from(points, (p) => p[0] * 1000), longestPause: 0, segments: [], tables: { frames: [], stacks: [] } };
  const [allocated, reserved, device] = [1, 2, 3].map((column) => points.map((p) => p[column]));
  return { data, category: levelCurve("allocated to tensors, of all categories", allocated), owner: levelCurve("device, of all owners", device),
    reserved: levelCurve("reserved", reserved), isRecord: true };
}
