// Workers that die: what they were asked is told to be lost, and another worker takes the place.
import test from "node:test";
import assert from "node:assert";
import { load } from "./modules.mjs";

const MANY = 200000; // events

// Workers that say that they have started, and of a task what `answer` gives; null: nothing.
const made = [];
let answer = () => null;
let isStarting = true;
globalThis.document = { querySelector: () => ({ textContent: "" }) };
globalThis.Worker = class {
  constructor() {
    made.push(this);
    this.isEnded = false;
    if (isStarting) queueMicrotask(() => this.onmessage({ data: { started: true } }));
  }
  postMessage({ id, task }) {
    const data = answer(task, this);
    if (data) queueMicrotask(() => this.onmessage({ data: { id, ...data } }));
  }
  terminate() {
    this.isEnded = true;
  }
};
const { help, helpersFor, HelperLost } = await load("helpers.js");

test("few events need no worker; of many there are two, for all that is asked", async () => {
  assert.deepEqual(await helpersFor(MANY - 1), []);
  const helpers = await helpersFor(MANY);
  assert.equal(helpers.length, 2);
  assert.equal(await helpersFor(10 * MANY), helpers);
  assert.equal(made.length, 2);
});

test("a worker that dies is replaced, and what it was asked is lost; the other one goes on", async () => {
  const [first, second] = await helpersFor(MANY);
  const asked = [help(first, "times", {}), help(first, "blocks", {}), help(second, "times", {})];
  await new Promise((resolve) => setTimeout(resolve));
  made[0].onerror({ message: "out of memory" });
  for (const lost of asked.slice(0, 2)) await assert.rejects(lost, (e) => e instanceof HelperLost && e.message === "out of memory");
  assert.deepEqual(made.map((w) => w.isEnded), [true, false, false]);
  made[1].onmessage({ data: { id: 0, result: 7 } });
  assert.equal(await asked[2], 7);
  answer = (task, worker) => ({ result: [task, made.indexOf(worker)] });
  assert.deepEqual(await help(first, "inflate", {}), ["inflate", 2]);
  assert.deepEqual(await help(second, "inflate", {}), ["inflate", 1]);
});

test("an answer that cannot be read is a worker that died; an error in a task is not", async () => {
  const [first] = await helpersFor(MANY);
  answer = () => ({ error: "not a column" });
  await assert.rejects(help(first, "times", {}), (e) => !(e instanceof HelperLost) && e.message === "not a column");
  answer = () => null;
  const asked = help(first, "times", {});
  await new Promise((resolve) => setTimeout(resolve));
  made[2].onmessageerror({});
  await assert.rejects(asked, HelperLost);
  assert.equal(made.length, 4);
});

test("a worker that dies before it has started is not replaced", async () => {
  const [first] = await helpersFor(MANY);
  await new Promise((resolve) => setTimeout(resolve));
  isStarting = false;
  made[3].onerror({ message: "out of memory" });
  assert.equal(made.length, 5);
  made[4].onerror({ message: "no room" });
  assert.equal(made.length, 5);
  await assert.rejects(help(first, "times", {}), (e) => e instanceof HelperLost && e.message === "no room");
});
