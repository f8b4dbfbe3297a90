"""Computes small Triton kernels on the host, because sizes may depend on their results: the simulated device runs no Triton kernel.

A kernel is computed if all tensors that it takes are of integers or booleans: routing, counts, prefix sums, permutations. Triton's own interpreter
does it, in a process of its own (memtrace_triton_worker.py), since the interpreter changes triton.language for the process in which it runs.
"""
import ast
import ctypes
import hashlib
import inspect
import os
import pickle
import struct
import subprocess
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_BYTES = 64 << 20   # of a kernel's tensors, as of a copy on the simulated device
MOST_PROGRAMS = 4096    # of a launch
MOST_SECONDS = 600      # of processor time, for all kernels of a job
MOST_ANSWERS = 64       # kept, for launches with the same data
MOST_KEPT = 64 << 20    # bytes of them, in the job's own memory


class Unknown(Exception):
    """The result of this launch cannot be known, and why; `always`: nor that of another launch of the kernel."""

    def __init__(self, reason, always=False):
        super().__init__(reason)
        self.always = always


# ---- a kernel as a module of its own

class Source:
    """The text of a module with one kernel, and with all that it names."""

    def __init__(self, jit):
        self.jit, self.lines, self.bound = jit, ["import triton", "import triton.language"], {}

    def add(self, kernel, name):
        self.bound[name] = kernel
        function = kernel.fn
        for used in sorted(names_of(function.__code__)):
            if used in function.__globals__:
                self.bind(used, function.__globals__[used])
        self.lines.append("@triton.jit\n" + text_of(kernel))
        if name != function.__name__:
            self.lines.append("%s = %s" % (name, function.__name__))

    def bind(self, name, value):
        if name in self.bound:
            if self.bound[name] is not value:
                raise Unknown("%s is two things in its modules" % name, always=True)
            return
        if isinstance(value, self.jit.JITFunction) and not (value.__module__ or "").startswith("triton."):
            self.add(value, name)
            return
        self.bound[name] = value
        self.lines.append(binding(name, value))


