"""What both engines share: the columns of a record that the questions use, and the questions."""
import os
import re

# The keys of memtrace-summarize(1), with types that DuckDB and Spark both have. A record has more.
COLUMNS = {
    "run": "STRING", "restart": "INT", "rank": "INT", "device": "INT", "host": "STRING", "start_time_ns": "BIGINT", "simulated": "BOOLEAN",
    "config_fingerprint": "STRING", "model": "STRING", "verdict": "STRING", "oom_count": "BIGINT", "device_memory_bytes": "BIGINT",
    "peak_allocated_bytes": "BIGINT", "peak_reserved_bytes": "BIGINT", "peak_device_bytes": "BIGINT",
}
ESTIMATE = {"allocated_bytes": "BIGINT", "reserved_bytes": "BIGINT", "device_bytes": "BIGINT"}


def questions():
    """{name: SQL}"""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "questions.sql")) as f:
        return dict(re.findall(r"^-- name: (\w+)\n(.*?)\n;$", f.read(), re.M | re.S))
