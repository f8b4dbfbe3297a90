"""What recording costs under real kernels: the same job by turns without and with the recorder."""
import json
import os
import statistics

import runner
from steps import HOOK_COST

TURNS = 3


def measure(ways, row, folder, limit_of, turns=TURNS):
    """{"plain": [...], "recorded": [...]}: the runs by turns, so that a drift of the machine meets both alike."""
    found = {runner.PLAIN: [], runner.RECORDED: []}
    for turn in range(turns):
        for way in (runner.PLAIN, runner.RECORDED) if turn % 2 == 0 else (runner.RECORDED, runner.PLAIN):
            limit = limit_of(row.limit)
            if limit is None:
                return found
            found[way].append(runner.measure(ways, way, row, os.path.join(folder, way), limit))
    return found


def both(runs, key):
    """{name: [values without, values with]} of what both ways measured."""
    found = [[r["result"][key] for r in runs[way] if r.get("result")] for way in (runner.PLAIN, runner.RECORDED)]
    return {name: [[r[name] for r in side] for side in found] for name in found[0][0]} if all(found) else {}


def summary(runs):
    """{"steps": {name: {"steps_s": [without, with], "cost": part of a step, "spread"}}, "ns": {name: [without, with]}, "why": a failure}"""
    steps = {}
    for name, (a, b) in both(runs, "steps_s").items():
        first, second = statistics.median(a), statistics.median(b)
        steps[name] = {"steps_s": [first, second], "cost": first / second - 1, "spread": [[min(a), max(a)], [min(b), max(b)]]}
    ns = {name: [statistics.median(side) for side in pair] for name, pair in both(runs, "ns").items()}
    failed = [r.get("why") for side in runs.values() for r in side if r["status"] != "ok"]
    return {"steps": steps, "ns": ns, "why": failed[0] if failed else None if steps else "not run"}


def hook(ways, folder, limit):
    """tests/bench/hook_cost.py: the hook alone, without PyTorch's allocator around it; None if its helper is not built."""
    if not ways.build.get("hook_cost") or not ways.build.get("recorder") or limit is None:
        return None
    directory = os.path.join(folder, "hook")
    os.makedirs(directory, exist_ok=True)
    environment = ways.environment(runner.RECORDED, directory, {})
    done = runner.execute([ways.python, HOOK_COST, ways.build["hook_cost"]], environment, directory, limit)
    try:
        done["result"] = json.loads(done["stdout"].strip().splitlines()[-1])
    except (ValueError, IndexError):
        done["result"] = None
    return done
