"""NVML by ctypes, without a CUDA context: what a device is, and its memory in use by all processes. Every answer may be missing."""
import ctypes
import os

UNAVAILABLE = 2 ** 64 - 1


class Memory2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class Memory1(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


class Nvml:
    """`why`: the reason if there is no NVML here; every question then answers None."""

    def __init__(self, path=None):
        self.why, self.lib = None, None
        try:
            self.lib = ctypes.CDLL(path or os.environ.get("TEST_GPU_NVML") or "libnvidia-ml.so.1")
            status = self.lib.nvmlInit_v2()
            if status:
                self.why, self.lib = "nvmlInit: %s" % self.error(status), None
        except (OSError, AttributeError) as error:
            self.why, self.lib = str(error), None

    def error(self, status):
        try:
            self.lib.nvmlErrorString.restype = ctypes.c_char_p
            return self.lib.nvmlErrorString(status).decode()
        except (AttributeError, ValueError):
            return "error %d" % status

    def call(self, name, *arguments):
        """Did the function succeed? An older library may lack it."""
        try:
            return self.lib is not None and getattr(self.lib, name)(*arguments) == 0
        except AttributeError:
            return False

    def text(self, name, *arguments):
        out = ctypes.create_string_buffer(256)
        return out.value.decode(errors="replace") if self.call(name, *arguments, out, ctypes.c_uint(256)) else None

    def number(self, name, handle, second=False):
        """A whole number; `second`: the function has another output after it (a pending mode)."""
        value, other = ctypes.c_uint(), ctypes.c_uint()
        more = [ctypes.byref(other)] if second else []
        return value.value if self.call(name, handle, ctypes.byref(value), *more) else None

    def count(self):
        value = ctypes.c_uint()
        return value.value if self.call("nvmlDeviceGetCount_v2", ctypes.byref(value)) else 0

    def handle(self, index=None, bus_id=None, uuid=None):
        found = ctypes.c_void_p()
        if uuid is not None:
            good = self.call("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()), ctypes.byref(found))
        elif bus_id is not None:
            good = self.call("nvmlDeviceGetHandleByPciBusId_v2", ctypes.c_char_p(bus_id.encode()), ctypes.byref(found))
        else:
            good = self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(found))
        return found if good else None

    def memory(self, handle):
        """{"total", "used", "free", "reserved"}: `used` without what the driver reserves, as nvidia-smi prints it since version 510."""
        if handle is None:
            return None
        info = Memory2(version=ctypes.sizeof(Memory2) | 2 << 24)
        if self.call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(info)):
            return {name: getattr(info, name) for name in ("total", "used", "free", "reserved")}
        old = Memory1()
        if self.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(old)):
            return {"total": old.total, "used": old.used, "free": old.free, "reserved": None}
        return None

    def processes(self, handle):
        """[(pid, bytes or None)]; in a container the pids are those of the host, or missing."""
        if handle is None:
            return None
        count, rows = ctypes.c_uint(256), (Process * 256)()
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
            if self.call(name, handle, ctypes.byref(count), rows):
                return [(p.pid, None if p.used == UNAVAILABLE else p.used) for p in rows[:count.value]]
        return None

    def device(self, index):
        """What can be known of a device, for the page."""
        handle = self.handle(index)
        if handle is None:
            return None
        return {"index": index, "name": self.text("nvmlDeviceGetName", handle), "uuid": self.text("nvmlDeviceGetUUID", handle),
                "memory": self.memory(handle), "persistence": self.number("nvmlDeviceGetPersistenceMode", handle),
                "ecc": self.number("nvmlDeviceGetEccMode", handle, second=True), "mig": self.number("nvmlDeviceGetMigMode", handle, second=True),
                "compute_mode": self.number("nvmlDeviceGetComputeMode", handle), "display": self.number("nvmlDeviceGetDisplayActive", handle),
                "processes": len(self.processes(handle) or [])}

    def versions(self):
        number = ctypes.c_int()
        cuda = number.value if self.call("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(number)) else None
        return {"driver": self.text("nvmlSystemGetDriverVersion"), "nvml": self.text("nvmlSystemGetNVMLVersion"), "driver_cuda": cuda}
