#!/usr/bin/env python3
"""Holds the tree to the table "Where things are" of CONTRIBUTING.md and to the rules of the house.

  layers.py [--repo DIR] [--rule RULE]... [--circles]

Rules: include (an #include, call or use that the table does not allow), table (a circle in it, a row without a folder), room (a file
in no row), circle (files that call each other in a circle which is not allowed), prototype (a header declares what another file
defines), tag (a struct or enum defined twice in a part), output (something is
printed outside cmd/), json (JSON written by hand outside json/), division (a rule of
diagnosis divides by a metric without PER()), format (clang-format differs, or is not there), size (files and functions), folder
(too many files, a file beside the folders), unit (a folder of tests/unit mirrors none of analyzer/). Sources are read only, nothing is built.
--circles prints the circles of .c files by their calls. Exit status 1 if a rule is broken.
"""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys

RULES = ("include", "table", "room", "circle", "prototype", "tag", "output", "json", "division", "format", "size", "folder", "unit")
MAX_LINES, MAX_IN_A_FUNCTION, MAX_IN_A_FOLDER = 500, 60, 45
MAY_PRINT = ("analyzer/cmd/", "analyzer/main.c", "analyzer/util/terminal.c", "analyzer/util/launch.c", "analyzer/util/util.c", "analyzer/util/err.c")
# The commands, one a file, share a header.
DECLARES_FOR_OTHERS = ("analyzer/cmd/commands.h",)
# Each command has its own options.
ONE_IN_EACH_FILE = ("analyzer/cmd/", "options")
# Rows as JSON without jansson, and why.
JSON_BY_HAND = {"analyzer/export/ndjson.c": "10 million rows take jansson 10 s with 9 columns and 15 s with 14; see the file"}
# Circles of calls between files, and why they are not taken apart.
CIRCLES = (
    (("analyzer/cmd/commands.c", "analyzer/cmd/completion.c"), "the table of the commands has completion, which completes each command of the table"),
    (("preload/sim/device/memory.c", "preload/sim/device/pool.c"), "a pool allocates memory of the device, and an allocation of the device is charged to its pool"),
)
# Folders of tests/unit that mirror none of analyzer/.
UNIT_BESIDE = {"fuzz": "the programs of libFuzzer, and the inputs that they found"}
CLANG_FORMAT = "14"  # of Debian 12: another one formats otherwise


def blank(text, strings=True):
    """Comments, and strings if asked, as spaces: lines and columns stay."""
    def spaces(m):
        return re.sub(r"[^\n]", " ", m.group(0)) if strings or m.group(0)[0] == "/" else m.group(0)
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', spaces, text, flags=re.S)


def part_of(path):
    return "preload/sim" if path.startswith("preload/sim/") else path.split("/", 1)[0]


