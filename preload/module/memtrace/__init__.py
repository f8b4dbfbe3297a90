"""What a job says to memtrace of itself.

    import memtrace

    for batch in loader:
        with memtrace.phase("forward"):
            loss = model(batch)
        ...
        memtrace.step()

Without the recorder (LD_PRELOAD, `memtrace run`, `memtrace simulate`), every function does nothing. `memtrace report` shows the phases with the
most memory that was allocated while each was open, numbers the steps as step() does, and lists the marks.
"""
import operator
import os
import sys

try:
    import ctypes
except ImportError:  # a Python without libffi
    ctypes = None

__all__ = ["Levels", "flush", "mark", "peak", "levels", "phase", "recording", "step", "trace"]

_FLUSH_MS = 5000
_LONGEST_MS = 24 * 3600 * 1000
_NAME_BYTES = 119  # MARK_NAME_BYTES of preload/marks/marks.h


def _functions():
    """The functions of the preloaded recorder; None without it."""
    if not ctypes:
        return None
    try:
        here = ctypes.PyDLL(None)
        here.memtrace_phase_begin.argtypes = [ctypes.c_char_p]
        here.memtrace_phase_begin.restype = ctypes.c_uint64
        here.memtrace_phase_end.argtypes = [ctypes.c_uint64]
        here.memtrace_phase_end.restype = None
        here.memtrace_step.argtypes = []
        here.memtrace_step.restype = None
        here.memtrace_mark.argtypes = [ctypes.c_char_p]
        here.memtrace_mark.restype = None
        here.memtrace_levels.argtypes = [ctypes.c_uint, ctypes.POINTER(ctypes.c_uint64)]
        here.memtrace_trace.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        here.memtrace_flush.argtypes = [ctypes.c_uint]
    except (AttributeError, OSError, TypeError):
        return None
    return here


_recorder = _functions()
_waiting = ctypes.CDLL(None) if _recorder else None  # without the GIL: other threads go on


def _bytes(name):
    try:
        text = str(name)[:_NAME_BYTES].replace("\0", " ").encode("utf-8", "replace")
    except Exception:  # pylint: disable=broad-exception-caught  # a name whose str() raises must not end the job
        return b"(no name)"
    return text if len(text) <= _NAME_BYTES else text[:_NAME_BYTES].decode("utf-8", "ignore").encode()


class Levels:
    """Bytes of one device now, and their peaks since the process began."""

    __slots__ = ("allocated", "allocated_peak", "reserved", "reserved_peak", "device_peak")

    def __init__(self, values):
        for name, value in zip(self.__slots__, values):
            setattr(self, name, value)

    def __repr__(self):
        return "Levels(" + ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__) + ")"


def recording():
    """Does this process record? It does from its first GPU allocation on."""
    return levels() is not None


def step():
    """A step begins; or, called at the end of a step, the next one does. A report counts the steps from these calls alone."""
    if _recorder:
        _recorder.memtrace_step()


def mark(name):
    """A named moment."""
    if _recorder:
        _recorder.memtrace_mark(_bytes(name))


class phase:
    """A named part of the job: `with memtrace.phase("load"):`, or a decorator of a function. Phases may contain each other.

    The phase of a coroutine is open until it is done, that of a generator until it is exhausted or closed."""

    def __init__(self, name):
        self.name = name
        self._open = []

    def __enter__(self):
        if _recorder:
            self._open.append(_recorder.memtrace_phase_begin(_bytes(self.name)))
        return self

    def __exit__(self, *_):
        if self._open:
            _recorder.memtrace_phase_end(self._open.pop())
        return False

    def __call__(self, function):
        import functools
        import inspect

        # Each call is a phase of its own.
        if inspect.isasyncgenfunction(function):
            async def within(*args, **named):
                with phase(self.name):
                    async for item in function(*args, **named):
                        yield item
        elif inspect.iscoroutinefunction(function):
            async def within(*args, **named):
                with phase(self.name):
                    return await function(*args, **named)
        elif inspect.isgeneratorfunction(function):
            def within(*args, **named):
                with phase(self.name):
                    return (yield from function(*args, **named))
        else:
            def within(*args, **named):
                with phase(self.name):
                    return function(*args, **named)
        return functools.wraps(function)(within)


def _number(device):
    """Of a number or a torch.device; without one, PyTorch's current device. Raises TypeError."""
    index = getattr(device, "index", device)
    if index is None:
        torch = sys.modules.get("torch")
        index = torch.cuda.current_device() if torch and torch.cuda.is_initialized() else 0
    return operator.index(index)


def levels(device=0):
    """The `Levels` of a device, as the process numbers it (a number or a torch.device); None if nothing is recorded.

    None, or a torch.device without a number, is PyTorch's current device."""
    if not _recorder:
        return None
    try:
        device = _number(device)
    except TypeError:
        return None
    values = (ctypes.c_uint64 * len(Levels.__slots__))()
    if not 0 <= device < 1 << 31 or _recorder.memtrace_levels(device, values) != 0:
        return None
    return Levels(list(values))


def peak(device=0):
    """The most bytes that PyTorch had allocated at once on a device since the process began; None if nothing is recorded."""
    now = levels(device)
    return now.allocated_peak if now else None


def trace():
    """The path of this process's trace; None if nothing is recorded."""
    path = ctypes.create_string_buffer(4096 + 256)
    if not _recorder or _recorder.memtrace_trace(path, len(path)) != 0:
        return None
    return os.fsdecode(path.value)


def flush(limit_s=_FLUSH_MS / 1000):
    """Waits until the trace has all that was recorded before; False if it does not have it in time, or nothing is recorded."""
    if not _recorder:
        return False
    try:
        limit_ms = int(max(min(limit_s * 1000, _LONGEST_MS), 0))
    except (TypeError, ValueError):
        limit_ms = 0
    return _waiting.memtrace_flush(ctypes.c_uint(limit_ms)) == 0


def load_ipython_extension(ipython):
    """`%load_ext memtrace`: each cell of a notebook is a phase, "cell [3]"."""
    from memtrace import cells

    cells.load(ipython)


def unload_ipython_extension(ipython):
    from memtrace import cells

    cells.unload(ipython)
