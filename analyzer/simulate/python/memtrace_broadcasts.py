"""Data of missing ranks on which this rank's decisions depend: small integers (flags, sizes, shapes) and objects.

Every simulated rank logs such data that it broadcasts, scatters, or sends to a rank that does not run with it. A rank that receives data from a
missing rank waits for that rank's log and reads it. memtrace starts the missing rank as an auxiliary rank, unless it is simulated anyway
(analyzer/simulate/broadcasts.c). All ranks run one program. So a sender that was not requested is represented by the rank at the same position in
a group of the same shape that begins with rank 0, if there is such a group: one auxiliary rank is enough for most jobs.

The directory SIMULATE_SENT has "wanted" (one line for each rank whose log is needed), RANK.ended (written by memtrace), and RANK.sent-KEY, with one
line for each send: the data in hexadecimal, or an empty line if they were too large.
"""
import ctypes
import io
import os
import pickle
import time

MAX_BYTES, MAX_OBJECT_BYTES = 1024, 1 << 20
INTEGERS = "torch.int16", "torch.int32", "torch.int64", "torch.bool"


def decides(tensor):
    return str(tensor.dtype) in INTEGERS and tensor.is_contiguous() and 0 < size(tensor) <= MAX_BYTES


def size(tensor):
    return tensor.numel() * tensor.element_size()


def contents(tensor):
    """The simulated device's memory is in this process: reading it needs no call and no wait."""
    return ctypes.string_at(tensor.data_ptr(), size(tensor))


class Bounded(io.BytesIO):
    def write(self, data):
        if self.tell() + len(data) > MAX_OBJECT_BYTES:
            raise OverflowError
        return super().write(data)


def pickled(objects):
    to = Bounded()
    try:
        pickle.dump(objects, to)
    except Exception:  # too large, or an error that the call itself will report
        return b""
    return to.getvalue()


class Sent:
    def __init__(self, directory, rank, asked, say):
        self.directory, self.rank, self.asked, self.say = directory, rank, asked, say
        self.turns, self.shapes, self.writers, self.unknown = {}, {}, {}, set()

    def path(self, rank, what):
        return os.path.join(self.directory, "%d.%s" % (rank, what))

    def turn(self, what, ranks, sender, receiver):
        """(key, number of earlier uses of the key). Senders of similar groups share a key: the kind of data, the group's shape, the group's number
        among the groups of that shape in the order of use, the sender's position, and the receiver's if there is one."""
        shape = tuple(r - ranks[0] for r in ranks)
        groups = self.shapes.setdefault(shape, [])
        if ranks not in groups:
            groups.append(ranks)
        key = "%s-%x-%d-%d" % (what, hash(shape) & (1 << 64) - 1, groups.index(ranks), ranks.index(sender))
        if receiver is not None:
            key += "-%d" % ranks.index(receiver)
        self.turns[key] = self.turns.get(key, -1) + 1
        return key, self.turns[key]

    def write(self, what, ranks, value, receiver=None):
        key, _ = self.turn(what, ranks, self.rank, receiver)
        with open(self.path(self.rank, "sent-" + key), "a") as f:
            f.write(value.hex() + "\n")

    def take_from(self, key, writer):
        """Reads the data of that key from the log of rank `writer`, and requests that rank."""
        self.writers[key] = writer
        with open(os.path.join(self.directory, "wanted"), "a") as f:
            f.write("%d\n" % writer)

    def lines(self, writer, key):
        try:
            with open(self.path(writer, "sent-" + key)) as f:
                return f.read().split("\n")[:-1]
        except FileNotFoundError:
            return []

    def read(self, what, ranks, sender, receiver=None):
        """The data that `sender` sends now; None: it sent none, or they are unknown."""
        key, turn = self.turn(what, ranks, sender, receiver)
        representative = sender - ranks[0]
        if key not in self.writers:
            self.take_from(key, sender if sender in self.asked or representative == self.rank else representative)
        while True:
            writer = self.writers[key]
            has_ended = os.path.exists(self.path(writer, "ended"))
            lines = self.lines(writer, key)
            if turn < len(lines):
                return bytes.fromhex(lines[turn]) or None
            if has_ended and (writer == sender or lines):
                return None
            if has_ended:  # the representative has no such group
                self.take_from(key, sender)
            time.sleep(0.02)

    def not_known(self, what, sender):
        if (what, sender) not in self.unknown:
            self.unknown.add((what, sender))
            self.say("%s that rank %d sends, which does not run, are not known: this rank keeps its own" % (what, sender))

    def read_into(self, tensor, ranks, sender, receiver=None):
        value = self.read("integers", ranks, sender, receiver)
        if value is not None and len(value) == size(tensor):
            ctypes.memmove(tensor.data_ptr(), value, len(value))
        else:
            self.not_known("integers", sender)

    def read_objects(self, ranks, sender, receiver=None):
        """A list, or None."""
        value = self.read("objects", ranks, sender, receiver)
        if value is None:
            self.not_known("objects", sender)
        return value and pickle.loads(value)


class Calls:
    """Wraps the calls that send integers. Calls inside a call that sends objects or several messages are left to the outer call."""

    def __init__(self, c10d, sent, members, running):
        self.c10d, self.sent, self.members, self.running = c10d, sent, members, running
        self.depth = 0

    def within(self, real, first, given):
        self.depth += 1
        try:
            return real(first, **given)
        finally:
            self.depth -= 1

    def peer(self, given, name):
        """(ranks of the group, the global rank of the peer), from its global rank or its rank in the group."""
        ranks = self.members(self.c10d, given.get("group"))
        place = given.get("group_" + name)
        return ranks, given.get(name) if place is None else ranks[place]

    def is_mine(self, tensor):
        return not self.depth and decides(tensor)

    def broadcast(self, real, tensor, given):
        work = real(tensor, **given)
        ranks, sender = self.peer(given, "src")
        if self.is_mine(tensor):
            if sender == self.sent.rank:
                self.sent.write("integers", ranks, contents(tensor))
            elif sender in ranks and sender not in self.running:
                self.sent.read_into(tensor, ranks, sender)
        return work

    def send(self, real, tensor, given):
        ranks, receiver = self.peer(given, "dst")
        if self.is_mine(tensor) and receiver in ranks and receiver not in self.running:
            self.sent.write("integers", ranks, contents(tensor), receiver)
        return real(tensor, **given)

    def receive(self, real, tensor, given):
        work = real(tensor, **given)
        ranks, sender = self.peer(given, "src")
        if self.is_mine(tensor) and sender in ranks and sender not in self.running:
            self.sent.read_into(tensor, ranks, sender, self.sent.rank)
        return work

    def batch(self, real, operations, given):
        """All sends come before all receives, as in a group of NCCL calls."""
        def each(name, call, peer):
            for o in operations:
                if o.op is getattr(self.c10d, name):
                    call(lambda *_, **__: None, o.tensor, {"group": o.group, peer: o.peer})
        each("isend", self.send, "dst")
        works = self.within(real, operations, given)
        each("irecv", self.receive, "src")
        return works

    def install(self, wrap):
        wrap(self.c10d, "broadcast", self.broadcast)
        for name in ("send", "isend"):
            wrap(self.c10d, name, self.send)
        for name in ("recv", "irecv"):
            wrap(self.c10d, name, self.receive)
        wrap(self.c10d, "batch_isend_irecv", self.batch)