def binding(name, value):
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, types.ModuleType):
        return "import %s\n%s = __import__('sys').modules[%r]" % (value.__name__, name, value.__name__)
    if type(value).__name__ == "constexpr":
        return "%s = triton.language.constexpr(%r)" % (name, value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return "%s = %r" % (name, value)
    if module.startswith("triton") and hasattr(value, "__name__"):
        return "from %s import %s as %s" % (module, value.__name__, name)
    raise Unknown("%s is of type %s" % (name, type(value).__name__), always=True)


def names_of(code):
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_of(constant)
    return names


def text_of(kernel):
    text = getattr(kernel, "src", None) or getattr(kernel, "_src", None)
    if not text:
        raise Unknown("its source is not there", always=True)
    return text


def pointers_written(kernel):
    """The parameters that are in the address of a store or of an atomic operation, or that another function gets; without source, all."""
    try:
        tree = ast.parse(text_of(kernel))
    except (Unknown, SyntaxError):
        return set(kernel.arg_names)
    sources, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in {n for t in targets for n in addresses_in(t)}:
                sources.setdefault(name, set()).update(addresses_in(node.value) if node.value else ())
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.args and (node.func.attr == "store" or node.func.attr.startswith("atomic_")):
                found |= addresses_in(node.args[0])
        elif isinstance(node, ast.Call):
            found |= {n for a in node.args for n in addresses_in(a)}
    while True:
        more = {n for f in found for n in sources.get(f, ())} - found
        if not more:
            return found & set(kernel.arg_names)
        found |= more


def addresses_in(node):
    """Names in an expression, but for those of what it loads."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
        return set()
    return {n for child in ast.iter_child_nodes(node) for n in addresses_in(child)}


# ---- its arguments

class Memory:
    """The bytes of the device that a kernel may reach, a copy for each storage; None where the device does not know them."""

    def __init__(self, device):
        self.device, self.places, self.content = device, {}, []

    def add(self, tensor):
        storage = tensor.untyped_storage()
        at, size = storage.data_ptr(), storage.nbytes()
        if at not in self.places:
            if size + sum(n for n, _ in self.content) > MOST_BYTES:
                raise Unknown("its tensors are larger than 64 MiB")
            copy = ctypes.create_string_buffer(size)
            known = self.device.cudasim_copy(copy, ctypes.c_void_p(at), ctypes.c_size_t(size)) if size else 1
            self.places[at] = len(self.content)
            self.content.append((size, copy.raw if known else None))
        return ("tensor", self.places[at], str(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())

    def write(self, written):
        for at, place in self.places.items():
            for start, data in written[place]:
                self.device.cudasim_copy(ctypes.c_void_p(at + start), data, ctypes.c_size_t(len(data)))


def is_tensor(value):
    return hasattr(value, "untyped_storage") and hasattr(value, "dtype")


def are_integers(tensors):
    return bool(tensors) and all(t.is_cuda and not t.dtype.is_floating_point and not t.dtype.is_complex for t in tensors)


# ---- the process with the interpreter

class Answers:
    """What the last launches wrote, pickled: a list of many short runs takes ten times its bytes."""

    def __init__(self):
        self.kept, self.bytes = {}, 0

    def keep(self, key, written):
        data = pickle.dumps(written)
        if len(data) > MOST_KEPT:
            return
        while len(self.kept) == MOST_ANSWERS or self.bytes + len(data) > MOST_KEPT:
            self.bytes -= len(self.kept.pop(next(iter(self.kept))))
        self.kept[key] = data
        self.bytes += len(data)

    def find(self, key):
        return pickle.loads(self.kept[key]) if key in self.kept else None


class Worker:
    def __init__(self):
        left_out = ("LD_PRELOAD", "SIMULATE_STEPS", "SIMULATE_RANKS")
        env = {k: v for k, v in os.environ.items() if k not in left_out}
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "memtrace_triton_worker.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env={**env, "TRITON_INTERPRET": "1"})
        self.owner, self.seconds, self.answers = os.getpid(), 0.0, Answers()

    def ask(self, request):
        """The runs of bytes that the kernel wrote, of each storage."""
        try:
            data = pickle.dumps(request)
        except Exception as e:
            raise Unknown("an argument cannot be sent: %s" % e) from e
        key = hashlib.sha256(data).digest()
        written = self.answers.find(key)
        if written is None:
            if self.seconds > MOST_SECONDS:
                raise Unknown("the kernels before it took %d seconds" % MOST_SECONDS)
            written = self.compute(data)
            self.answers.keep(key, written)
        return written

    def compute(self, data):
        try:
            self.process.stdin.write(struct.pack("=Q", len(data)) + data)
            self.process.stdin.flush()
            size, = struct.unpack("=Q", self.process.stdout.read(8))
            reason, always, written, seconds = pickle.loads(self.process.stdout.read(size))
        except (OSError, struct.error, EOFError, pickle.PickleError) as e:
            raise Unknown("Triton's interpreter ended", always=True) from e
        self.seconds += seconds
        if reason:
            raise Unknown(reason, always)
        return written


class Kernels:
    def __init__(self, jit):
        self.jit, self.worker, self.sources, self.refused, self.causes = jit, None, {}, {}, {}
        self.device = ctypes.CDLL(None)
        self.device.cudasim_copy.restype = ctypes.c_int

    def source(self, kernel):
        if kernel not in self.sources:
            source = Source(self.jit)
            source.add(kernel, kernel.fn.__name__)
            self.sources[kernel] = "\n\n".join(source.lines)
        return self.sources[kernel]

    def results(self, kernel, grid, values):
        """What writes the results."""
        programs = 1
        for n in grid:
            programs *= int(n)
        if programs > MOST_PROGRAMS:
            raise Unknown("its %d programs are too many" % programs)
        memory = Memory(self.device)
        sent = {name: memory.add(v) if is_tensor(v) else ("value", v) for name, v in values.items()}
        if not self.worker or self.worker.owner != os.getpid():
            self.worker = Worker()
        written = self.worker.ask((self.source(kernel), kernel.fn.__name__, grid, sent, memory.content))
        return lambda: memory.write(written)

    def forget(self, kernel, values, reason):
        """What the kernel writes is unknown. The cause stays readable for the device, which names it if the host reads that."""
        cause = "Triton kernel %s, which is not computed (%s)" % (kernel.fn.__name__, reason)
        cause = self.causes.setdefault(cause, ctypes.create_string_buffer(cause.encode()))
        for name in pointers_written(kernel):
            if is_tensor(values.get(name)):
                v = values[name]
                size = sum((n - 1) * s for n, s in zip(v.shape, v.stride())) * v.itemsize + v.itemsize if v.numel() else 0
                self.device.cudasim_forget(ctypes.c_void_p(v.data_ptr()), ctypes.c_size_t(size), cause)

    def before(self, kernel, grid, args, keys):
        """Computes the kernel from what its tensors hold before it runs. Returns what is to be done after it."""
        import torch
        bound = inspect.signature(kernel.fn).bind(*args, **{k: v for k, v in keys.items() if k in kernel.arg_names})
        bound.apply_defaults()
        values = dict(bound.arguments)
        if not are_integers([v for v in values.values() if is_tensor(v)]) or torch.cuda.is_current_stream_capturing():
            return None
        reason = self.refused.get(kernel)
        if not reason:
            try:
                return self.results(kernel, tuple(grid(values) if callable(grid) else grid), values)
            except Unknown as e:
                reason, always = str(e), e.always
            except Exception as e:      # a kernel of a kind that nobody has met
                reason, always = "%s: %s" % (type(e).__name__, e), True
            if always:
                self.refused[kernel] = reason
        return lambda: self.forget(kernel, values, reason)


def compute_small_kernels(jit):
    """`jit` is triton.runtime.jit."""
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0") or not hasattr(ctypes.CDLL(None), "cudasim_copy"):
        return
    kernels, real = Kernels(jit), jit.JITFunction.run

    def run(self, *args, grid, warmup, **keys):
        after = None if warmup else kernels.before(self, grid, args, keys)
        compiled = real(self, *args, grid=grid, warmup=warmup, **keys)
        if after:
            after()
        return compiled
    jit.JITFunction.run = run
