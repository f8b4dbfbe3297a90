"""Compares the output of with_nodes.py with the names that a trace gives to the blocks of the backward pass: backward.py TRACES OUT

A name is right if the line that it names, or one of the lines between which it says the place is, is on the stack of the forward pass at
which the block's autograd node was made. It is exact if that is the innermost line that is not PyTorch's own.
"""
import glob
import json
import os
import re
import subprocess
import sys

BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build")
NAMES = os.path.join(BUILD, "tests", "unit", "backward", "backward_names")
NAME = re.compile(r".*  (.*):(\d+)(?:-(\d+))?$")
STACK_MIN = 64 << 10  # smaller blocks have no stack in the forward pass, and no name in the backward pass


def is_library(file):
    return "/site-packages/torch/" in file


def kind_of(name, place):
    """exact, within (the line of a caller, or a few lines), wrong, or unknown; `place`: (file, line, function), innermost first"""
    found = NAME.match(name)
    if not found:
        return "unknown"
    file, first, last = found[1], int(found[2]), int(found[3] or found[2])
    lines = [(os.path.basename(f), line) for f, line, _ in place]
    own = [(os.path.basename(f), line) for f, line, _ in place if not is_library(f)]
    if first == last and own and own[0] == (file, first):
        return "exact"
    return "within" if any(f == file and first <= line <= last for f, line in lines) else "wrong"


def compare(trace, out):
    """[(kind, bytes, node, name, place)] of each block of the backward pass without a stack, from STACK_MIN on"""
    with open(out) as f:
        written = json.load(f)
    runs, run, found = written["runs"], -1, []
    said = subprocess.run([NAMES, trace], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    for line in said.splitlines():
        number, size, name = line.split(" ", 2)
        while run + 1 < len(runs) and runs[run + 1][0] <= int(number):
            run += 1
        if int(size) < STACK_MIN or run < 0 or runs[run][2] < 0:
            continue
        place = written["places"][runs[run][2]]
        if not place:  # another backward pass made the node (create_graph=True): the job notes no line
            continue
        found.append((kind_of(name, place), int(size), runs[run][1], name, place))
    return found


def summary(found):
    """{kind: (blocks, bytes)}"""
    total = {kind: (0, 0) for kind in ("exact", "within", "unknown", "wrong")}
    for kind, size, *_ in found:
        total[kind] = total[kind][0] + 1, total[kind][1] + size
    return total


if __name__ == "__main__":
    trace, = glob.glob(os.path.join(sys.argv[1], "*.mtr"))
    found = compare(trace, sys.argv[2] + ".0")
    blocks, size = max(len(found), 1), max(sum(f[1] for f in found), 1)
    print("%-12s %5d blocks" % (os.path.basename(sys.argv[1]), len(found)),
          *("%s %.1f %% (%.1f %% of bytes)" % (k, 100 * n / blocks, 100 * b / size) for k, (n, b) in summary(found).items()))
    for kind, size, node, name, place in found:
        if kind == "wrong":
            print("   wrong: %s named %s, is %s" % (node, name, [p[:2] for p in place if not is_library(p[0])][:1]))
