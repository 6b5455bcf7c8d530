"""Small values as bytes: what comes back is what went, and no code runs."""

import collections
import os
import pickle
import random

import numpy
import pytest
from dynatrain.value_bytes import decode, encode
from processes import dynatrain, torch

PLAIN, SAVED = b"p", b"s"


def way_of(value):
    """Its first byte says by which way a value goes; it comes back alike."""
    data = encode("value", value)
    found = decode(data)
    assert_alike(value, found)
    return data[:1]


def assert_alike(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert one.stride() == other.stride()
        assert one.requires_grad == other.requires_grad
        assert torch.equal(one, other) or bool(one.isnan().any())
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key, value in one.items():
            assert_alike(value, other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other):
            assert_alike(mine, theirs)
    else:
        assert one == other or one != one


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**80),
        1e-300,
        float("nan"),
        "ä" * 300,
        b"\0\xff",
        [],
        {"a": [1, (2.5, None)], 3: {4}, ("x", 1): frozenset({2})},
        random.getstate(),
        torch.get_rng_state(),
        {"lr": torch.tensor(1e-3), "betas": (0.9, 0.95)},
        torch.zeros(0, 3),
        torch.arange(6, dtype=torch.bfloat16).view(2, 3),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.arange(10)[3:7],
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_values_are_pickled(value):
    assert way_of(value) == PLAIN


@pytest.mark.parametrize(
    "value",
    [
        collections.OrderedDict(a=1),
        torch.ones(3, requires_grad=True),
        torch.nn.Parameter(torch.ones(2)),
        torch.arange(6).view(2, 3).t(),
        torch.Size([2, 3]),
        torch.bfloat16,
    ],
    ids=lambda value: type(value).__name__,
)
def test_others_are_saved(value):
    assert way_of({"it": value}) == SAVED


def test_what_shares_memory_still_does():
    whole = torch.arange(8.0)
    assert way_of([whole, whole[2:4]]) == SAVED
    found = decode(encode("value", [whole, whole[2:4], whole]))
    found[0][2] = 77
    assert found[1][0] == 77 and found[2][2] == 77
    same = [1]
    first, second = decode(encode("value", [same, same]))
    assert first is second


def test_a_tensor_has_memory_of_its_own():
    own = torch.arange(4.0)
    data = encode("value", own)
    first, second = decode(data), decode(data)
    first.add_(1)
    assert torch.equal(own, torch.arange(4.0)) and torch.equal(own, second)


def test_what_cannot_travel_is_named():
    # numpy's numbers are code to torch too.
    for strange in (object(), print, numpy.float64(1.5)):
        with pytest.raises(dynatrain.Error, match="'loader' of a State cannot"):
            encode("loader/", {"strange": strange})


class Harm:
    def __reduce__(self):
        return os.mkdir, ("harm",)


def test_no_code_of_others_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for data in (pickle.dumps(Harm()), pickle.dumps(print)):
        with pytest.raises(pickle.UnpicklingError, match="is no plain value"):
            decode(PLAIN + data)
    assert not os.listdir(tmp_path)


def test_a_name_that_is_no_dtype():
    data = encode("value", torch.zeros(3)).replace(b"float32", b"nn_____")
    with pytest.raises((pickle.UnpicklingError, AttributeError)):
        decode(data)
    data = encode("value", torch.zeros(3)).replace(b"float32", b"ones_as")
    with pytest.raises((pickle.UnpicklingError, AttributeError)):
        decode(data)
