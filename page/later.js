// Work that waits until nothing more is asked for, as while someone types.

const PAUSE = 150; // milliseconds

// `work` is done once for all that is asked until a pause. The pause is at least as long as the work was the last time: of a long trace less time goes
// into it than to who types.
export class Later {
  constructor(work) {
    this.work = work;
    this.timer = null;
    this.lasted = 0;
  }

  ask() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(), Math.max(PAUSE, this.lasted));
  }

  // What is asked for is done without a pause.
  now() {
    if (this.timer === null) return;
    clearTimeout(this.timer);
    this.timer = null;
    const began = performance.now();
    this.work();
    this.lasted = performance.now() - began;
  }
}
