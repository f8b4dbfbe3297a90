"""docs/gpu/<GPU>.md from the results: the answer first, then each difference by block, the cost, what did not run, the versions."""
import re

MiB = 1 << 20
SHOWN = 12  # rows of a table of blocks
FRAMES = 3  # frames of a stack


def slug(name):
    """A file's name for a GPU: "NVIDIA H100 80GB HBM3" to "H100-80GB-HBM3"."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", re.sub(r"^(NVIDIA|Tesla)\s+", "", name.strip())).strip("-") or "GPU"


def size(value):
    """Bytes for a reader: MiB, small ones in bytes."""
    if value is None:
        return "-"
    if abs(value) < 10 * 1024:
        return "%d B" % value
    return "{:,.1f} MiB".format(value / MiB) if abs(value) >= MiB else "%.1f KiB" % (value / 1024)


def difference(pair):
    real, simulated = pair
    if None in pair:
        return "-"
    if real == simulated:
        return "0"
    part = " (%+.2f %%)" % (100 * (simulated / real - 1)) if real else ""
    return ("+" if simulated > real else "") + size(simulated - real) + part


def cells(pair):
    return "%s | %s | %s" % (size(pair[0]), size(pair[1]), difference(pair))


def safe(text):
    """Text of a job or a machine inside a table."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", str(text)).replace("|", "/").replace("`", "'")[:300]


def some(blocks):
    text = ", ".join("%s%s" % ("%d × " % n if n > 1 else "", size(b)) for n, b in blocks[:4])
    return text + (", %d more sizes" % (len(blocks) - 4) if len(blocks) > 4 else "") if blocks else "-"


def place(results, where):
    text = results["stacks"][where] if isinstance(where, int) else where or "unknown library"
    return "`%s`" % safe(frames(text))


def frames(text):
    """The innermost frames of a stack, without those of nn.Module's own calls."""
    return " < ".join([f for f in text.split(" < ") if not f.startswith("Module._")][:FRAMES])


def heading(text):
    return ["", "## " + text, ""]


def jobs(results):
    return [(name, s) for name, s in results["steps"].items() if s["kind"] == "job"]


def equal(pair):
    return None not in pair and pair[0] == pair[1]


def near(pair, part):
    return None not in pair and pair[0] and abs(pair[1] / pair[0] - 1) <= part


def answer(results):
    totals = [s["compare"]["totals"] for _, s in jobs(results) if s.get("compare")]
    both = [t for t in totals if None not in t["allocated"]]
    checks = [c for s in results["steps"].values() for c in s["recorded"].get("checks") or []]
    lines = []
    if both:
        lines.append("Of %d jobs, the simulated device's allocated peak equals the GPU's to the byte in %d and its reserved peak in %d; the memory on the "
                     "device is within 1 %% in %d." % (len(both), sum(equal(t["allocated"]) for t in both), sum(equal(t["reserved"]) for t in both),
                                                    sum(bool(near(t["device"], 0.01)) for t in both)))
    else:
        lines.append("No job ran on both the GPU and the simulated device.")
    if checks:
        good = sum(c[3] for c in checks)
        lines.append("The recorder agrees with PyTorch's own counters in %d of %d comparisons." % (good, len(checks)))
    steps = ((results.get("cost") or {}).get("summary") or {}).get("steps") or {}
    lines += ["Recording costs %+.1f %% of a step of %s." % (100 * s["cost"], n) for n, s in steps.items()]
    return lines


