// The lines of a timeline, and when the device is beyond the picture.
import test from "node:test";
import assert from "node:assert";
import { load } from "./modules.mjs";

const { linesOf } = await load("lines.js");

// A curve with one level.
const curve = (level) => ({ count: level ? 1 : 0, used: [level], peak: () => 0, totalAt: () => level });
const stream = (category, reserved, owner, found) => ({ category: curve(category), reserved: curve(reserved), owner: curve(owner), found: found && curve(found) });
const names = (streams, stacked = "category") => linesOf(streams, stacked, "found: x").map((lines) => lines.map((l) => [l.name, Boolean(l.isBeyond)]));
const [GiB, MiB] = [2 ** 30, 2 ** 20];

test("the lines of device, reserved and what was found; of owners the device is the bands", () => {
  assert.deepEqual(names([stream(10, 20, 30)]), [[["device", false], ["reserved", false]]]);
  assert.deepEqual(names([stream(10, 20, 30, 5)]), [[["device", false], ["reserved", false], ["found: x", false]]]);
  assert.deepEqual(names([stream(10, 20, 30)], "owner"), [[["reserved", false]]]);
  assert.deepEqual(names([stream(10, 0, 0)]), [[]]);
});

test("a device with more than four times what PyTorch holds is beyond the picture", () => {
  const far = "device, beyond the picture: up to 7.1 GiB";
  assert.deepEqual(names([stream(127 * MiB, 158 * MiB, 7.1 * GiB)]), [[[far, true], ["reserved", false]]]);
  assert.deepEqual(names([stream(127 * MiB, 158 * MiB, 4 * 158 * MiB)]), [[["device", false], ["reserved", false]]]);
  assert.deepEqual(names([stream(0, 0, 7.1 * GiB)]), [[["device", false]]]); // nothing else is there to be seen
});

test("of two timelines, which have one scale, either both lines are beyond or none", () => {
  const [small, large] = [stream(MiB, MiB, 6 * GiB), stream(2 * GiB, 3 * GiB, 7 * GiB)];
  assert.deepEqual(names([small, large]), Array(2).fill([["device", false], ["reserved", false]]));
  assert.deepEqual(names([small, small])[1][0], ["device, beyond the picture: up to 6.0 GiB", true]);
});
