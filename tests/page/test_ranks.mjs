// What the page says about ranks of which it has records.
import test from "node:test";
import assert from "node:assert";
import { load } from "./modules.mjs";

const { fromRecord } = await load("record.js");
const { measureOf, hintOf, hasDied } = await load("ranks.js");
const { missingOf, failureOf } = await load("missing.js");

test("a record's curve: each point has its levels, and the peak is that of allocated", () => {
  const { data, category, owner, reserved } = fromRecord({ timeline: [[0, 10, 20, 90], [0.5, 40, 50, 80], [1, 30, 50, 70]] });
  assert.deepEqual([...data.times], [0, 500, 1000]);
  for (const [curves, levels] of [[category, [10, 40, 30]], [reserved, [20, 50, 50]], [owner, [90, 80, 70]]])
    assert.deepEqual([0, 1, 2].map((i) => curves.totalAt(curves.changeAt(i))), levels);
  assert.equal(category.peak(), 1);
  assert.equal(owner.peak(), 0);
});

test("levels that are never above zero have no curve, and a record without points has no events", () => {
  const { category, owner } = fromRecord({ timeline: [[0, 10, 0, 0], [1, 20, 0, 0]] });
  assert.deepEqual([category.count, owner.count], [2, 0]);
  assert.equal(fromRecord({}).data.events, 0);
});

test("ranks are compared by one measure: the device's, unless one of them has none", () => {
  const rank = (device, allocated, capacity) => ({ peak: { device_bytes: device, allocated_bytes: allocated }, device_memory_bytes: capacity });
  const whole = [rank(60, 40, 100), rank(80, 20, 100), rank(0, 0, 100)];
  assert.deepEqual(whole.map(measureOf(whole).level), [60, 80, 0]);
  assert.deepEqual(whole.map(measureOf(whole).share), [0.6, 0.8, 0]);
  const mixed = [rank(60, 40, 100), rank(0, 50, null)];
  assert.deepEqual(mixed.map(measureOf(mixed).level), [40, 50]);
  assert.deepEqual(mixed.map(measureOf(mixed).share), [0.8, 1]);
  assert.equal(measureOf(mixed).of, "allocated");
});

test("the hint says what colours the ranks, and explains the marks that there are", () => {
  const rank = (device, allocated, capacity) => ({ peak: { device_bytes: device, allocated_bytes: allocated }, device_memory_bytes: capacity });
  const hint = (ranks, ...marks) => hintOf(measureOf(ranks), ...marks);
  assert.match(hint([rank(60, 40, 100)], false, false), /^Coloured by the peak of the device as a share of the device's memory\. A click/);
  assert.match(hint([rank(60, 40, null)], true, false), /^Coloured by the peak of the device as a share of the highest rank's; ✕ ran out of memory\. A click/);
  assert.match(hint([rank(0, 40, 100)], true, true), /^Coloured by the peak allocated as a share of the device's memory; ✕ ran out of memory, ◆ differs from its group\. A click/);
});

test("a rank that ended with a request that was refused ran out of memory, also if a snapshot does not tell its end", () => {
  const rank = (end, ...survived) => ({ end, oom: survived.map((s) => ({ survived: s })) });
  assert.deepEqual([rank("oom", false), rank("unknown", true, null), rank("unknown", null, true), rank("unknown"), rank("exit", true)].map(hasDied),
    [true, true, false, false, false]);
});

test("what is missing of a rank, and what to do about one that cannot be read", () => {
  const rank = { rank: 3, trace: "/t/three.mtr", warnings: ["cut off"], lost: { events: 1000, reason: "the budget" } };
  assert.deepEqual(missingOf(rank, { isRecord: false, data: { events: 5 } }, false), ["cut off", "1,000 events were not recorded: the budget"]);
  assert.match(missingOf(rank, { isRecord: true, data: { events: 5 } }, false)[0], /memtrace html --ranks 3$/);
  assert.match(missingOf(rank, { isRecord: true, data: { events: 0 } }, true)[0], /memtrace html \/t\/three\.mtr$/);
  const failure = failureOf(rank, new Error("no memory"), { rank: 0, trace: "/t/zero.mtr" });
  for (const part of ["/t/three.mtr", "no memory", "memtrace html --ranks 3 /t/three.mtr", "rank 0 of /t/zero.mtr is still shown"]) assert.ok(failure.includes(part), part);
});
