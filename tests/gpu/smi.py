"""nvidia-smi: what it says about the devices, for machines without a usable NVML, and its whole text for the record."""
import re
import subprocess

FIELDS = ["index", "uuid", "name", "pci.bus_id", "driver_version", "memory.total", "memory.used", "memory.reserved", "persistence_mode",
          "ecc.mode.current", "mig.mode.current", "compute_mode", "display_active"]
MiB = 1 << 20


def ask(*arguments, environment=None, limit=30):
    """(text, why): the output, or the reason that there is none."""
    try:
        done = subprocess.run(["nvidia-smi", *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
    except FileNotFoundError:
        return None, "there is no nvidia-smi here"
    except subprocess.TimeoutExpired:
        return None, "nvidia-smi took longer than %d s" % limit
    except OSError as error:
        return None, "nvidia-smi: %s" % error
    text = done.stdout.decode(errors="replace")
    return (text, None) if done.returncode == 0 else (None, text.strip()[:500] or "nvidia-smi ended with status %d" % done.returncode)


PRIVATE = re.compile(r"^.*(Serial Number|UUID|Process ID|Process Type|Name  |Host).*\n?", re.M)


def everything(environment=None):
    """(text of nvidia-smi -q without what names this very machine, why)"""
    text, why = ask("-q", environment=environment)
    return (PRIVATE.sub("", text), None) if text else (None, why)


def value(text):
    """A field's text, or None for "[N/A]", "[Not Supported]", "[Insufficient Permissions]" and the like."""
    text = text.strip()
    return None if not text or text.startswith("[") or text in ("N/A", "Not Supported") else text


def mebibytes(text):
    """"81559 MiB" or "81559" to bytes."""
    text = value(text or "")
    try:
        return int(text.split()[0]) * MiB if text else None
    except ValueError:
        return None


def rows(text, fields):
    found = []
    for line in text.splitlines():
        cells = [value(c) for c in line.split(", ")] if ", " in line else [value(c) for c in line.split(",")]
        if len(cells) == len(fields):
            found.append(dict(zip(fields, cells)))
    return found


def devices(environment=None):
    """([device], why): one dictionary for each GPU. A field that this version does not know is left out."""
    fields, why = list(FIELDS), None
    for _ in FIELDS:
        text, why = ask("--query-gpu=" + ",".join(fields), "--format=csv,noheader", environment=environment)
        unknown = [f for f in fields if why and '"%s"' % f in why]
        if text is not None or not unknown:
            break
        fields.remove(unknown[0])
    if text is None:
        return [], why
    found = []
    for row in rows(text, fields):
        memory = {k: mebibytes(row.get("memory." + k)) for k in ("total", "used", "reserved")}
        found.append({"index": int(row["index"] or 0), "uuid": row.get("uuid"), "name": row.get("name"), "bus_id": row.get("pci.bus_id"),
                      "driver": row.get("driver_version"), "memory": memory, "persistence": row.get("persistence_mode"),
                      "ecc": row.get("ecc.mode.current"), "mig": row.get("mig.mode.current"), "compute_mode": row.get("compute_mode"),
                      "display": row.get("display_active")})
    return found, None if found else "nvidia-smi lists no GPU: %s" % text.strip()[:200]
