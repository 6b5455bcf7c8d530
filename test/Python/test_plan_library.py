"""A folder of plans is found by layout, and believed only as far as its files
bear its index out."""

import json

import pytest
from conftest import ROOT

pytest.importorskip("torch")
dynatrain = pytest.importorskip("dynatrain")

from dynatrain import _C, PlanLibrary  # noqa: E402

SETS = ROOT / "examples" / "requests" / "sets"
LOSSES = SETS / "llama-tiny-8-each-node-lost.json"
SWAPS = SETS / "qwen3-moe-tiny-8-swaps.json"


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("losses") / "plans"
    return PlanLibrary.compile(LOSSES, folder)


@pytest.fixture(scope="module")
def swaps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swaps") / "plans"
    return PlanLibrary.compile(SWAPS, folder)


def test_names_are_in_the_order_of_the_request(losses):
    names = [plan.name for plan in losses]
    lost = [f"lost-node-{node}" for node in range(4)]
    assert names == [*lost, "half", "twice"]
    assert len(losses) == 6


def test_every_plan_loads_and_runs(losses):
    for plan in losses:
        loaded = losses.load(plan)
        assert loaded.digest == plan.digest
        assert loaded.source_devices == plan.source.devices
        assert loaded.destination_devices == plan.destination.devices
        report = _C.loopback(loaded._native, True, False)
        assert report["mismatches"] == 0


def test_a_loss_is_found_by_what_is_lost(losses):
    found = losses.find(lost="node:2")
    assert found.name == "lost-node-2"
    assert found.destination.devices == [0, 1, 2, 3, 6, 7]
    assert losses.find(lost="node:9") is None


def test_layouts_are_found_by_the_words_of_a_request(losses):
    request = json.loads(LOSSES.read_text())
    layout = {"world": 6, "tp": 2, "dp": 3, "zero": 1}
    found = losses.find(
        request["source"], {**layout, "devices": [0, 1, 4, 5, 6, 7]}
    )
    assert found.name == "lost-node-1"
    assert losses.find(request["source"], layout).name == "lost-node-3"
    elsewhere = {**layout, "devices": [0, 1, 2, 3, 4, 6]}
    assert losses.find(request["source"], elsewhere) is None
    half = request["destination"][1]
    assert losses.find(request["source"], half).name == "half"
    assert losses.find(half, request["source"]) is None


@pytest.mark.parametrize(
    "change",
    [{"zero": 0}, {"order": "dp-tp-pp"}, {"pp_layers": [4]}, {"tpp": 1}],
    ids=str,
)
def test_another_layout_is_not_found(losses, change):
    layout = {"world": 4, "tp": 2, "dp": 2, "zero": 1}
    assert losses.find(destination=layout).name == "half"
    assert losses.find(destination={**layout, **change}) is None


def test_sizes_that_a_layout_leaves_out_have_the_defaults(swaps):
    layout = {"world": 8, "tp": 4, "ep": 2, "dp": 2}
    assert swaps.find("train", layout).name == "train-to-generate"
    assert swaps.find("train", {**layout, "etp": 4}) is not None
    assert swaps.find("train", {**layout, "etp": 1}) is None


def test_layouts_are_found_by_name(swaps):
    assert swaps.find("generate", "evaluate").name == "generate-to-evaluate"
    assert swaps.find("generate", "generate") is None


def test_several_that_fit_are_an_error(swaps):
    with pytest.raises(dynatrain.InvalidError, match="2 plans of .* fit"):
        swaps.find("train")


def test_a_name_that_is_not_there_is_an_error(swaps):
    with pytest.raises(dynatrain.InvalidError, match="has no plan 'x', only"):
        swaps.load("x")


def test_a_folder_without_an_index_is_an_error(tmp_path):
    with pytest.raises(dynatrain.InvalidError, match="index.json"):
        PlanLibrary(tmp_path)


def test_an_index_that_is_no_index_is_an_error(tmp_path):
    (tmp_path / "index.json").write_text('{"format": "x", "plans": []}')
    with pytest.raises(dynatrain.InvalidError, match='format is "x"'):
        PlanLibrary(tmp_path)


def test_a_file_that_is_not_its_index_is_an_error(tmp_path):
    library = PlanLibrary.compile(SWAPS, tmp_path / "plans")
    one, two = library.plans[:2]
    folder = tmp_path / "plans"
    (folder / one.file).write_bytes((folder / two.file).read_bytes())
    with pytest.raises(dynatrain.InvalidError, match=one.file):
        library.load(one)
    assert library.load(two).digest == two.digest
    (folder / two.file).unlink()
    with pytest.raises(dynatrain.Error, match=two.file):
        library.load(two.name)


def test_a_request_that_does_not_compile_leaves_nothing(tmp_path):
    request = json.loads(SWAPS.read_text())
    request["model"] = str((SETS / request["model"]).resolve())
    request["swaps"][1]["tp"] = 3
    with pytest.raises(
        dynatrain.CompileError, match="plan 'train-to-generate'"
    ):
        PlanLibrary.compile(request, tmp_path / "plans")
    assert list(tmp_path.iterdir()) == []
