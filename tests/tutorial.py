"""Runs the commands of docs/tutorial.md and compares their outputs with the page. tutorial.py [--write]: writes them into the page.

The page's blocks ```console have commands behind "$ ", each with its output below. They run in one folder that has the examples."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from harness import MEMTRACE, ROOT, environment, python

PAGE = os.path.join(ROOT, "docs", "tutorial.md")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)
# What differs from run to run, and says nothing about memory.
CHANGING = ((r"\bprocess \d+", "process N"), (r"\bhost \S+", "host H"), (r"\d+(\.\d+)? m?s\b", "T s"), (r"\(\d+\.\d+ MB\)", "(S MB)"), (r" +", " "))


def commands_of(block):
    """The commands of a block, with their lines of continuation."""
    return re.findall(r"^\$ (.*(?:(?<=\\)\n.*)*)", block, re.M)


def run_page(text):
    """[(block of the page, the same with what its commands print now)]"""
    folder = tempfile.mkdtemp(prefix="memtrace-tutorial-")
    try:
        for path in glob.glob(os.path.join(ROOT, "examples", "*.py")):
            shutil.copy(path, folder)
        env = environment(COLUMNS=100, OMP_NUM_THREADS=1, LC_ALL="C.UTF-8", PATH=":".join((os.path.dirname(MEMTRACE), os.path.dirname(python()), os.environ["PATH"])))
        pairs = []
        for block in BLOCK.findall(text):
            now = ""
            for command in commands_of(block):
                done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
                now += "$ %s\n%s" % (command, done.stdout.replace(folder, "."))
            pairs.append((block, now))
        return pairs
    finally:
        shutil.rmtree(folder, True)


def steady(text):
    """The text without what differs from run to run."""
    for pattern, replacement in CHANGING:
        text = re.sub(pattern, replacement, text)
    return text


def main():
    with open(PAGE) as f:
        text = f.read()
    pairs = run_page(text)
    if sys.argv[1:] == ["--write"]:
        for block, now in pairs:
            text = text.replace("```console\n%s```" % block, "```console\n%s```" % now)
        with open(PAGE, "w") as f:
            f.write(text)
        return 0
    differing = [(a, b) for a, b in pairs if steady(a) != steady(b)]
    for block, now in differing:
        print("the page has:\n%s\nthe command prints:\n%s" % (block, now))
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