def table(results):
    lines = ["| script | allocated: real | simulated | difference | reserved: real | simulated | difference | device: real | simulated | difference |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for name, s in results["steps"].items():
        if s.get("compare"):
            totals = s["compare"]["totals"]
            lines.append("| %s | %s |" % (safe(name), " | ".join(cells(totals[q]) for q in ("allocated", "reserved", "device"))))
    noted = sorted({"%s: %s." % (name, note) for name, s in results["steps"].items() for note in (s.get("compare") or {}).get("notes", [])})
    if len({n.split(": ", 1)[1] for n in noted}) == 1:  # of all alike
        noted = [noted[0].split(": ", 1)[1].capitalize()]
    return [*lines, *([""] + noted if noted else [])] if len(lines) > 2 else []


def block_rows(results, title, found):
    if not found["rows"]:
        return []
    lines = ["", title, "", "| where | real only | simulated only | difference |", "|---|---|---|---|"]
    for row in found["rows"][:SHOWN]:
        lines.append("| %s | %s | %s | %s |" % (place(results, row["where"]), some(row["real"]), some(row["simulated"]), size(row["difference"])))
    if len(found["rows"]) > SHOWN:
        rest = sum(r["difference"] for r in found["rows"][SHOWN:])
        lines.append("| %d more | | | %s |" % (len(found["rows"]) - SHOWN, size(rest)))
    if found["moved"][0]:
        lines += ["", "%d more blocks (%s) have the same sizes at different places." % (found["moved"][0], size(found["moved"][1]))]
    return lines


def step_differences(results, name, compared):
    """The blocks of one job that differ; nothing if all totals are equal."""
    totals, lines = compared["totals"], []
    if "allocated" not in compared:
        return []
    if not equal(totals["allocated"]):
        if compared["moments"][0] != compared["moments"][1]:
            lines += ["", "The peaks are at different moments: real %s, simulated %s." % tuple(
                "`%s`" % safe(frames(m or "-")) for m in compared["moments"])]
        lines += block_rows(results, "Tensors at the allocated peak:", compared["allocated"])
    if not equal(totals["reserved"]):
        lines += block_rows(results, "Segments and other device memory at the reserved peak, by library:", compared["segments"])
    rows = [r for r in compared["owners"] if r[1] != r[2]]
    if not equal(totals["device"]) and rows:
        lines += ["", "Device memory at the end, by owner:", "", "| owner | real | simulated | difference |", "|---|---|---|---|"]
        lines += ["| %s | %s |" % (safe(r[0]), cells(r[1:])) for r in rows]
    return ["", "### " + safe(name), *lines] if lines else []


def differences(results):
    lines = []
    for name, s in results["steps"].items():
        if s.get("compare"):
            lines += step_differences(results, name, s["compare"])
    return heading("Differences by block") + ["A difference is the simulated value minus the real one.", *lines] if lines else []


def same(row):
    return row["peak"][0] == row["peak"][1] and row["growth"][0] == row["growth"][1] and row["text"][0] == row["text"][1]


def probe(name, rows):
    """The marks of one probe that differ, and how many do not."""
    equal_ones = sum(map(same, rows))
    lines = ["", "### " + safe(name), "", "%d of %d calls are equal." % (equal_ones, len(rows))]
    if equal_ones == len(rows):
        return lines
    lines += ["", "| call | peak: real | simulated | difference | growth on the device: real | simulated | difference | what |",
              "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if same(row):
            continue
        what = row["text"][0] or ""
        if row["text"][0] != row["text"][1]:
            what = "real: %s; simulated: %s" % tuple(t or "done" for t in row["text"])
        lines.append("| %s | %s | %s | %s |" % (safe(row["name"]), cells(row["peak"]), cells(row["growth"]), safe(what)))
    return lines


def probes(results):
    lines = []
    for name, s in results["steps"].items():
        if s["kind"] == "probe" and s.get("compare") and s["compare"]["marks"]:
            lines += probe(name, s["compare"]["marks"])
    said = ["A call's peak is what PyTorch's allocator held at the most during it; its growth is what it added on the device."]
    return heading("Libraries and context, call by call") + said + lines if lines else []


def recorder(results):
    bad = [(name, c) for name, s in results["steps"].items() for c in s["recorded"].get("checks") or [] if not c[3]]
    ran = [s for s in results["steps"].values() if s["recorded"].get("checks")]
    if not ran:
        return []
    lines = heading("The recorder against PyTorch's counters")
    lines.append("%d jobs: allocated peak, reserved peak, numbers of allocations and frees, and the blocks in use at the end, by address and size." % len(ran))
    if bad:
        lines += ["", "| job | what | recorded | PyTorch |", "|---|---|---|---|"]
        lines += ["| %s | %s | %s | %s |" % (safe(name), c[0], c[1], c[2]) for name, c in bad]
    else:
        lines[-1] += " All are equal."
    return lines


def hook_rows(hook):
    result = (hook or {}).get("result")
    if not result:
        return []
    rows = [("warm, %s frames" % d, v[1]) for d, v in result["warm"].items()] + [("cold, %s frames" % d, v[1]) for d, v in result["cold"].items()]
    lines = ["", "The hook alone:", "", "| event | ns |", "|---|---|", "| without a stack | %.0f |" % result["no stack"][1]]
    return lines + ["| %s | %.0f |" % row for row in rows]


def cost(results):
    found = (results.get("cost") or {}).get("summary")
    if not found:
        return []
    lines = heading("Cost of recording")
    if found["steps"] or found["ns"]:
        lines += ["| what | without | with | cost |", "|---|---|---|---|"]
    for name, s in found["steps"].items():
        lines.append("| steps of %s | %.2f a second | %.2f a second | %+.2f %% |" % (safe(name), *s["steps_s"], 100 * s["cost"]))
    for name, (a, b) in found["ns"].items():
        lines.append("| a block taken or given back: %s | %.0f ns | %.0f ns | %+.0f ns |" % (safe(name), a, b, b - a))
    return lines + ([safe(found["why"])] if found["why"] else []) + hook_rows(results.get("hook"))


def not_run(results):
    rows = list(results["not_run"])
    for name, s in results["steps"].items():
        for way in ("recorded", "simulated"):
            run = s.get(way)
            if run and run["status"] != "ok":
                rows.append(["%s, %s" % (name, "GPU" if way == "recorded" else way), run.get("why") or run["status"]])
            elif run and run.get("trace_error"):
                rows.append(["%s, trace %s" % (name, way), run["trace_error"]])
    rows += [["command `%s`" % p["command"], p.get("why")] for p in results.get("product") or [] if p["status"] != "ok"]
    if not rows:
        return []
    return heading("What failed or did not run") + ["| step | why |", "|---|---|", *("| %s | %s |" % (safe(a), safe(b)) for a, b in rows)]


def versions(results):
    answer_, machine = results["python"], results["machine"]
    said = machine["nvml_versions"]
    device = next((d for d in machine["nvml"] + machine["smi"] if d["index"] == machine["index"]), {})
    rows = [("GPU", answer_["name"]), ("memory that CUDA sees", "%s, %d bytes" % (size(answer_["total"]), answer_["total"])),
            ("compute capability", "%d.%d" % tuple(answer_["capability"])), ("multiprocessors", answer_["multiprocessors"]),
            ("driver", machine.get("driver") or "unknown"), ("CUDA of the driver", said["driver_cuda"] or "unknown"),
            ("PyTorch", "%s, CUDA %s" % (answer_["torch"], answer_["cuda"])), ("cuDNN", answer_.get("cudnn")), ("NCCL", answer_.get("nccl")),
            ("Python", answer_["python"]), ("C library", answer_.get("libc")), ("kernel", answer_.get("kernel")),
            ("simulated device", results["simulated_as"]), ("its settings", " ".join("%s=%s" % s for s in (results.get("simulated_settings") or {}).items())), ("memtrace", "%s; %s" % (results["build"].get("version") or "?", results["build"]["how"])),
            ("in use before the first job", size(results["machine"].get("used_before"))),
            ("MIG", device.get("mig")), ("ECC", device.get("ecc")), ("persistence mode", device.get("persistence")),
            ("GPUs of the machine", len(machine["nvml"] or machine["smi"]) or answer_.get("devices"))]
    lines = heading("Versions") + ["| what | value |", "|---|---|"]
    return lines + ["| %s | %s |" % (a, safe(b)) for a, b in rows if b is not None]


def write(results):
    """The page's text."""
    lines = ["# memtrace on %s" % safe(results["python"]["name"]), "",
             "`make test-gpu` wrote this page; the file of the same name with the ending `.json` has every number.", "", *answer(results)]
    if not results["complete"]:
        lines += ["", "The run is not complete: see the end of this page."]
    rows = table(results)
    lines += ["", *rows] if rows else []
    for part in (differences, probes, recorder, cost, not_run, versions):
        lines += part(results)
    return "\n".join(lines) + "\n"
