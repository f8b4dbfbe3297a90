"""A second, independent reader of the trace format, for the tests: small and strict, offsets written out by hand."""
import fcntl
import os
import struct
import time

ALLOC = {1: "tensor", 5: "device", 8: "pool", 11: "managed", 13: "host", 16: "physical", 18: "map", 20: "array", 22: "registered", 24: "alias",
         27: "communicator"}
FREE = {2: 1, 6: 5, 9: 8, 12: 11, 14: 13, 17: 16, 19: 18, 21: 20, 23: 22, 25: 24, 28: 27}
LEVEL = {4, 10, 15, 26}
OOM, SAMPLE = 3, 15
KINDS = {1: "TENSOR_ALLOC", 2: "TENSOR_FREE", 3: "TENSOR_OOM", 4: "RESERVED", 5: "DEVICE_ALLOC", 6: "DEVICE_FREE", 7: "DEVICE_FAIL",
         8: "POOL_ALLOC", 9: "POOL_FREE", 10: "POOL_RESERVED", 11: "MANAGED_ALLOC", 12: "MANAGED_FREE", 13: "HOST_ALLOC", 14: "HOST_FREE",
         15: "DEVICE_SAMPLE", 16: "PHYSICAL_ALLOC", 17: "PHYSICAL_FREE", 18: "MAP", 19: "UNMAP", 20: "ARRAY_ALLOC", 21: "ARRAY_FREE",
         22: "HOST_REGISTER", 23: "HOST_UNREGISTER", 24: "ALIAS_OPEN", 25: "ALIAS_CLOSE", 26: "GRAPH_RESERVED", 27: "COMM_INIT",
         28: "COMM_DESTROY", 33: "NODE", 34: "GRAD_MODE", 35: "PARAMETER"}
UNKNOWN = 2**64 - 1
RECORD = struct.Struct("<QQqIHBB")


def text(b):
    return b.split(b"\0")[0].decode()


def has_header(path):
    """The writer writes the header last of all in its first pass."""
    with open(path, "rb") as f:
        return f.read(8) == b"memtrace"


def wait_for_writer(f):
    """Waits for the writer of a job that has just ended: first for the header, then for the end of the file's lock."""
    for _ in range(600):
        if has_header(f.name):
            break
        time.sleep(0.005)
    pid = struct.unpack_from("<I", os.pread(f.fileno(), 4, 60))[0]
    for _ in range(600):
        lock = fcntl.fcntl(f.fileno(), fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        if struct.unpack_from("h", lock)[0] == fcntl.F_UNLCK or os.path.exists("/proc/%d" % pid):
            return
        time.sleep(0.005)


class Trace:
    def __init__(self, path):
        with open(path, "rb") as f:
            wait_for_writer(f)
            self.data = d = f.read()
        assert d[:8] == b"memtrace" and struct.unpack_from("<4I", d, 8) == (1, 0x01020304, 65536, 32), path
        self.flags, self.state = struct.unpack_from("<2I", d, 24)
        self.exit_status, self.pid, self.ppid, self.rank, self.local_rank, self.world_size = struct.unpack_from("<iIIiii", d, 56)
        self.host, self.job_id, self.run_id = (text(d[o:o + 64]) for o in (96, 160, 224))
        (self.lost_reason, self.lost_errno, self.lost_events, self.lost_stacks, self.reused_records, self.inline_prepares,
         self.inline_ns, segments, tables) = struct.unpack_from("<Ii7Q", d, 304)
        self.device = [struct.unpack_from("<13Q", d, 368 + 128 * i) for i in range(16)]
        self.busy_stacks, = struct.unpack_from("<Q", d, 8576 + 64 * 512)
        self.tables(tables)
        found = [struct.unpack_from("<8Q", d, 8576 + 64 * i) for i in range(segments)]
        self.segments = sorted((s for s in found if s[3] != UNKNOWN and s[0] < len(d)), key=lambda s: s[3])

    def tables(self, count):
        self.strings, self.frames, self.stacks, self.modules, self.threads, self.meta = {}, {}, {}, {}, {}, {}
        for i in range(count):
            offset, capacity, used = struct.unpack_from("<3Q", self.data, 2416 + 24 * i)
            p, end = offset, offset + min(used, capacity)
            while p < end:
                kind, ident, n, _ = struct.unpack_from("<4I", self.data, p)
                body = self.data[p + 16:p + 16 + n]
                p += 16 + (n + 7) // 8 * 8
                if kind == 1:
                    self.strings[ident] = body.decode()
                elif kind == 2:
                    self.frames[ident] = struct.unpack("<4I", body)[:3]
                elif kind == 3:
                    self.stacks[ident] = struct.unpack("<%dI" % (n // 4), body)
                elif kind == 4:
                    self.modules[ident] = body.decode()
                elif kind == 5:
                    self.threads[ident] = (struct.unpack_from("<I", body)[0], body[4:].decode())
                elif kind == 6:
                    key, value = body.split(b"\0", 1)
                    self.meta[key.decode()] = value

    def stack(self, stack):
        """[(function, file, line)], innermost first"""
        return [(self.strings[f], self.strings[g], line) for f, g, line in (self.frames[i] for i in self.stacks.get(stack, (0,))[1:])]

    def module(self, stack):
        """The path of the calling module, or None"""
        return self.modules.get(self.stacks.get(stack, (0,))[0])

    def records(self, gaps=False):
        """(time, address, bytes, stack, thread, kind, device) in order; `gaps`: also of a trace whose earlier segments were used again"""
        expected = 0
        for offset, capacity, used, first, *_ in self.segments:
            assert gaps or first == expected, "a gap: use keyframes"
            n = min(used, capacity)
            for r in RECORD.iter_unpack(self.data[offset:offset + 32 * n]):
                if r[5]:
                    yield r
            expected = first + capacity

    def live(self, kind=1):
        live = {}
        for _, address, size, place, _, k, device in self.records():
            if k == kind:
                live[address] = (size, device, place)
            elif FREE.get(k) == kind:
                del live[address]
        return live

    def peak(self, device=0, kinds=(1, 2)):
        now = peak = 0
        for r in self.records():
            if r[5] in kinds and r[6] == device:
                now += r[2]
                peak = max(peak, now)
        return peak

    def level_peak(self, kind=4, device=0):
        return max((r[2] for r in self.records() if r[5] == kind and r[6] == device), default=0)
