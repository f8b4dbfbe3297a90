// What the timeline points out: the peak, failures, gaps, moments that the job names, steps and phases.
import { EVENT, eventsOf } from "./decode.js";
import { eventAtTime } from "./moment.js";
import { size } from "./format.js";

const MOST_MARKS = 200; // of one kind
const MOST_WEIGHTY = 20; // moments that the job names: of more, only those are drawn for which there is room

export function marksOf(data, category, rank) {
  const marks = [];
  const peak = category.peak();
  if (peak >= 0) marks.push({ event: category.eventOf(peak), text: `peak ${size(category.totalAt(peak))}`, weight: 2 });
  for (const event of eventsOf(data.kinds, EVENT.FAILURE, MOST_MARKS)) marks.push({ event, text: "out of memory", bad: true, weight: 3 });
  for (const event of eventsOf(data.kinds, EVENT.GAP, MOST_MARKS)) marks.push({ event, text: "records were reused here", bad: true, weight: 1 });
  const moments = rank.moments || [];
  for (const { name, time_s: at } of moments.slice(0, MOST_MARKS))
    marks.push({ event: eventAtTime(data, at * 1000), text: name, weight: moments.length <= MOST_WEIGHTY ? 1 : 0 });
  let before = "";
  let step = 0;
  for (const [start, number, phase] of rank.phase_starts || []) {
    const event = eventAtTime(data, start * 1000);
    if (number !== step) marks.push({ event, text: `step ${number}, ${phase}` });
    else if (phase !== before) marks.push({ event, text: phase });
    before = phase;
    step = number;
  }
  return marks;
}
