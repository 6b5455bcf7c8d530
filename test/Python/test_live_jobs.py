"""The Python of docs/LiveJobs.md runs, in its order, in four processes."""

import re

import pytest
from conftest import ROOT
from processes import dist, run_ranks, torch

decoder = pytest.importorskip("decoder")

PAGE = ROOT / "docs" / "LiveJobs.md"


def blocks():
    """(line, code) of each block."""
    text = PAGE.read_text()
    return [
        (text.count("\n", 0, found.start(1)) + 1, found[1])
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)
    ]


def compiled_page():
    """The page as one program whose lines are those of the page."""
    lines = PAGE.read_text().count("\n") * [""]
    for first, code in blocks():
        for number, line in enumerate(code.splitlines()):
            lines[first - 1 + number] = line
    return compile("\n".join(lines), str(PAGE), "exec")


class Trainer:
    """What the page takes for granted."""

    def __init__(self, folder):
        self.folder = folder
        self.meshes = {}
        self.steps = 0
        self.losses = []

    def build(self, sizes):
        mesh, model, optimizer, schedule = decoder.build(sizes)
        self.meshes[id(model)] = mesh
        return model, optimizer, schedule

    def train_step(self, model, optimizer, schedule):
        mesh = self.meshes[id(model)]
        self.losses += decoder.train(
            mesh, model, optimizer, schedule, self.steps, 1
        )
        self.steps += 1


def _page(rank, store, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/pg", rank=rank, world_size=4
    )
    trainer = Trainer(folder)
    model, optimizer, schedule = trainer.build({"dp": 4})
    for _ in range(3):
        trainer.train_step(model, optimizer, schedule)
    names = {
        "model": model, "optimizer": optimizer, "schedule": schedule,
        "build": trainer.build, "train_step": trainer.train_step,
        "folder": folder,
    }  # fmt: skip
    exec(compiled_page(), names)
    # The same training without a switch.
    reference = decoder.build({"dp": 4})
    wanted = decoder.train(*reference, 0, trainer.steps)
    found = torch.tensor(trainer.losses)
    assert torch.allclose(found, torch.tensor(wanted), atol=2e-6)
    return trainer.steps


def test_the_page_runs(tmp_path):
    steps = run_ranks(4, _page, tmp_path, str(tmp_path))
    assert len(set(steps)) == 1 and steps[0] >= 4, steps


def test_every_block_is_seen():
    text = PAGE.read_text()
    assert len(blocks()) == len(re.findall(r"^```\w", text, re.M)) >= 10


def test_errors_of_the_table_exist():
    """The texts of the last table are those of the package."""
    table = PAGE.read_text().split("| text | what it means |")[1]
    quoted = [
        text for row in table.splitlines()[2:]
        for text in re.findall(r"`([^`]+)`", row.split("|")[1])
    ]  # fmt: skip
    sources = "\n".join(
        path.read_text()
        for folder in ("python", "runtime", "lib")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".cpp", ".h")
    )
    # Strings of the sources without the seams between their parts.
    sources = re.sub(r'"\s*f?"', "", sources)
    # What is filled in, or stands in front: a number, a name, a kind.
    filled = r"\.\.\.|60 s|rank 3|ranks|was |: |source|destination"
    assert len(quoted) > 12
    for text in quoted:
        for part in re.split(filled, text):
            assert part.strip() in sources, (text, part)
