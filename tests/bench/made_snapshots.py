"""A memory snapshot as PyTorch writes it, of any number of events: write(PATH, EVENTS, PROTOCOL) returns its peak and what is live at its end."""
import pickle


def write(path, events, protocol=4, kept=1000):
    """Blocks of 512, 1024, ... bytes: `kept` stay, then each comes, is freed and has its own stack of 40, as the events of a training job share theirs."""
    frames = [[{"name": "f%d" % k, "filename": "/job/part%d.py" % (i % 10), "line": 10 * i + k} for k in range(8)] for i in range(40)]
    trace, live, now = [], [], 0

    def put(action, address, size, stack):
        trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1700000000000000 + len(trace), "compile_context": "N/A",
                      "user_metadata": "", "pool_id": (0, 0), "frames": frames[stack]})

    put("segment_alloc", 1 << 32, 1 << 32, 0)
    for i in range(kept):
        live.append({"address": (1 << 32) + now, "size": 512 * (i % 7 + 1), "requested_size": 512 * (i % 7 + 1), "state": "active_allocated",
                     "frames": frames[i % 40]})
        put("alloc", live[-1]["address"], live[-1]["size"], i % 40)
        now += live[-1]["size"]
    peak = now
    for i in range((events - len(trace)) // 3):
        size = 512 * (i % 1000 + 1)
        peak = max(peak, now + size)
        for action in "alloc", "free_requested", "free_completed":
            put(action, (1 << 32) + now, size, i % 40)
    segment = {"device": 0, "address": 1 << 32, "total_size": 1 << 32, "allocated_size": now, "active_size": now, "requested_size": now, "stream": 0,
               "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
               "blocks": live + [{"address": (1 << 32) + now, "size": (1 << 32) - now, "requested_size": 0, "state": "inactive", "frames": []}]}
    with open(path, "wb") as f:
        pickle.dump({"segments": [segment], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}, f, protocol)
    return peak, now
