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


def speaks_about(path, line):
    """The failing statement's text, the assignments that its names come from, and these names."""
    try:
        with open(path) as f:
            source = f.read()
        tree = ast.parse(source)
    except (OSError, SyntaxError):
        return "", "", set()
    lines = source.splitlines()
    node, function = statement_at(tree, line)
    if node is None:
        return "", "", set()
    names, texts = names_of(node), []
    inside = [n for n in ast.walk(function or tree) if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.FunctionDef))]
    for _ in range(DEPTH):
        for n in inside:
            defines = {n.name} if isinstance(n, ast.FunctionDef) else targets_of(n)
            if defines & names and n is not function and n is not node:
                texts.append(head_of(n, lines) if not isinstance(n, ast.FunctionDef) else ast.get_source_segment(source, n))
                names |= names_of(n)
    return head_of(node, lines), "\n".join(dict.fromkeys(texts)), names
