// Work on many events beside the page: workers run the page's own script.
import { inflate, inflateAll, decodeBlocks, decodeTimes } from "./decode.js";
import { blockChanges } from "./curves.js";
import { summaryOf } from "./summary.js";

const MANY_EVENTS = 200000; // fewer are decoded sooner than a worker starts

const TASKS = {
  inflate: inflateAll,
  times: async ({ text, unit }) => decodeTimes(await inflate(text), unit),
  blocks: ({ parts, count, bySlot, categories }) => {
    const decoded = decodeBlocks(parts, count, bySlot);
    return { ...decoded, summary: summaryOf(decoded.kinds.length, categories, blockChanges(decoded)) };
  },
};

// The memory of typed arrays, which a message hands over without a copy.
function buffersOf(value, found = new Set()) {
  if (ArrayBuffer.isView(value)) found.add(value.buffer);
  else if (value && typeof value === "object") for (const part of Object.values(value)) buffersOf(part, found);
  return found;
}

// In a worker: answers what the page asks, one after the other.
export function serve() {
  let before = Promise.resolve();
  postMessage({ started: true });
  onmessage = ({ data: { id, task, argument } }) => {
    before = before.then(async () => {
      try {
        const result = await TASKS[task](argument);
        postMessage({ id, result }, [...buffersOf(result)]);
      } catch (error) {
        postMessage({ id, error: error.message });
      }
    });
  };
}

// A worker has died, and with it what it was asked.
export class HelperLost extends Error {}

// A worker, and behind one that has died another.
class Helper {
  constructor(address) {
    this.address = address;
    this.next = 0;
    this.start();
  }

  start() {
    const worker = new Worker(this.address);
    const waiting = new Map();
    let isStarted = false;
    Object.assign(this, { worker, waiting });
    this.started = new Promise((resolve, reject) => {
      worker.onerror = worker.onmessageerror = (e) => {
        const lost = new HelperLost(e.message || "a worker of the page has ended");
        worker.terminate();
        if (isStarted && this.worker === worker) this.start();
        reject(lost);
        for (const call of waiting.values()) call.reject(lost);
      };
      worker.onmessage = ({ data }) => {
        isStarted = true;
        if (data.started) resolve();
        else answered(waiting, data);
      };
    });
    this.started.catch(() => {}); // whoever asks is told
  }

  async call(task, argument) {
    await this.started;
    return new Promise((resolve, reject) => {
      const id = this.next++;
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, task, argument }, [...buffersOf(argument)]);
    });
  }
}

function answered(waiting, { id, result, error }) {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (error) reject(new Error(error));
  else resolve(result);
}

let shared = null;

// Two workers; none for few events, and where a browser allows none: then the page does the work itself.
export async function helpersFor(events) {
  if (events < MANY_EVENTS || typeof Worker === "undefined" || typeof document === "undefined") return [];
  if (!shared) shared = startWorkers();
  return shared;
}

async function startWorkers() {
  const script = document.querySelector('script[type="module"]').textContent;
  const address = `data:text/javascript;charset=utf-8,${encodeURIComponent(script)}`;
  try {
    const helpers = [new Helper(address), new Helper(address)];
    await Promise.all(helpers.map((h) => h.started));
    return helpers;
  } catch {
    return [];
  }
}

export async function help(helper, task, argument) {
  return helper ? helper.call(task, argument) : TASKS[task](argument);
}
