"""The row of gpus.def that simulates a GPU: the same device, otherwise the one that is most like it."""
import os
import re

ROW = re.compile(r'^GPU\("([^"]+)", *(\d+), *(\d+), *(\d+), *(\d+), *(\d+), *"([^"]+)"', re.M)


def cards(root):
    """[(name, bytes, major, minor, multiprocessors, device name)]"""
    with open(os.path.join(root, "preload", "sim", "device", "gpus.def")) as f:
        return [(name, int(memory), int(major), int(minor), int(count), device)
                for name, _, memory, major, minor, count, device in ROW.findall(f.read())]


def driver(settings, version):
    """The value for CUDASIM_DRIVER: the driver's branch, or the newest older one that is known; None if there is no such setting or branch."""
    row = re.search(r'"CUDASIM_DRIVER", *"([^"]*)"', settings)
    branch = re.match(r"\d+", version or "")
    known = [int(c) for c in row.group(1).split("|") if c.isdigit()] if row else []
    older = [c for c in known if branch and c <= int(branch.group())]
    return str(max(older)) if older else None


def plain(name):
    """A device's name without its MIG profile, in small letters."""
    return re.sub(r"\s+MIG\s.*$", "", name).strip().lower()


def choose(root, name, capability, total, multiprocessors):
    """(name for CUDASIM_GPU, whether it is the same device, a sentence): by the device's name, then capability, multiprocessors, memory."""
    known = cards(root)
    same = [c for c in known if plain(name) in (c[5].lower(), c[0].lower())]
    sliced = plain(name) != name.strip().lower()
    if same:
        card = min(same, key=lambda c: abs(c[1] - total))
        note = "simulated as %s with the memory of this device" % card[0]
        if sliced:
            note += "; a MIG instance has fewer multiprocessors (%d, not %d), which is not simulated" % (multiprocessors, card[4])
        return card[0], not sliced, note
    card = min(known, key=lambda c: (c[2:4] != tuple(capability), c[2] != capability[0], abs(c[4] - multiprocessors), abs(c[1] - total)))
    return card[0], False, "%s is not a row of gpus.def; simulated as %s (compute capability %d.%d) with the memory of this device" % (
        name, card[0], card[2], card[3])
