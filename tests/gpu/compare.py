"""The GPU's run of a job beside the simulated one: totals, the blocks that differ, and the recorder's checks. Differences are simulated - real."""
import collections

QUANTITIES = "allocated", "reserved", "device"
DISTURBED = 8 << 20  # other processes changed their memory by more than this while a job ran


def device_of(run, what=None):
    """Bytes that the job takes on the device, at its end or at a mark: what is in use without what was in use before it began."""
    found = (what or run.get("truth") or {}).get("device")
    if not found:
        return None
    before = (run.get("base") or {}).get("before")
    if found.get("nvml") is not None and before is not None:
        return found["nvml"] - before
    if found.get("own") is not None and before is None:
        return found["own"]
    return found["cuda"] - (before or 0)


def total(run, quantity):
    if run is None or not run.get("truth") or "allocated" not in run["truth"]:
        return None
    return device_of(run) if quantity == "device" else run["truth"][quantity]


def notes(run):
    """What a reader must know about a real run's device figure."""
    base = run.get("base") or {}
    if base.get("before") is None:
        return ["memory of other processes cannot be told apart"]
    if base.get("after") is not None and abs(base["after"] - base["before"]) > DISTURBED:
        return ["other processes changed their memory by %d bytes meanwhile" % (base["after"] - base["before"])]
    return []


def group(blocks, column):
    """{stack or library: Counter of sizes}"""
    found = collections.defaultdict(collections.Counter)
    for block in blocks:
        found[block[column]][block[1]] += block[0]
    return found


def left(counter):
    return [[n, size] for size, n in sorted(counter.items(), key=lambda item: -item[0] * item[1])]


def moved(only_real, only_simulated):
    """Takes out the blocks of one size that both have, at different places; returns their number and bytes."""
    count = size_of_all = 0
    simulated = collections.Counter()
    for counter in only_simulated.values():
        simulated.update(counter)
    for counter in only_real.values():
        for size in list(counter):
            both = min(counter[size], simulated[size])
            counter[size] -= both
            simulated[size] -= both
            count, size_of_all = count + both, size_of_all + both * size
            for other in only_simulated.values():
                taken = min(both, other[size])
                other[size] -= taken
                both -= taken
    return count, size_of_all


def blocks(real, simulated, column=2):
    """{"rows": [{"where", "real": [[count, bytes]], "simulated": ..., "difference"}], "moved": [count, bytes]}, the largest difference first."""
    ours, theirs = group(real, column), group(simulated, column)
    only_real = {k: +(ours[k] - theirs.get(k, collections.Counter())) for k in ours}
    only_simulated = {k: +(theirs[k] - ours.get(k, collections.Counter())) for k in theirs}
    shifted = moved(only_real, only_simulated)
    rows = []
    for key in set(only_real) | set(only_simulated):
        a, b = +only_real.get(key, collections.Counter()), +only_simulated.get(key, collections.Counter())
        if a or b:
            difference = sum(n * size for size, n in b.items()) - sum(n * size for size, n in a.items())
            rows.append({"where": key, "real": left(a), "simulated": left(b), "difference": difference})
    rows.sort(key=lambda r: (-abs(r["difference"]), -sum(n * size for n, size in r["real"] + r["simulated"]), str(r["where"])))
    return {"rows": rows, "moved": list(shifted)}


def known(run):
    return run["trace"]["pools"] + sum(count * size for count, size, *_ in run["trace"]["device_blocks"])


def owners(real, simulated):
    """[(owner, real, simulated)] at the jobs' ends: what each library took by calls, and the rest, which no call shows."""
    libraries = collections.defaultdict(lambda: [0, 0])
    for place, run in enumerate((real, simulated)):
        for count, size, _, library in run["trace"]["device_blocks"]:
            libraries[library or "unknown library"][place] += count * size
    rows = sorted(([name, *pair] for name, pair in libraries.items()), key=lambda r: -r[1])
    if real["trace"]["pools"] or simulated["trace"]["pools"]:
        rows.append(["pools and graphs of the driver", real["trace"]["pools"], simulated["trace"]["pools"]])
    ends = total(real, "device"), total(simulated, "device")
    if None not in ends:
        rows.append(["context, kernels and libraries (no call shows it)", ends[0] - known(real), ends[1] - known(simulated)])
    return rows


def same_marks(real, simulated):
    """[(name, real mark, simulated mark)] of the marks that both have, in the real job's order."""
    by_name = {m["name"]: m for m in simulated}
    return [(m["name"], m, by_name[m["name"]]) for m in real if m["name"] in by_name]


def marks(real, simulated):
    rows, before = [], [0, 0]
    for name, a, b in same_marks(real.get("marks") or [], simulated.get("marks") or []):
        now = [device_of(real, a), device_of(simulated, b)]
        row = {"name": name, "text": [a["text"], b["text"]], "device": now, "growth": [None if n is None else n - p for n, p in zip(now, before)]}
        before = [n or 0 for n in now]
        for quantity in ("allocated", "peak", "reserved"):
            row[quantity] = [a[quantity], b[quantity]]
        rows.append(row)
    return rows


def compare(real, simulated):
    """What the page shows of one job."""
    found = {"totals": {q: [total(real, q), total(simulated, q)] for q in QUANTITIES}, "notes": notes(real),
             "marks": marks(real, simulated)}
    if real.get("trace") and simulated.get("trace"):
        a, b = real["trace"], simulated["trace"]
        found.update(moments=[a["at_peak"], b["at_peak"]], allocated=blocks(a["blocks"], b["blocks"]),
                     segments=blocks(a["segments"], b["segments"], column=3), owners=owners(real, simulated))
    return found
