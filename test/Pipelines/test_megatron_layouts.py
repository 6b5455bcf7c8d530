"""The comparison with Megatron-Core: recordings, names, and that it notices."""

import copy
import json

import pytest
from megatron_cases import engine_names, engine_order, random_case
from megatron_layouts import (
    RECORDED,
    compare_rank,
    expected_of,
    pack,
    read_recording,
)

NAMES = sorted(path.name for path in RECORDED.glob("*.json"))


def test_recordings_are_many_and_small():
    assert len(NAMES) >= 40
    assert sum((RECORDED / n).stat().st_size for n in NAMES) < 1 << 20


@pytest.mark.parametrize("name", NAMES[:5])
def test_packing_is_what_unpacking_undoes(name):
    text = json.dumps(pack(*read_recording(name)))
    assert json.loads(text) == json.loads((RECORDED / name).read_text())


@pytest.mark.parametrize("name", NAMES)
def test_engine_order_names_every_tensor_once(name):
    case, truth = read_recording(name)
    if case["registration"] == "config":
        order = engine_order(case, truth["tensors"])
        assert sorted(order) == sorted(name for name, _ in truth["tensors"])
        names = engine_names(case, truth["tensors"])
        assert len(set(names.values())) == len(names)


def test_same_seed_gives_the_same_case():
    assert random_case("s/1") == random_case("s/1")


GATED = [("w", [[[0, 4], [8, 12]], [[0, 6]]], (0, 10))]


def changed(region=None, owned=None):
    rows = copy.deepcopy(GATED)
    name, old_region, old_owned = rows[0]
    return [(name, region or old_region, owned or old_owned)]


@pytest.mark.parametrize(
    "rows",
    [
        changed(region=[[[8, 12], [0, 4]], [[0, 6]]]),  # gate and up swapped
        changed(region=[[[4, 8], [12, 16]], [[0, 6]]]),  # another rank's
        changed(owned=(1, 11)),  # as many elements, elsewhere
        [],
    ],
)
def test_the_comparison_notices(rows):
    names = {"w": "w"}
    expected = expected_of(GATED, names)
    assert not compare_rank(0, expected, expected_of(GATED, names))
    assert compare_rank(0, expected, expected_of(rows, names))
