"""A trace in numbers that can be kept: peaks, the blocks that were live at each peak by size and stack, and the recorder against PyTorch.

It reads with tests/mtr.py, so it needs no `memtrace`.
"""
import collections
import glob
import os

import mtr

TENSOR, POOL = (1, 2), (8, 9)
DEVICE = (5, 6, 16, 17, 20, 21)


class Stacks:
    """Texts of stacks, each once: a block names its stack by number."""

    def __init__(self):
        self.texts, self.numbers = [], {}

    def number(self, text):
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]


def short(path):
    """Without the folder of the environment, which differs between machines."""
    for part in ("/site-packages/", "/dist-packages/", "/tests/", "/examples/"):
        if part in path:
            return path.rsplit(part, 1)[1]
    return path.rsplit("/lib/python", 1)[-1] if "/lib/python" in path else os.path.basename(path)


class Reader:
    def __init__(self, path, device=0):
        self.trace, self.device = mtr.Trace(path), device
        self.records = [r for r in self.trace.records()]
        self.ours = [r for r in self.records if r[6] == device]
        self.texts = {}

    def stack(self, ident):
        """"function file:line < ...", the innermost first; of memory that no Python code asked for, the library."""
        if ident not in self.texts:
            frames = ["%s %s:%d" % (function, short(path), line) for function, path, line in self.trace.stack(ident)
                      if not path.endswith(("gpu/jobs/probe.py", "<frozen runpy>"))]
            self.texts[ident] = (os.path.basename(self.trace.module(ident) or ""), " < ".join(frames) or "(no Python stack)")
        return self.texts[ident]

    def peak(self, kinds):
        """(bytes, index of the record that reached it first)"""
        now = highest = 0
        at = -1
        for i, r in enumerate(self.ours):
            if r[5] in kinds:
                now += r[2]
                if now > highest:
                    highest, at = now, i
        return highest, at

    def level(self, kind):
        """(bytes, index) of the highest level"""
        return max(((r[2], -i) for i, r in enumerate(self.ours) if r[5] == kind), default=(0, 1))

    def live(self, kinds, until):
        """{address: (bytes, stack, kind)} after the record `until`."""
        live = {}
        for r in self.ours[:until + 1]:
            if r[5] in kinds:
                if r[5] in mtr.ALLOC:
                    live[(mtr.ALLOC[r[5]], r[1])] = (r[2], r[3], r[5])
                else:
                    live.pop((mtr.ALLOC[mtr.FREE[r[5]]], r[1]), None)
        return live

    def blocks(self, kinds, until, stacks):
        """[[count, bytes, stack, library]]: the live blocks after `until`, alike ones together."""
        counted = collections.Counter()
        for size, place, _ in self.live(kinds, until).values():
            library, text = self.stack(place)
            counted[size, stacks.number(text), library] += 1
        return sorted(([n, *key] for key, n in counted.items()), key=lambda b: -b[0] * b[1])


def largest(directory):
    """The trace with the most records: a job may start other processes that touch the GPU."""
    return max(glob.glob(os.path.join(directory, "*.mtr")), key=os.path.getsize, default=None)


def last_level(reader, kind):
    return next((r[2] for r in reversed(reader.ours) if r[5] == kind), 0)


def moment(reader, index):
    """What asked for the memory at that record."""
    return reader.stack(reader.ours[index][3])[1] if 0 <= index < len(reader.ours) else None


def summary(path, stacks):
    """The trace's own figures and blocks."""
    reader = Reader(path)
    kinds = TENSOR if any(r[5] in TENSOR for r in reader.ours) else POOL
    allocated, at = reader.peak(kinds)
    reserved, reserved_at = reader.level(4 if kinds == TENSOR else 10)
    device, device_at = reader.peak(DEVICE)
    samples = [r[2] - r[1] for r in reader.ours if r[5] == mtr.SAMPLE]
    count = collections.Counter(r[5] for r in reader.ours)
    return {"allocated": allocated, "reserved": reserved, "known_device": device, "records": len(reader.records), "lost": reader.trace.lost_events,
            "allocs": count[kinds[0]], "frees": count[kinds[1]], "last_sample": samples[-1] if samples else None,
            "pools": last_level(reader, 10) + last_level(reader, 26), "kinds": {mtr.KINDS[k]: n for k, n in count.items()}, "at_peak": moment(reader, at), "at_reserved": moment(reader, -reserved_at),
            "blocks": reader.blocks(kinds, at, stacks), "segments": reader.blocks(DEVICE, -reserved_at if reserved else device_at, stacks),
            "device_blocks": reader.blocks(DEVICE, len(reader.ours), stacks)}


def checks(path, truth):
    """[(name, recorded, PyTorch's, equal)]: the recorder against what PyTorch counted in the same process."""
    reader = Reader(path)
    native = truth["backend"] == "native"
    kinds = TENSOR if native else POOL
    recorded = {"allocated": reader.peak(kinds)[0], "reserved": reader.level(4 if native else 10)[0]}
    found = [(name, recorded[name], truth[name], recorded[name] == truth[name]) for name in recorded]
    if native:
        count = collections.Counter(r[5] for r in reader.ours)
        for name, kind in (("allocs", 1), ("frees", 2)):
            found.append((name, count[kind], truth[name], count[kind] == truth[name]))
        live = {address: size for (_, address), (size, *_) in reader.live(TENSOR, len(reader.ours)).items()}
        theirs = {address: size for device, address, size in truth["blocks"] if device == 0}
        found.append(("live blocks", len(live), len(theirs), live == theirs))
    found.append(("lost events", reader.trace.lost_events, 0, not reader.trace.lost_events))
    return found
