"""Compares the output of with_categories.py with a trace: the category of each block, and the start of each phase."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import mtr  # noqa: E402

TENSORS = "parameters", "buffers", "gradients", "optimizer_states"
GONE = 1 << 62


class Blocks:
    """A device's tensor events: when each block was allocated and freed, counted in events."""

    def __init__(self, trace, device):
        self.trace = trace
        self.events = [r for r in trace.records() if r[5] in (1, 2) and r[6] == device]
        self.birth, self.death, self.by_address = [], [], {}
        self.position = []  # position of the n-th allocation among the events
        live, now, highest, self.peak = {}, 0, 0, 0
        for i, r in enumerate(self.events):
            now += r[2]
            if r[5] == 1:
                live[r[1]] = len(self.birth)
                self.by_address.setdefault(r[1], []).append(len(self.birth))
                self.birth.append(i)
                self.death.append(GONE)
                self.position.append(i)
            else:
                self.death[live.pop(r[1])] = i
            if now > highest:
                highest, self.peak = now, i
        self.highest = highest

    def size(self, block):
        return self.events[self.birth[block]][2]

    def place(self, block):
        return self.events[self.birth[block]][3]

    def find(self, address, allocations):
        """The block at an address after that number of allocations, or None"""
        found = None
        for block in self.by_address.get(address, ()):
            if block >= allocations:
                break
            found = block
        return found

    def at_peak(self):
        return [b for b in range(len(self.birth)) if self.birth[b] <= self.peak < self.death[b]]


def truth(blocks, written):
    """{block: category} from the job's own list. If a block had several tensors, the first category of TENSORS counts."""
    found = {}
    for category in TENSORS:
        for mark in written["marks"]:
            for address in mark["owned"].get(category, ()):
                block = blocks.find(address, mark["allocations"])
                if block is not None:
                    found.setdefault(block, category)
    for address, allocations in written["saved"]:
        block = blocks.find(address, allocations)
        if block is not None:
            found.setdefault(block, "activations")
    return found


def sums(blocks, known):
    """Bytes at the peak by category; None has the blocks that are not in the job's list."""
    total = {}
    for b in blocks.at_peak():
        category = known.get(b)
        total[category] = total.get(category, 0) + blocks.size(b)
    return total


def load(path):
    with open(path) as f:
        return json.load(f)


def differences(memtrace, directory, out, rank=0):
    """For people: by stack, the job's category and the report's."""
    report = json.loads(subprocess.run([memtrace, "report", "--json", directory], stdout=subprocess.PIPE, check=True).stdout)
    entry = next(r for r in report["ranks"] if (r["rank"] or 0) == rank)
    trace = mtr.Trace(entry["trace"])
    blocks = Blocks(trace, entry["device"])
    known = truth(blocks, load("%s.%d" % (out, rank)))
    said = {}
    for row in entry["peak"]["stacks"]:
        said.setdefault(row["stack"], {}).setdefault(row["category"], [0, 0])[0] += row["bytes"]
    real = {}
    for b in blocks.at_peak():
        frames = trace.stack(blocks.place(b))
        stack = ";".join("%s %s:%d" % f for f in reversed(frames))
        if not frames:
            thread = trace.threads.get(blocks.events[blocks.birth[b]][4], (0, ""))[1]
            stack = "(no Python stack, thread %s)" % thread
        sums_ = real.setdefault(stack, {})
        sums_[known.get(b)] = sums_.get(known.get(b), 0) + blocks.size(b)
    total = sums(blocks, known)
    print(entry["peak"]["step"], entry["peak"]["phase"], entry["peak"]["part"])
    for category, size in entry["peak"]["by_category"].items():
        t = total.get(category, 0)
        if size or t:
            print("  %-18s %14d  job %14d  %+8.3f %%" % (category, size, t, 100.0 * (size - t) / t if t else 0))
    print("  job did not say    %14d" % total.get(None, 0))
    for stack, t in sorted(real.items(), key=lambda x: -sum(x[1].values())):
        s = {c: n[0] for c, n in said.get(stack, {}).items()}
        if {c: n for c, n in t.items() if c} != {c: n for c, n in s.items() if c in TENSORS + ("activations",)}:
            print("   ", t, "report", s, " <- ".join(reversed(stack.split(";")[-4:])))


if __name__ == "__main__":
    import sys
    differences(*sys.argv[1:4], *(map(int, sys.argv[4:])))
