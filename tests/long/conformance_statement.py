"""What a failing statement of a test speaks about: its text, and the assignments that its names come from."""
import ast

DEPTH = 3  # how many assignments back a name of the failing statement is followed


def statement_at(tree, line):
    """The innermost statement of TREE that covers LINE, and the function around it."""
    found, function = None, None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                function = node if isinstance(node, ast.FunctionDef) else function
            if found is None or node.lineno >= found.lineno:
                found = node
    return found, function


def names_of(node):
    """The names that NODE reads; of a compound statement those of its head."""
    heads = [getattr(node, part) for part in ("test", "iter") if hasattr(node, part)]
    heads += [item.context_expr for item in getattr(node, "items", []) if isinstance(item, ast.withitem)]
    return {n.id for head in heads or [node] for n in ast.walk(head) if isinstance(n, ast.Name)}


def targets_of(node):
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    return {n.id for t in targets if t is not None for n in ast.walk(t) if isinstance(n, ast.Name)}


def head_of(node, lines):
    last = node.body[0].lineno - 1 if getattr(node, "body", None) else node.end_lineno
    return " ".join(line.strip() for line in lines[node.lineno - 1:max(last, node.lineno)])


def leave_out(tree, lines):
    """Puts `pass` in the place of the innermost statement at each of LINES."""
    for line in lines:
        node, _ = statement_at(tree, line)
        for parent in ast.walk(tree):
            for part in ("body", "orelse", "finalbody"):
                inside = getattr(parent, part, None)
                if isinstance(inside, list) and node in inside:
                    inside[inside.index(node)] = ast.copy_location(ast.Pass(), node)


def parsed(path):
    with open(path) as f:
        source = f.read()
    return source, ast.parse(source)


def origin_of(node, function, tree, source):
    """The assignments that the names of a statement come from, and these names."""
    lines, names, texts = source.splitlines(), names_of(node), []
    inside = [n for n in ast.walk(function or tree) if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.FunctionDef))]
    for _ in range(DEPTH):
        for n in inside:
            defines = {n.name} if isinstance(n, ast.FunctionDef) else targets_of(n)
            if defines & names and n is not function and n is not node:
                texts.append(head_of(n, lines) if not isinstance(n, ast.FunctionDef) else ast.get_source_segment(source, n))
                names |= names_of(n)
    return "\n".join(dict.fromkeys(texts)), names


def speaks_about(path, line):
    """The failing statement's text, the assignments that its names come from, and these names."""
    try:
        source, tree = parsed(path)
    except (OSError, SyntaxError):
        return "", "", set()
    node, function = statement_at(tree, line)
    if node is None:
        return "", "", set()
    return head_of(node, source.splitlines()), *origin_of(node, function, tree, source)


def compares(node):
    """assert, and self.assertEqual() and its like"""
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    return isinstance(node, ast.Assert) or isinstance(called, ast.Attribute) and called.attr.startswith("assert")


def comparisons_around(path, line, words):
    """Whether comparisons of what WORDS matches stand before the statement at LINE in its function, and behind it."""
    try:
        source, tree = parsed(path)
    except (OSError, SyntaxError):
        return False, False
    failing, function = statement_at(tree, line)
    found = [node.lineno for node in ast.walk(function or ast.Module([], [])) if compares(node) and node is not failing and
             (words.search(head_of(node, source.splitlines())) or words.search(origin_of(node, function, tree, source)[0]))]
    return any(n < line for n in found), any(n > line for n in found)
