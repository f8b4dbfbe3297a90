"""The machine's GPU: which one is used, what it is, and how much of its memory is in use without us."""
import ctypes
import glob
import os
import re
import time

import cards
import smi
from nvml import Nvml

SETTLE = 2  # seconds within which a driver takes back what an ended process held


class Machine:
    """Keeps NVML open, which also keeps a driver without persistence mode from leaving between two jobs."""

    def __init__(self, root, environment):
        self.root, self.environment = root, environment
        self.nvml = Nvml()
        self.by_smi, self.smi_why = smi.devices(environment)
        self.by_nvml = [d for d in map(self.nvml.device, range(self.nvml.count())) if d]
        self.index, self.sliced = None, False

    def has_driver(self):
        """Is there anything of a driver? If not, no Python needs to be asked."""
        if self.by_nvml or self.by_smi or glob.glob("/dev/nvidia*") or os.path.exists("/dev/dxg"):
            return True
        try:
            return bool(ctypes.CDLL("libcuda.so.1"))
        except OSError:
            return False

    def choose(self):
        """The value for CUDA_VISIBLE_DEVICES: the GPU with the least memory in use, or None if the caller or there being one decides."""
        known = self.by_nvml or self.by_smi
        self.sliced = any(d.get("mig") in (1, "Enabled") for d in known)
        if os.environ.get("CUDA_VISIBLE_DEVICES") is not None or len(known) < 2 or self.sliced:
            return None
        return str(min(known, key=lambda d: ((d.get("memory") or {}).get("used") or 0, d["index"]))["index"])

    def found(self, answer):
        """After PyTorch has named its device: the device's number for NVML and nvidia-smi."""
        bus = (answer.get("bus_id") or "").lower()
        for device in self.by_smi:
            if bus and (device.get("bus_id") or "").lower().endswith(bus.split(":", 1)[-1]):
                self.index = device["index"]
        for index in range(self.nvml.count()):
            if answer.get("uuid") and answer["uuid"] in (self.nvml.text("nvmlDeviceGetUUID", self.nvml.handle(index)) or ""):
                self.index = index
        if self.index is None and len(self.by_nvml or self.by_smi) == 1:
            self.index = (self.by_nvml or self.by_smi)[0]["index"]

    def used(self):
        """Bytes in use on the device by everybody, or None: NVML's answer, otherwise nvidia-smi's."""
        if self.index is None or self.sliced:
            return None
        memory = self.nvml.memory(self.nvml.handle(self.index))
        if memory:
            return memory["used"]
        devices, _ = smi.devices(self.environment)
        return next((d["memory"]["used"] for d in devices if d["index"] == self.index), None)

    def settled(self, before):
        """What is in use after a job has ended, once the driver has taken back what the job held."""
        end = time.monotonic() + SETTLE
        while True:
            now = self.used()
            if now is None or before is None or now <= before + (1 << 20) or time.monotonic() > end:
                return now
            time.sleep(0.2)

    def simulated(self, answer):
        """(settings of the simulated device, whether it is the same, a sentence)"""
        name, same, note = cards.choose(self.root, answer["name"], answer["capability"], answer["total"], answer["multiprocessors"])
        settings = {"CUDASIM_GPU": name, "CUDASIM_MEMORY": str(answer["total"])}
        with open(os.path.join(self.root, "preload", "sim", "device", "settings.def")) as f:
            branch = cards.driver(f.read(), self.driver())
        if branch:
            settings["CUDASIM_DRIVER"] = branch
        return settings, same, note

    def driver(self):
        """The driver's version by NVML, nvidia-smi or the kernel module, or None."""
        found = self.nvml.versions()["driver"] or next((d["driver"] for d in self.by_smi if d.get("driver")), None)
        if not found:
            try:
                with open("/proc/driver/nvidia/version") as f:
                    found = next(iter(re.findall(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", f.read())), None)
            except OSError:
                return None
        return found

    def others(self):
        """The bytes of each process on the GPU before the first job, or None."""
        found = self.nvml.processes(self.nvml.handle(self.index)) if self.index is not None else None
        return found and [used for _, used in found]

    def facts(self):
        """For the JSON: everything that NVML and nvidia-smi say."""
        text, why = smi.everything(self.environment)
        shown = [{k: v for k, v in d.items() if k != "uuid"} for d in self.by_nvml]
        others = [{k: v for k, v in d.items() if k != "uuid"} for d in self.by_smi]
        return {"nvml": shown, "nvml_why": self.nvml.why, "nvml_versions": self.nvml.versions(), "smi": others, "smi_why": self.smi_why,
                "smi_text": text or why, "driver": self.driver(), "index": self.index, "mig": self.sliced,
                "processes": self.others()}
