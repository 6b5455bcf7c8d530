"""docs/Proof.md and docs/ExecutionModel.md name what exists.

Files, and in tables the names that follow a file, are looked up in the tree;
theorems in proof/, lemmas in the compiler's source. The other way round, every
theorem and lemma stands on the page.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    name: (ROOT / "docs" / name).read_text()
    for name in ("Proof.md", "ExecutionModel.md")
}
PROOF = PAGES["Proof.md"]
# Folders of this tree; other paths on the pages are NCCL's and PyTorch's.
OURS = ("include/", "lib/", "proof/", "runtime/", "scripts/", "test/")
MODULES = {path.stem: path.read_text() for path in (ROOT / "proof").glob("*.v")}
LEMMAS = (ROOT / "lib" / "Proof" / "Lemmas.cpp").read_text()


def rows(text):
    """The cells of all tables."""
    for line in text.splitlines():
        if line.startswith("|") and not set(line) <= set("|- "):
            yield from (cell.strip() for cell in line.strip("|").split(" | "))


def quoted(text):
    return re.findall(r"`([^`]+)`", text)


def is_our_file(name):
    return name.startswith(OURS) and re.fullmatch(r"[\w./-]+\.\w+", name)


def references():
    """(page, file, name in it or None) of every file that a page names."""
    found = set()
    for page, text in PAGES.items():
        for name in quoted(text):
            if is_our_file(name):
                found.add((page, name, None))
        for cell in rows(text):
            file = None
            for name in quoted(cell):
                if is_our_file(name):
                    file = name
                elif file and re.fullmatch(r"\w+", name):
                    found.add((page, file, name))
    return sorted(found, key=str)


def statements(module):
    """Theorems, corollaries and examples of a file of proof/."""
    return re.findall(
        r"^(?:Theorem|Corollary|Example)\s+(\w+)", MODULES[module], re.MULTILINE
    )


def stated():
    return {
        f"{module}.{name}" for module in MODULES for name in statements(module)
    }


def on_page():
    """What looks like a theorem: Module.name."""
    return {
        name
        for text in PAGES.values()
        for name in quoted(text)
        if name.partition(".")[0] in MODULES and not name.endswith(".v")
    }


def lemmas():
    """(name, theorem) of the SMT lemmas, in order."""
    table = LEMMAS[LEMMAS.index("lemmas() {") :]
    return re.findall(r'\{"([a-z-]+)",.*?"(\w+\.\w+)"\}', table, re.DOTALL)


@pytest.mark.parametrize("reference", references(), ids=str)
def test_what_is_named_exists(reference):
    _, file, name = reference
    assert (ROOT / file).is_file()
    if name:
        assert re.search(rf"\b{name}\b", (ROOT / file).read_text()), name


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", PAGES[page])
    assert links
    for link in links:
        assert (ROOT / "docs" / link).is_file(), link


def test_the_pages_name_many_places():
    files = {file for _, file, _ in references()}
    names = [name for _, _, name in references() if name]
    assert len(files) >= 40
    assert len(names) >= 40


def test_theorems_are_those_of_the_page():
    assert on_page() == stated()


def test_theorems_are_asked_what_they_rest_on():
    asked = re.findall(
        r"^Print Assumptions (\w+\.\w+)\.$", MODULES["Theorems"], re.M
    )
    assert len(asked) == len(set(asked))
    assert set(asked) == stated()


def test_lemmas_are_those_of_the_page():
    assert len(lemmas()) == LEMMAS.count("Claim::")
    for name, theorem in lemmas():
        row = next(
            line
            for line in PROOF.splitlines()
            if line.endswith(f"| `{name}` |")
        )
        assert f"`{theorem}`" in row


def test_every_proof_is_compiled():
    listed = re.findall(
        r"^(\w+)\.v$",
        (ROOT / "proof" / "_CoqProject").read_text(),
        re.MULTILINE,
    )
    assert sorted(listed) == sorted(MODULES)


def test_nothing_is_supposed():
    for module, text in MODULES.items():
        code = re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)
        words = r"\b(Admitted|admit|Axiom|Parameter|Conjecture|Hypotheses)\b"
        assert not re.search(words, code), module
