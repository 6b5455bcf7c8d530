"""docs/Map.md names files and folders that exist, and every folder of code."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "Map.md").read_text()
NAMES = set(re.findall(r"`([\w./-]+)`", PAGE))
#: Words in code style that are no paths.
WORDS = {"config.json", "dt", "dt-plan", "dynatrain"}
OPS = re.compile(r"dt\.\w+")


def test_what_the_map_names_exists():
    paths = {
        name for name in NAMES if name not in WORDS and not OPS.fullmatch(name)
    }
    assert len(paths) > 40
    assert [name for name in sorted(paths) if not (ROOT / name).exists()] == []


def test_every_folder_of_code_is_on_the_map():
    folders = {
        f"{part}/{path.name}"
        for part in ("lib", "runtime")
        for path in (ROOT / part).iterdir()
        if path.is_dir() and path.name != "include"
    }
    assert len(folders) > 15
    assert sorted(folders - NAMES) == []


def test_every_question_has_one_file_of_its_own():
    table = PAGE.split("## Where is it decided?")[1].split("## ")[0]
    files = re.findall(r"\| `([^`]+)` \|$", table, re.MULTILINE)
    assert len(files) > 15
    assert all((ROOT / name).is_file() for name in files)
