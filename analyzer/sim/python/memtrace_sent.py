"""What ranks that do not run would broadcast, where it decides what this rank does: a few integers (flags, sizes).

Every simulated rank writes down the integers that it broadcasts. A rank that gets some from a rank which does not run with it takes them from
what that one wrote, and waits for it; memtrace starts it, if it was not to be simulated anyway (analyzer/sim/sent.c). As all ranks run one
program, a sender that nobody asked for is stood for by the one at its place in a group of the same shape that begins with rank 0, if there is
such a group: one more rank is enough for most.

The directory SIMULATE_SENT has "wanted" (a line for each rank that somebody waits for), RANK.ended (by memtrace), and RANK.sent-KEY.
"""
import ctypes
import os
import time

MOST_BYTES = 256
INTEGERS = "torch.int16", "torch.int32", "torch.int64", "torch.bool"


def decides(tensor):
    return str(tensor.dtype) in INTEGERS and tensor.is_contiguous() and 0 < size(tensor) <= MOST_BYTES


def size(tensor):
    return tensor.numel() * tensor.element_size()


class Sent:
    def __init__(self, directory, rank, asked, say):
        self.directory, self.rank, self.asked, self.say = directory, rank, asked, say
        self.turns, self.shapes, self.writers, self.unknown = {}, {}, {}, set()

    def path(self, rank, what):
        return os.path.join(self.directory, "%d.%s" % (rank, what))

    def turn(self, ranks, sender):
        """A key that the senders of like groups share, and how often it was asked for: the group's shape, which of the groups of that
        shape it is in the order of use, the sender's place."""
        shape = tuple(r - ranks[0] for r in ranks)
        groups = self.shapes.setdefault(shape, [])
        if ranks not in groups:
            groups.append(ranks)
        key = "%x-%d-%d" % (hash(shape) & (1 << 64) - 1, groups.index(ranks), ranks.index(sender))
        self.turns[key] = self.turns.get(key, -1) + 1
        return key, self.turns[key]

    def write(self, ranks, value):
        key, _ = self.turn(ranks, self.rank)
        with open(self.path(self.rank, "sent-" + key), "a") as f:
            f.write(value.hex() + "\n")

    def take_from(self, key, writer):
        """Whose file has what is sent under that key."""
        self.writers[key] = writer
        with open(os.path.join(self.directory, "wanted"), "a") as f:
            f.write("%d\n" % writer)

    def lines(self, writer, key):
        try:
            with open(self.path(writer, "sent-" + key)) as f:
                return f.read().split("\n")[:-1]
        except FileNotFoundError:
            return []

    def read(self, ranks, sender):
        """What `sender` broadcasts now; None: it never did."""
        key, turn = self.turn(ranks, sender)
        deputy = sender - ranks[0]
        if key not in self.writers:
            self.take_from(key, sender if sender in self.asked or deputy == self.rank else deputy)
        while True:
            writer = self.writers[key]
            has_ended = os.path.exists(self.path(writer, "ended"))
            lines = self.lines(writer, key)
            if turn < len(lines):
                return bytes.fromhex(lines[turn])
            if has_ended and (writer == sender or lines):
                return None
            if has_ended:  # the deputy has no such group
                self.take_from(key, sender)
            time.sleep(0.02)

    def receive(self, tensor, ranks, sender):
        value = self.read(ranks, sender)
        if value is not None and len(value) == size(tensor):
            ctypes.memmove(tensor.data_ptr(), value, len(value))
        elif sender not in self.unknown:
            self.unknown.add(sender)
            self.say("integers that rank %d broadcasts, which does not run, are not known: this rank keeps its own" % sender)


def install(c10d, sent, members, running, replace):
    """Wraps broadcast(). The simulated device's memory is this process's: reading it here makes no call and waits for nothing."""
    real = c10d.broadcast

    def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
        work = real(tensor, src, group, async_op, **({} if group_src is None else {"group_src": group_src}))
        if c10d._rank_not_in_group(group) or not decides(tensor):
            return work
        ranks = members(c10d, group)
        sender = src if group_src is None else ranks[group_src]
        if sender == sent.rank:
            sent.write(ranks, ctypes.string_at(tensor.data_ptr(), size(tensor)))
        elif sender in ranks and sender not in running:
            sent.receive(tensor, ranks, sender)
        return work
    broadcast.__doc__, broadcast.__wrapped__ = real.__doc__, real
    replace(c10d, "broadcast", broadcast)