class Tree:
    """The sources of a checkout: `raw` and without comments and strings (`text`), what each .c file defines, what it uses."""

    def __init__(self, repo):
        self.repo = repo
        if os.path.exists(os.path.join(repo, ".git")):
            command = ["git", "-C", repo, "ls-files", "-co", "--exclude-standard"]
            names = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        else:
            names = [os.path.relpath(os.path.join(d, f), repo) for d, _, files in os.walk(repo) for f in files]
        self.every = sorted(n for n in set(names) if os.path.isfile(os.path.join(repo, n)))
        self.files = [f for f in self.every if f.startswith(("analyzer/", "preload/", "include/")) and f.endswith((".c", ".h", ".def", ".S"))]
        self.raw = {f: self.read(f) for f in self.files}
        self.text = {f: blank(t) for f, t in self.raw.items()}
        self.find_definitions()

    def read(self, name):
        with open(os.path.join(self.repo, name), errors="replace") as f:
            return f.read()

    def line(self, f, position):
        return "%s:%d" % (f, self.raw[f].count("\n", 0, position) + 1)

    def includes(self, f):
        """(the file that it includes, the position), where that is one of ours."""
        roots = {"analyzer": ["analyzer"], "preload": ["preload"], "preload/sim": ["preload/sim"], "include": []}[part_of(f)] + ["include"]
        for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>|(\w+))', self.raw[f], re.M):
            name = m.group(1) or m.group(2)
            if m.group(3):  # a macro that names a file
                named = re.search(r'#define %s "([^"]+)"' % m.group(3), self.raw[f])
                name = named.group(1) if named else ""
            for root in ([] if m.group(2) else [os.path.dirname(f)]) + roots:
                path = os.path.normpath(os.path.join(root, name))
                if path in self.text:
                    yield path, m.start()
                    break

    def find_definitions(self):
        """`defined`: (part, name) -> the .c file, of functions and objects with external linkage. `static`: the others' names, by file."""
        self.defined, self.objects, self.static = {}, set(), collections.defaultdict(set)
        function = re.compile(r"^(?!#)([A-Za-z_][^;{}=]*?)\b([A-Za-z_]\w*)\s*\(([^;{}]*)\)\s*\n\{", re.M)
        thing = re.compile(r"^(?!#|typedef|extern|struct \w+ \{|enum|union|return)([A-Za-z_][\w \t\*]*?)\b([A-Za-z_]\w*)[ \t]*(?:\[[^\]]*\])*[ \t]*(?:=|;)", re.M)
        for f in self.files:
            if not f.endswith(".c"):
                continue
            text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", self.text[f])
            text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
            for pattern in (function, thing):
                for m in pattern.finditer(text):
                    if re.search(r"\bstatic\b", m.group(1)):
                        self.static[f].add(m.group(2))
                        continue
                    self.defined.setdefault((part_of(f), m.group(2)), f)
                    if pattern is thing:
                        self.objects.add(m.group(2))

    def inline_names(self, f, seen=None):
        """Names of the static functions of the headers that a file includes, and of itself if it is one."""
        seen = set() if seen is None else seen
        if f in seen:
            return set()
        seen.add(f)
        names = set(re.findall(r"^static[^;{}()]*?\b(\w+)\s*\(", self.text[f], re.M)) if f.endswith(".h") else set()
        for g, _ in self.includes(f):
            names |= self.inline_names(g, seen)
        return names

    def uses(self, f):
        """(name, the file that defines it, position): external names of its part that a file calls, declares or takes the address of."""
        text = re.sub(r"^[ \t]*#[ \t]*include[^\n]*", lambda m: " " * len(m.group(0)), self.text[f], flags=re.M)
        own, seen, externs = self.static[f] | self.inline_names(f), set(), None
        if f.endswith(".h"):  # members of structures are no uses: prototypes are, and what is extern
            externs = set(n for s in re.findall(r"^extern\b([^;]*);", text, re.M) for n in re.findall(r"\w+", s))
        for m in re.finditer(r"(?<![\w.])([A-Za-z_]\w*)\b(\s*\()?", text):
            name, start = m.group(1), m.start()
            target = self.defined.get((part_of(f), name))
            if not target or target == f or name in own or name in seen or text[max(0, start - 2):start] == "->":
                continue
            if externs is not None and not m.group(2) and name not in externs:
                continue
            address = name in self.objects and text[max(0, start - 1):start] == "&"
            if not m.group(2) and (not ("_" in name or address) or re.match(r"\s*=[^=]", text[m.end(1):m.end(1) + 40])):
                continue
            seen.add(name)
            yield name, target, start


class Table:
    """The rows of "Where things are": | `folder/` | a sentence | may include |, the last as names beside it and whole paths of tables."""

    def __init__(self, tree):
        text = tree.read("CONTRIBUTING.md")
        section = re.search(r"^## Where things are\n(.*?)(?=^## |\Z)", text, re.M | re.S)
        self.under, self.tables, self.known = {}, collections.defaultdict(set), set()
        for name, allowed in re.findall(r"^\| `([\w/.]+)` \|[^|\n]*\|([^|\n]*)\|$", section.group(1) if section else "", re.M):
            name = "include" if part_of(name) == "include" else name.rstrip("/")
            self.under[name] = set()
            for word in re.findall(r"[\w/.]+", allowed):
                if word.endswith(".def"):
                    self.tables[name].add(word)
                elif word not in ("nothing", "all"):
                    self.under[name].add("include" if word.rstrip("/") == "include" else "%s/%s" % (os.path.dirname(name), word.rstrip("/")))

    def row(self, f):
        """The row that a file is in: its own, or its folder's."""
        if f.startswith("include/"):
            return "include"
        own = f[:-2] + ".c" if f.endswith(".h") else f
        return own if own in self.under else os.path.dirname(f)

    def allows(self, f, g):
        a, b = self.row(f), self.row(g)
        return a == b or b in self.under.get(a, ()) or g in self.tables[a]


