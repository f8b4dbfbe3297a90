"""Two ranks of a job meet in a communicator, without PyTorch: its id goes through the store in the protocol's own bytes.

meet.py HOW: how it ends. In the communicator, rank 0 waits for rank 1 (but for "end"), which
    end      answers
    raise    raises an exception      killed   is killed      join     never joins a second communicator
    hang     never sends
"""
import ctypes
import os
import signal
import socket
import struct
import sys
import time

rank, how = os.environ["SIMULATE_RANKS"].split(",").index(os.environ["RANK"]), sys.argv[1]
nccl = ctypes.CDLL(None)


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]


def text(s):
    return struct.pack("<Q", len(s)) + s


def shared_id(store, number):
    """Rank 0's id, through the store: SET, GET."""
    key, new = b"\x01memtrace:2:0.1/nccl_storekey_%d" % number, Id()
    if rank == 0:
        nccl.ncclGetUniqueId(ctypes.byref(new))
        store.sendall(key[:1] + text(key[1:]) + text(bytes(new)))
        return new
    store.sendall(b"\x03" + text(key[1:]))
    got = store.recv(8 + 128, socket.MSG_WAITALL)
    return Id.from_buffer_copy(got[8:])


def join(store, number):
    comm = ctypes.c_void_p()
    error = nccl.ncclCommInitRank(ctypes.byref(comm), 2, shared_id(store, number), rank)
    return comm if not error else sys.exit("ncclCommInitRank: %d" % error)


def main():
    store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    store.sendall(b"\x00\xce\xf7\x85\x3c")
    comm, number = join(store, 0), ctypes.c_int(rank + 1)
    if nccl.ncclAllReduce(ctypes.byref(number), ctypes.byref(number), ctypes.c_size_t(1), 2, 0, comm, None) or number.value != 3:
        sys.exit("wrong sum: %d" % number.value)
    os.write(1, b"rank %d of process %d is there\n" % (rank, os.getpid()))
    if how == "end":
        return nccl.ncclCommDestroy(comm)
    if rank == 0:
        if how == "join":
            join(store, 1)
        sys.exit("ncclRecv: %d" % nccl.ncclRecv(ctypes.byref(number), ctypes.c_size_t(1), 2, 1, comm, None))
    if how == "raise":
        raise ValueError("as asked")
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


sys.exit(main())
