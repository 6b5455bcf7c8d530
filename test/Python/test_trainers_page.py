"""docs/Trainers.md: its walk runs, in its order, in four processes; the lines
that it shows of examples are theirs; what it says is shown by tests."""

import importlib.machinery
import importlib.util
import re

import pytest
from conftest import ROOT
from processes import dist, run_ranks, torch

decoder = pytest.importorskip("decoder")

PAGE = ROOT / "docs" / "Trainers.md"
RUN = ["Plain PyTorch", "DTensors"]


def sections():
    """{title: [code of each block]}"""
    found = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        found[title] = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    return found


def _walk(rank, store, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/pg", rank=rank, world_size=4
    )
    meshes, losses = {}, []

    def build(sizes, device="cpu"):
        mesh, model, optimizer, schedule = decoder.build(sizes, norms=False)
        meshes[id(model)] = mesh
        if device == "meta":
            model.to("meta")
        return model, optimizer, schedule

    def train_step(model, optimizer, schedule):
        losses.extend(
            decoder.train(
                meshes[id(model)], model, optimizer, schedule, len(losses), 1
            )
        )

    names = {"build": build, "train_step": train_step, "folder": folder}
    for title in RUN:
        for code in sections()[title]:
            exec(compile(code, str(PAGE), "exec"), names)
    wanted = decoder.train(*decoder.build({"dp": 4}), 0, len(losses))
    assert torch.allclose(torch.tensor(losses), torch.tensor(wanted), atol=2e-6)
    moved = names["moved"]["w"]
    assert moved.to_local().shape[0] == (2 if rank else 0)
    return len(losses)


def test_the_walk_runs(tmp_path):
    steps = run_ranks(4, _walk, tmp_path, str(tmp_path))
    assert len(set(steps)) == 1 and steps[0] >= 4, steps


@pytest.mark.parametrize(
    ("title", "files"),
    [
        (
            "Megatron-Core",
            ["megatron/switching.py", "elastic_megatron/train.py"],
        ),
        (
            "torchtitan",
            ["torchtitan/switching.py", "elastic_torchtitan/train.py"],
        ),
        ("Reinforcement learning", ["rl/switching.py"]),
    ],
)
def test_shown_lines_are_the_examples(title, files):
    text = "".join((ROOT / "examples" / one).read_text() for one in files)
    blocks = sections()[title]
    assert blocks
    for block in blocks:
        assert block in text, block


def test_links_lead_somewhere():
    text = PAGE.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (PAGE.parent / target).exists(), target
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        # As GitHub makes them.
        titles = [re.sub(r"[^\w\- ]", "", t.lower()) for t in sections()]
        assert anchor in [t.replace(" ", "-") for t in titles], anchor


SHOWN = "What shows this"


def shown():
    """(page, what shows it) of each row of the table; a row without a page has
    that of the row above."""
    table = PAGE.read_text().split(f"\n## {SHOWN}\n")[1]
    title = None
    for row in re.findall(r"^\| (.*) \|$", table, re.M)[1:]:
        page, _, test = re.split(r" ?\| ", row)
        title = re.sub(r"^\[(.*)\]\(#.*\)$", r"\1", page) or title
        yield title, test.strip("`")


def test_all_pages_are_shown_by_something():
    assert {title for title, _ in shown()} == sections().keys() - {SHOWN}


@pytest.mark.parametrize("name", [name for _, name in shown()])
def test_what_shows_it_exists(name):
    file, _, function = name.partition("::")
    text = (ROOT / file).read_text()
    assert not function or f"\ndef {function}(" in text


def _follow():
    """scripts/follow-trainers as a module."""
    path = str(ROOT / "scripts" / "follow-trainers")
    loader = importlib.machinery.SourceFileLoader("follow_trainers", path)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_every_example_is_followed():
    """Each page with an example has commands that run it; each has its turn."""
    follow = _follow()
    pages = follow.sections(PAGE.read_text())
    assert any("-m venv" in line for line in pages.pop(follow.SETUP))
    run = {
        name
        for lines in pages.values()
        for line in lines
        for name in re.findall(r"examples/(\w+)/switching\.py", line)
    }
    examples = (ROOT / "examples").glob("*/switching.py")
    assert run == {path.parent.name for path in examples}
    turns = {follow.chosen(pages, f"{n:040x}") for n in range(len(pages))}
    assert turns == pages.keys()


@pytest.mark.parametrize(
    ("lines", "good", "printed"),
    [
        (
            ["X='a  b'", 'echo "$X"'],
            True,
            ["$ X='a  b'", '$ echo "$X"', "a  b"],
        ),
        (["false", "echo on"], False, ["$ false"]),
        (["sleep 60"], False, ["$ sleep 60", "not over after 1 s"]),
    ],
    ids=["runs", "stops", "hangs"],
)
def test_commands_are_followed_to_the_first_that_fails(
    lines, good, printed, capfd
):
    assert (
        _follow().follow(lines, limit=1 if "sleep 60" in lines else 60) is good
    )
    assert capfd.readouterr().out.splitlines() == printed
