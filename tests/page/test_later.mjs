// Work that waits for a pause.
import test from "node:test";
import assert from "node:assert";
import { load } from "./modules.mjs";

const { Later } = await load("later.js");

test("of seven requests one after the other the work is done once, behind the last", async () => {
  let typed = "";
  const done = [];
  const later = new Later(() => done.push(typed));
  for (const c of "forward") {
    typed += c;
    later.ask();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.deepEqual(done, []);
  await new Promise((resolve) => setTimeout(resolve, 400));
  assert.deepEqual(done, ["forward"]);
});

test("at once if it is wanted, and then not again", async () => {
  let times = 0;
  const later = new Later(() => times++);
  later.now();
  assert.equal(times, 0);
  later.ask();
  later.now();
  later.now();
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(times, 1);
});

test("after long work the pause is as long as that was", async () => {
  let times = 0;
  const later = new Later(() => { times++; for (const end = performance.now() + 500; performance.now() < end;); });
  later.ask();
  later.now();
  later.ask();
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(times, 1);
  await new Promise((resolve) => setTimeout(resolve, 400));
  assert.equal(times, 2);
});
