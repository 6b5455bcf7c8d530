"""The pages of docs/ and README.md name files and headings that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
CODE = ("bench", "examples", "include", "lib", "proof", "python", "runtime")
CODE += ("scripts", "test", "tools")
#: Of files that may name pages; scripts have none.
SUFFIXES = {".cpp", ".h", ".td", ".py", ".v", ".txt", ".test", ""}
#: Where other paths begin: of the machine, NCCL, PyTorch, DynMo.
FOREIGN = ("/", "src/", "docs/userguide/", "torch/csrc/", "c10/cuda/")
FOREIGN += ("megatron/balancer/",)
#: Keys of a store, and the name of a GoogleTest suite.
NO_PATHS = {"dynatrain/attempt", ".../read", ".../committed"}
NO_PATHS |= {"Nccl/TransportContract.*"}


def prose(page):
    """The page's text, without blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors(page):
    """What links to headings of a page end with, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {word.replace(" ", "-") for word in words}


def named_paths(page):
    """Paths below the root, in code style; a star stands for any name."""
    found = set(re.findall(r"`(\.*[\w.-]*(?:/[\w.*-]+)+/?)`", prose(page)))
    return {n for n in found - NO_PATHS if not n.startswith(FOREIGN)}


def exists(path):
    return any(ROOT.glob(path.rstrip("/")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    broken = []
    for link in re.findall(r"\]\(([^)]+)\)", prose(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or anchor and anchor not in anchors(target):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page):
    assert [n for n in sorted(named_paths(page)) if not exists(n)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_alone_exist(page):
    names = re.findall(r"`([\w-]+\.(?:cpp|h|py|td|test|v|cu|cc))`", prose(page))
    known = {path.name for part in CODE for path in (ROOT / part).rglob("*.*")}
    assert sorted(set(names) - known) == []


def test_the_patterns_find_what_they_look_for():
    paths = {name for page in PAGES for name in named_paths(page)}
    assert len(paths) > 150
    assert "lib/Routing/Router.cpp" in paths
    assert not exists("lib/Routing/NoSuchFile.cpp")
    assert "plain-pytorch" in anchors(ROOT / "docs" / "Trainers.md")


def test_the_readme_lists_every_page():
    links = re.findall(r"\]\((docs/\w+\.md)\)", prose(ROOT / "README.md"))
    pages = {f"docs/{page.name}" for page in PAGES if page.name != "README.md"}
    assert sorted(pages - set(links)) == []


def test_code_names_pages_that_exist():
    named = set()
    for part in CODE:
        for path in (ROOT / part).rglob("*"):
            if path.suffix in SUFFIXES and path.is_file():
                text = path.read_text(errors="replace")
                named |= set(re.findall(r"\bdocs/\w+\.md\b", text))
    assert len(named) > 10
    assert [name for name in sorted(named) if not exists(name)] == []


def test_the_glossary_says_where_each_term_is_defined():
    page = ROOT / "docs" / "Glossary.md"
    rows = re.findall(r"^\| (?!term )(.+) \| `(.+)` \|$", prose(page), re.M)
    assert len(rows) > 60
    assert [row for row, file in rows if not (ROOT / file).is_file()] == []
    terms = [row.split(" | ")[0] for row, _ in rows]
    assert len(terms) == len(set(terms))
