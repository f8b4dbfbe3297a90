"""The commands of the README's first steps on this GPU: each with the status that it must have."""
import json
import os

import runner
from steps import GPT2

JOB = [GPT2, "--batch", "2", "--flash", "--dtype", "bfloat16"]


def commands(memtrace, python, traces):
    """[(words, environment way, expected status)]: `run` is the recorded way already without a preload of ours."""
    return [
        ([memtrace, "run", "-o", traces, "--", python, *JOB], 0),
        ([memtrace, "report", traces], 0),
        ([memtrace, "report", "--json", traces], 0),
        ([memtrace, "check", "--max-peak", "1TiB", "--max-reserved", "1TiB", "--max-device", "1TiB", traces], 0),
        ([memtrace, "check", "--max-peak", "1MiB", traces], 1),
        ([memtrace, "check", "--baseline", traces, traces], 0),
        ([memtrace, "diff", traces, traces], 0),
    ]


def wrong(words, done, simulated):
    """The reason that a command's answer is not the right one, or None."""
    if "--json" not in words or done["rc"]:
        return None
    with open(done["file"]) as f:
        report = json.load(f)
    rank = report["ranks"][0]
    if len(report["ranks"]) != 1:
        return "%d ranks in the report, not one" % len(report["ranks"])
    if rank["simulated"] != simulated:
        return "the report says simulated: %s" % rank["simulated"]
    if not rank["peak"]["allocated_bytes"] or not rank["peak"]["stacks"]:
        return "a report without a peak"
    return None


def run(ways, folder, limit_of):
    """[{"command", "expected", "rc", "good", "why", ...}]"""
    found = []
    if not ways.build.get("memtrace"):
        return found
    directory = os.path.join(folder, "product")
    os.makedirs(directory, exist_ok=True)
    for words, expected in commands(ways.build["memtrace"], ways.python, os.path.join(directory, "traces")):
        limit = limit_of(90)
        if limit is None:
            break
        done = runner.execute(words, ways.on_device(), directory, limit)
        done["file"] = os.path.join(directory, "stdout")
        if done["status"] == "failed" and done["rc"] == expected:
            done.update(status="ok", why=None)
        elif done["status"] == "ok" and done["rc"] != expected:
            done.update(status="failed", why="status %s, not %d" % (done["rc"], expected))
        if done["status"] == "ok":
            try:
                done["why"] = wrong(words, done, ways.stand_in is not None)
            except (ValueError, KeyError, IndexError) as error:
                done["why"] = "%s: %s" % (type(error).__name__, error)
            done["status"] = "failed" if done["why"] else "ok"
        done.update(command=" ".join(os.path.basename(w) if os.sep in w else w for w in words), expected=expected)
        del done["file"]
        found.append(done)
    return found