def circles(graph):
    """The strongly connected components of more than one node (Tarjan)."""
    index, low, stack, found = {}, {}, [], []
    sys.setrecursionlimit(20000)

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in graph.get(v, ()):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]
    for v in list(graph):
        if v not in index:
            visit(v)
    return found


def check_include(tree, table):
    for f in tree.files:
        for what, edges in (("includes", ((os.path.basename(g), g, at) for g, at in tree.includes(f))), ("uses", tree.uses(f))):
            for name, g, at in edges:
                if not table.allows(f, g):
                    yield "%s: %s %s of %s, which the table does not let %s do" % (tree.line(f, at), what, name, table.row(g), table.row(f))


def check_table(tree, table):
    if not table.under:
        yield "CONTRIBUTING.md: no rows in the section \"Where things are\""
    for circle in circles(table.under):
        yield "CONTRIBUTING.md: the table has a circle: %s" % " ".join(circle)
    rows = {table.row(f) for f in tree.files} | {"include"}
    for name, allowed in table.under.items():
        for missing in ({name} | allowed) - rows:
            yield "CONTRIBUTING.md: the row of %s names %s, which is not there" % (name, missing)


def check_room(tree, table):
    for f in tree.files:
        if table.row(f) not in table.under and not f.startswith("include/"):
            yield "%s: in no row of the table of CONTRIBUTING.md" % f


def calls(tree):
    """(file -> the files that it calls, (caller, called) -> by which names), of the .c files."""
    graph, names = collections.defaultdict(set), collections.defaultdict(set)
    for f in tree.files:
        for name, g, _ in tree.uses(f) if f.endswith(".c") else ():
            graph[f].add(g)
            names[f, g].add(name)
    return graph, names


def check_circle(tree, table):
    found = circles(calls(tree)[0])
    for circle in found:
        if not any(set(circle) <= set(files) for files, _ in CIRCLES):
            yield "%s: a circle of %d files, which layers.py does not allow (--circles: by which names): %s" % (circle[0], len(circle), " ".join(circle))
    for files, _ in CIRCLES:
        if sorted(files) not in found:
            yield "tests/lint/layers.py: allows a circle that is not there: %s" % " ".join(files)


