"""A source implements the header of its own name; a type has one definition,
a constant one value wherever it is read.

What TableGen declares has no header in the tree: sources of the dialect that
define methods of ops and attributes, and passes.
"""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = ("lib", "include", "runtime", "tools")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
MADE = {
    "lib/Dialect": re.compile(r"^[\w:<>]+ \w+(Op|Attr)::\w+\(", re.MULTILINE),
    "lib/Passes": re.compile(r"^#define GEN_PASS_DEF_\w+$", re.MULTILINE),
}
# The module of an extension, which Python imports and nobody includes, and
# functions of it that torch finds by their names.
ENTRIES = {"runtime/torch/Module.cpp", "runtime/torch/PoolEntries.cpp"}
NOISE = re.compile(
    r"//[^\n]*"
    r"|/\*.*?\*/"
    r'|R"(\w*)\(.*?\)\1"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<!\w)'(?:\\.|[^'\\\n])+'"
    r"|^#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
NAMESPACE = re.compile(r"\bnamespace\s*([\w:]*)$")
TYPE = re.compile(
    r"(?<!enum )\b(?:class|struct|union|enum(?: class)?)\s+"
    r"(?:alignas\([^)]*\)\s+)?([A-Z]\w*)(?:\s+final)?\s*(?::[^:].*)?$",
    re.DOTALL,
)


def sources(*suffixes):
    return sorted(
        path
        for folder in OURS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes
    )


def is_made_elsewhere(path):
    """Whether TableGen or another tool declares what the source defines."""
    name = str(path.relative_to(ROOT))
    made = MADE.get(str(path.parent.relative_to(ROOT)))
    return (
        name in ENTRIES
        or name.startswith("tools/")
        or bool(made and made.search(path.read_text()))
    )


def test_sources_implement_the_header_of_their_name():
    headers = {path.stem for path in sources(".h")}
    wrong = []
    for path in sources(".cpp", ".cu"):
        includes = INCLUDE.findall(path.read_text())
        own = [name for name in includes if Path(name).stem == path.stem]
        if own and includes[0] == own[0] or is_made_elsewhere(path):
            continue
        found = "not its first include" if path.stem in headers else "none"
        wrong.append(f"{path.relative_to(ROOT)}: header of its name: {found}")
    assert wrong == []


def named_types(text):
    """Types that a file defines in a namespace with a name, or in none."""
    around = []
    at = 0
    text = NOISE.sub(" ", text)
    for mark in re.finditer(r"[{};]", text):
        head, at = text[at : mark.start()].strip(), mark.end()
        if mark[0] == "{":
            space = NAMESPACE.search(head)
            kind = TYPE.search(head)
            if space:
                around.append(space[1] or "(anonymous)")
                continue
            # Only namespaces around it, and no special case of a template.
            if (
                kind
                and None not in around
                and "(anonymous)" not in around
                and "<>" not in head
            ):
                yield "::".join([*around, kind[1]])
            around.append(None)
        elif mark[0] == "}" and around:
            around.pop()


def test_types_are_defined_once():
    """Two types of one name are one to the linker, whichever it takes."""
    found = defaultdict(set)
    for path in sources(".h", ".cpp", ".cu"):
        for name in named_types(path.read_text()):
            found[name].add(str(path.relative_to(ROOT)))
    assert len(found) > 300, "hardly any type was found"
    assert {k: sorted(v) for k, v in found.items() if len(v) > 1} == {}


def test_types_are_seen():
    text = """
    namespace a { struct One { int x; }; namespace { struct Hidden {}; }
    class Two : public One { struct Inner {}; }; enum class Three { X };
    template <> struct Four<int> {}; struct Five; } // namespace a
    """
    assert list(named_types(text)) == ["a::One", "a::Two", "a::Three"]


CONSTANT = re.compile(r"^(?:inline )?constexpr [^;]*?;", re.MULTILINE)
CONSTANT_NAME = re.compile(r"\b(k[A-Z]\w*)\s*(?=[={])")


def constants_of(path):
    """Constants of a file, outside functions and classes."""
    for found in CONSTANT.findall(NOISE.sub(" ", path.read_text())):
        yield from CONSTANT_NAME.findall(found)


def test_constants_hide_no_other():
    """Where files are compiled as one, a constant of a source would be read in
    the others instead of the header's of that name, and nobody would say so."""
    read = defaultdict(set)
    of_headers = defaultdict(set)
    for path in sources(".h"):
        for name in constants_of(path):
            part = path.relative_to(ROOT).parts[0]
            of_headers[name, part == "runtime"].add(path)
    for path in sources(".cpp", ".cu"):
        part = path.relative_to(ROOT).parts[0]
        for name in constants_of(path):
            key = str(path.parent.relative_to(ROOT)), name
            read[key] |= {path} | of_headers[name, part == "runtime"]
    assert len(read) > 200, "hardly any constant was found"
    twice = {
        name: sorted(str(path.relative_to(ROOT)) for path in paths)
        for name, paths in read.items()
        if len(paths) > 1
    }
    assert twice == {}
