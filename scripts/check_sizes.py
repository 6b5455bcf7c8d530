"""Checks that functions stay short enough to read.

Usage: check_sizes.py FILE...

Fails when a function has more than 80 lines, or when more than one function in
ten has over 40. A file has no limit: it is one concern, as long as it needs.
C++ functions are found by their braces after `clang-format`: a body opens at
the end of a line that is no namespace, type or initializer, and closes at the
same indentation.
"""

import ast
import re
import sys
from pathlib import Path

MAX_FUNCTION_LINES = 80
MAX_P90_LINES = 40

NOT_A_FUNCTION = re.compile(
    r"^\s*(namespace|extern|enum|class|struct|union|if|for|while|switch|do|else|try"
    r"|case|default|return|typedef|using)\b|=\s*\{$|^\s*\}"
)


def statement_start(lines, end):
    """Index of the first line of the declaration that ends at `end`."""
    start = end
    while start > 0:
        above = lines[start - 1].rstrip()
        if (
            not above
            or above.endswith((";", "{", "}", ":"))
            or above[0] in "#/"
        ):
            break
        if above.lstrip().startswith(("//", "///", "*")):
            break
        start -= 1
    return start


def cpp_functions(text):
    """Yields (name, first line, number of lines) of each C++ function."""
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        if not lines[index].endswith("{"):
            index += 1
            continue
        start = statement_start(lines, index)
        head = " ".join(lines[start : index + 1])
        if NOT_A_FUNCTION.search(head) or "(" not in head or "](" in head:
            index += 1
            continue
        indent = re.match(r"\s*", lines[start])[0]
        close = index + 1
        while close < len(lines) and not lines[close].startswith(indent + "}"):
            close += 1
        name = re.search(r"([\w:~]+|operator\S+)\s*\(", head)
        yield (name[1] if name else "?"), start + 1, close - start + 1
        index = close


def python_functions(text):
    """Yields (name, first line, number of lines) of each Python function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def functions_of(path, text):
    if path.suffix == ".py":
        return list(python_functions(text))
    return (
        list(cpp_functions(text))
        if path.suffix in (".cpp", ".h", ".cu")
        else []
    )


def main(arguments):
    complaints, lengths = [], []
    for path in map(Path, arguments):
        text = path.read_text()
        for name, line, length in functions_of(path, text):
            lengths.append(length)
            if length > MAX_FUNCTION_LINES:
                complaints.append(
                    f"{path}:{line}: {name} has {length} lines, "
                    f"expected at most {MAX_FUNCTION_LINES}"
                )
    lengths.sort()
    p90 = lengths[len(lengths) * 9 // 10] if lengths else 0
    if p90 > MAX_P90_LINES:
        complaints.append(
            f"one function in ten has over {p90} lines, "
            f"expected at most {MAX_P90_LINES}"
        )
    print(
        "\n".join(complaints), file=sys.stderr, end="\n" if complaints else ""
    )
    print(f"{len(arguments)} files, {len(lengths)} functions, p90 {p90} lines")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
