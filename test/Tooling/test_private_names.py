"""docs/Trainers.md lists what the package and the examples use of others that
is not public."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("python/dynatrain", "examples")
    for path in (ROOT / folder).rglob("*.py")
)


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def parts_of(tree):
    """Names that classes give to their methods and attributes."""
    found = {"_C"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found.update(one.name for one in node.body if hasattr(one, "name"))
            found.update(
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign)
            )
        is_own = isinstance(node, ast.Attribute) and isinstance(
            node.value, ast.Name
        )
        if is_own and node.value.id in ("self", "cls"):
            found.add(node.attr)
    return found


def private_names(node):
    """What a node reads of something that is not itself."""
    if isinstance(node, ast.Attribute):
        owner = node.value
        if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls")):
            yield node.attr
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        modules = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            if node.level:
                return
            yield from modules
            modules = [node.module]
        for module in modules:
            yield from module.split(".")
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if is_call and node.func.id in ("getattr", "hasattr", "setattr"):
        yield str(getattr(node.args[1], "value", ""))
    if (
        isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "update"
    ):
        yield from (one.arg for one in node.keywords if one.arg)


def found_names():
    """{(name, file)} of private names that no class of ours has."""
    trees = {path: ast.parse(path.read_text()) for path in SOURCES}
    own = set().union(*map(parts_of, trees.values()))
    return {
        (name, str(path.relative_to(ROOT)))
        for path, tree in trees.items()
        for node in ast.walk(tree)
        for name in private_names(node)
        if is_private(name) and name not in own
    }


def listed_names():
    """The same of the page's table."""
    page = (ROOT / "docs/Trainers.md").read_text()
    section = page.split("## Names of others")[1].split("\n## ")[0]
    found = set()
    for row in re.findall(r"^\| (`.*) \|$", section, re.M):
        names, *_, files = row.split(" | ")
        for path in re.findall("`([^`]+)`", files):
            found.update(
                (name, path) for name in re.findall("`([^`]+)`", names)
            )
    return found


def test_all_are_listed():
    assert found_names() == listed_names()


def test_each_way_to_one_is_seen():
    text = (
        "import a._b; x._c; getattr(x, '_d'); from e import _f; x.g; self._h; "
    )
    text += "vars(m).update(_i=None)"
    names = {
        name
        for node in ast.walk(ast.parse(text))
        for name in private_names(node)
    }
    assert {"_b", "_c", "_d", "_f", "_i"} <= names and "_h" not in names