def check_prototype(tree, table):
    prototype = re.compile(r"^(?!static|typedef|return|else|#)[A-Za-z_][\w \t\*]*?\b(\w+)\s*\([^;{}]*\)[^;{}]*;", re.M)
    extern = re.compile(r"^extern\b[^;()]*;", re.M)
    declared = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*[,;]")
    for f in tree.files:
        if not f.endswith(".h") or f in DECLARES_FOR_OTHERS:
            continue
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), tree.text[f], flags=re.M)
        text = re.sub(r"\{[^{}]*\}", lambda m: re.sub(r"[^\n]", " ", m.group(0)), re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", lambda m: " " * len(m.group(0)), text))
        objects = [m for s in extern.finditer(text) for m in declared.finditer(text, s.start(), s.end())]
        for m in list(prototype.finditer(text)) + objects:
            g = tree.defined.get((part_of(f), m.group(1)))
            if g and not re.fullmatch(re.escape(f[:-2]) + r"(_\w+)?\.c", g):
                yield "%s: declares %s(), which %s defines" % (tree.line(f, m.start(1)), m.group(1), g)


def check_tag(tree, table):
    first = {}
    for f in tree.files:
        for m in re.finditer(r"\b(struct|enum|union)\s+(\w+)\s*\{", tree.text[f]):
            key, here = (part_of(f), m.group(2)), tree.line(f, m.start())
            if f.startswith(ONE_IN_EACH_FILE[0]) and m.group(2) == ONE_IN_EACH_FILE[1]:
                continue
            if key not in first:
                first[key] = here
                continue
            yield "%s: %s %s is also defined at %s" % (here, m.group(1), m.group(2), first[key])


def check_output(tree, table):
    for f in tree.files:
        if f.startswith("analyzer/") and not f.startswith(MAY_PRINT):
            for m in re.finditer(r"\b(stderr|stdout)\b|\b(v?d?printf|puts|putchar|perror)\s*\(|\b(write)\s*\(\s*(?:[12]|STD(?:OUT|ERR)_FILENO)\s*,", tree.text[f]):
                if "freopen(" not in tree.text[f][:m.start()].rsplit("\n", 1)[1]:  # a child's output put elsewhere
                    yield "%s: %s: only cmd/ prints" % (tree.line(f, m.start()), m.group(1) or m.group(2) or m.group(3))


def check_json(tree, table):
    for f in tree.files:
        if f.startswith("analyzer/") and not f.startswith("analyzer/json/") and f not in JSON_BY_HAND:
            for m in re.finditer(r'(?:["{,]|%c)\s*(\\"[\w%.$-]*\\") ?:', blank(tree.raw[f], strings=False)):
                yield "%s: JSON by hand: %s" % (tree.line(f, m.start()), m.group(1))


def check_division(tree, table):
    for f in tree.files:
        if f.startswith("analyzer/diagnose/") and f.endswith(".def"):
            for m in re.finditer(r"[/%][\s(]*m->(\w+)", tree.text[f]):
                yield "%s: divides by %s, which may be 0: PER() does not" % (tree.line(f, m.start()), m.group(1))


def check_format(tree, table):
    found = shutil.which("clang-format-" + CLANG_FORMAT) or shutil.which("clang-format")
    version = found and subprocess.run([found, "--version"], stdout=subprocess.PIPE, text=True).stdout
    if not found or "version %s." % CLANG_FORMAT not in version:
        yield "no clang-format %s, so that the format is not checked: apt-get install clang-format-%s" % (CLANG_FORMAT, CLANG_FORMAT)
        return
    sources = [f for f in tree.every if f.endswith((".c", ".h")) and f.startswith(("analyzer/", "preload/", "include/", "libc/", "tests/"))]
    said = subprocess.run([found, "--dry-run", *sources], cwd=tree.repo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    lines = re.findall(r"^([\w/.+-]+):(\d+):", said, re.M)
    for f, at in dict(reversed(lines)).items():
        yield "%s:%s: clang-format writes it otherwise (make format)" % (f, at)


def check_size(tree, table):
    for f in tree.every:
        if not f.endswith((".c", ".h", ".py", ".sh", ".js", ".mjs", ".S")):
            continue
        lines = tree.read(f).split("\n")
        if len(lines) - 1 > MAX_LINES:
            yield "%s has %d lines, %d at most" % (f, len(lines) - 1, MAX_LINES)
        start = None
        for n, line in enumerate(lines if f.endswith((".c", ".h")) else (), 1):
            if line.startswith("{"):
                start = n
            elif line.startswith("}") and start:
                if n - start - 1 > MAX_IN_A_FUNCTION:
                    yield "%s:%d: a function of %d lines, %d at most" % (f, start, n - start - 1, MAX_IN_A_FUNCTION)
                start = None


def check_folder(tree, table):
    folders = collections.defaultdict(list)
    for f in tree.every:
        folders[os.path.dirname(f)].append(f)
    for folder, files in sorted(folders.items()):
        if folder.startswith(("analyzer", "preload")) and len(files) > MAX_IN_A_FOLDER:
            yield "%s has %d files, %d at most" % (folder, len(files), MAX_IN_A_FOLDER)
    for f in folders["analyzer"]:
        if f != "analyzer/main.c":
            yield "%s: beside the folders of analyzer/ there is main.c alone" % f


def check_unit(tree, table):
    sources = {f.split("/")[1] for f in tree.files if f.startswith("analyzer/")}
    for folder in sorted({f.split("/")[2] for f in tree.every if re.match(r"tests/unit/[^/]+/", f)} - sources - set(UNIT_BESIDE)):
        yield "tests/unit/%s: there is no analyzer/%s" % (folder, folder)


def print_circles(tree):
    graph, names = calls(tree)
    for circle in sorted(circles(graph), key=len, reverse=True):
        print("%d: %s" % (len(circle), " ".join(circle)))
        for f in circle:
            for g in sorted(graph[f] & set(circle)):
                print("    %s -> %s: %s" % (f, g, " ".join(sorted(names[f, g]))))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--repo", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    ap.add_argument("--rule", action="append", choices=RULES)
    ap.add_argument("--circles", action="store_true")
    given = ap.parse_args()
    tree = Tree(given.repo)
    if given.circles:
        print_circles(tree)
        return 0
    table, count = Table(tree), collections.Counter()
    for rule in given.rule or RULES:
        for broken in globals()["check_" + rule](tree, table):
            print("lint: [%s] %s" % (rule, broken))
            count[rule] += 1
    if given.rule:
        print(" ".join("%s %d" % pair for pair in count.items()) or "clean")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
