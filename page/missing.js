// What a page does not have: events that were lost or are not in it, and ranks that cannot be read from it.
import { count } from "./format.js";

// What is missing of a rank. `current`: its events or its record; `isOfRecords`: the whole page is made of records.
export function missingOf(rank, { isRecord, data }, isOfRecords) {
  const notes = [...rank.warnings];
  if (isRecord && !data.events) notes.unshift("The record of this rank has no curve: nothing is drawn.");
  if (isRecord) notes.unshift(isOfRecords ? "The page is made of records. The events are in the traces: memtrace html " + rank.trace
    : "The events of this rank are not in the page, only its record and its curve: memtrace html --ranks " + rank.rank);
  if (rank.lost.events) notes.push(`${count(rank.lost.events)} events were not recorded: ${rank.lost.reason}`);
  return notes;
}

// A rank that cannot be shown. `kept`: the rank that is still shown, if there is one.
export function failureOf(rank, error, kept) {
  return `Rank ${rank.rank} of ${rank.trace} cannot be shown: ${error.message}. The page is damaged, or the browser has too little memory for its events. ` +
    `Make the page again, of this rank alone: memtrace html --ranks ${rank.rank} ${rank.trace}${kept ? ` (rank ${kept.rank} of ${kept.trace} is still shown)` : ""}`;
}
