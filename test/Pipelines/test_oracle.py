"""The oracle and the generator against layouts worked out by hand, and the
checks against plans that are right and plans that are wrong."""

import json
import random

import numpy as np
import pytest
from extra_state import extra_shape, value_of
from generate import random_request, round_alike
from layouts import (
    Cut,
    Side,
    Sizes,
    Tensor,
    cut_by_rules,
    place_in_buckets,
    side_of,
)
from oracle import (
    Transition,
    check_deliveries,
    count_multicasts,
    problems_of,
)
from plan_file import PlanBytes


def held(tensor, layout, device, state="param", multiple=128):
    """Flat numbers of the elements that a device holds."""
    side = side_of([tensor], layout, multiple)
    return np.flatnonzero(side.mask([tensor], 0, state, device)).tolist()


def test_tensor_parallel_rows_and_columns():
    rows = Tensor("w", (4, 2), {"param": "f32"}, Cut(tp=0))
    columns = Tensor("w", (2, 4), {"param": "f32"}, Cut(tp=1))
    layout = {"world": 2, "tp": 2}
    assert held(rows, layout, 1) == [4, 5, 6, 7]
    assert held(columns, layout, 0) == [0, 1, 4, 5]


def test_packed_blocks_are_cut_one_by_one():
    tensor = Tensor("w", (6, 1), {"param": "f32"}, Cut(tp=0, blocks=[2, 4]))
    assert held(tensor, {"world": 2, "tp": 2}, 1) == [1, 4, 5]


def test_vocabulary_padding_is_stored_but_not_held():
    tensor = Tensor("w", (5, 1), {"param": "f32"}, Cut(tp=0, vocabulary=True))
    layout = {"world": 2, "tp": 2}
    assert held(tensor, layout, 1, multiple=4) == [4]
    side = side_of([tensor], layout, 4)
    assert side.stored_bytes([tensor], 1) == 16


def test_interleaved_stages_take_turns():
    sizes = Sizes({"world": 2, "pp": 2, "vpp": 2})
    stages = [sizes.chunk_of_layer(layer, 8) for layer in range(8)]
    assert stages == [(0, 0)] * 2 + [(1, 0)] * 2 + [(0, 1)] * 2 + [(1, 1)] * 2


def test_uneven_stages():
    sizes = Sizes({"world": 2, "pp": 2, "pp_layers": [1, 3]})
    assert [sizes.chunk_of_layer(n, 4)[0] for n in range(4)] == [0, 1, 1, 1]


def test_expert_grid_differs_from_the_dense_grid():
    sizes = Sizes({"world": 4, "tp": 2, "dp": 2, "ep": 2, "etp": 1})
    assert sizes.expert_dp == 2
    dense, expert = sizes.coordinates(3, False), sizes.coordinates(3, True)
    assert (dense["tp"], dense["dp"]) == (1, 1)
    assert (expert["ep"], expert["dp"]) == (1, 1)


def test_order_decides_which_axis_is_fastest():
    sizes = Sizes(
        {"world": 4, "tp": 2, "dp": 2, "order": "dp-tp-cp-ep-fsdp-pp"}
    )
    found = [sizes.coordinates(rank, False) for rank in range(4)]
    assert [at["dp"] for at in found] == [0, 1, 0, 1]


def test_fsdp_chunks_as_torch_does():
    tensor = Tensor("w", (5,), {"param": "f32"}, Cut())
    layout = {"world": 4, "fsdp": 4}
    shares = [held(tensor, layout, device) for device in range(4)]
    assert shares == [[0, 1], [2, 3], [4], []]


def test_buckets_close_and_are_padded():
    # 100 elements start at 0, the next parameter at 128 closes the bucket.
    assert place_in_buckets([100, 100, 10], [False] * 3, 150, 2) == [
        (0, 0, 256),
        (128, 0, 256),
        (256, 256, 384),
    ]


def test_zero_cuts_optimizer_state_and_nothing_else():
    states = {"param": "bf16", "exp_avg": "f32"}
    tensor = Tensor("w", (100,), states, Cut())
    layout = {"world": 2, "dp": 2, "zero": 1}
    assert held(tensor, layout, 1) == list(range(100))
    assert held(tensor, layout, 0, "exp_avg") == list(range(64))
    assert held(tensor, layout, 1, "exp_avg") == list(range(64, 100))


def test_rules_find_layers_experts_and_stages():
    named = [
        (name, ()) for name in ("emb", "layers.3.e.7.w", "layers.3.n", "head")
    ]
    rules = [
        {"match": "*.e.*", "tp": 0, "ep": True},
        {"match": "*", "tp": None},
    ]
    cuts = cut_by_rules(named, rules)
    assert [cut.layer for cut in cuts] == [None, 3, 3, None]
    assert cuts[1].expert == 7 and cuts[2].expert is None
    assert cuts[0].stages == ("first",) and cuts[3].stages == ("last",)


def test_a_flat_range_counts_elements_of_its_box():
    shards = [{"tensor": "w", "rank": 0, "offset": [1, 1], "size": [2, 2]}]
    shards[0]["range"] = [1, 3]
    tensor = Tensor("w", (3, 3), {"param": "f32"})
    assert held(tensor, {"world": 1, "shards": shards}, 0) == [5, 7]


def naive_plan(transition, rng):
    """A plan's deliveries, one element each, straight from random holders."""
    rows = []
    for number, tensor in enumerate(transition.tensors):
        for state in transition.on["destination"][number].states:
            masks = {
                device: transition.held(number, state, device)
                for device in transition.source.devices
            }
            for dst in transition.destination.devices:
                wanted = transition.mask(
                    transition.destination, number, state, dst
                )
                for at in map(tuple, np.argwhere(wanted)):
                    holders = [d for d, mask in masks.items() if mask[at]]
                    src = dst if dst in holders else rng.choice(holders)
                    rows.append({
                        "tensor": tensor.name, "state": state,
                        "src": src, "dst": dst,
                        "offset": [int(i) for i in at], "size": [1] * len(at),
                        "wave": -1 if src == dst else 0,
                    })  # fmt: skip
    return rows


def inspect_of(transition, rows):
    totals, request = transition.totals, transition.request
    wires = [row for row in rows if row["src"] != row["dst"]]
    crossing = sum(
        2
        for r in wires
        if transition.node(r["src"]) != transition.node(r["dst"])
    )
    maxima = [
        max(transition.stored_on(side)) for side in ("source", "destination")
    ]
    pairs = {(row["src"], row["dst"]) for row in wires}
    return {
        "format_version": "1.0", "request_hash": "", "proof": {},
        "tensors": len(transition.tensors),
        "source": {"world": request["source"]["world"]},
        "destination": {"world": request["destination"]["world"]},
        "bytes": {
            "destination": totals["destination"], "local": totals["local"],
            "wire": totals["wire"], "wire_lower_bound": totals["wire"],
            "inter_node": crossing,
            "inter_node_lower_bound": totals["inter_node"],
        },
        "time": {"predicted_s": 1, "lower_bound_s": 1},
        "memory": {
            "mode": "rollback", "staging_limit": 1 << 30, "staging_peak": 0,
            "device_peak": sum(maxima), "source_max": maxima[0],
            "destination_max": maxima[1],
        },
        "counts": {
            "waves": bool(wires), "messages": len(pairs), "collectives": 0,
        },
    }  # fmt: skip


def test_multicasts_are_counted_by_their_devices():
    request, model = shift_request()
    transition = Transition(request, model)

    def wire(src, dst, rows, tensor="a"):
        lo, hi = rows
        return {
            "tensor": tensor, "state": "param", "src": src, "dst": dst,
            "offset": [lo, 0], "size": [hi - lo, 3], "wave": 0,
        }  # fmt: skip

    def count(*wires):
        return count_multicasts(transition, wires)

    assert count() == 0
    assert count(wire(0, 1, (0, 4)), wire(0, 2, (0, 4))) == 0
    # Device 1 passes on other rows than it received.
    assert count(wire(0, 1, (0, 2)), wire(1, 2, (2, 4))) == 0
    chain = wire(0, 1, (0, 4)), wire(1, 2, (0, 2)), wire(1, 2, (2, 4))
    assert count(*chain) == 1
    # Rows that go elsewhere too are another multicast.
    assert count(*chain, wire(0, 3, (0, 1))) == 2


def shift_request():
    """Two tensors; tp 2 on devices 0 and 1 becomes tp 2 on devices 1 and 2."""
    model = {"tensors": [
        {"name": "a", "shape": [4, 3], "dtype": "bf16"},
        {"name": "b", "shape": [5], "dtype": "bf16"},
    ]}  # fmt: skip
    request = {
        "model": model,
        "rules": [{"match": "a", "tp": 0}, {"match": "b", "replicate": True}],
        "source": {"world": 2, "tp": 2},
        "destination": {"world": 2, "tp": 2, "devices": [1, 2]},
        "cluster": {"devices_per_node": 2},
    }
    return request, model


@pytest.fixture
def plan():
    transition = Transition(*shift_request())
    rows = naive_plan(transition, random.Random(1))
    return transition, rows, inspect_of(transition, rows)


def test_totals_of_a_small_shift(plan):
    transition, _, _ = plan
    # Device 1 lacks rows 0, 1 of a; device 2 lacks rows 2, 3 and b.
    assert transition.totals == {
        "destination": 2 * (6 + 6 + 5 + 5),
        "local": 2 * 5,
        "unchanged": 2 * 5,
        "wire": 2 * (6 + 6 + 5),
        "inter_node": 2 * (6 + 5),
    }


def test_a_right_plan_has_no_problems(plan):
    transition, rows, inspect = plan
    run = {
        "ok": True, "mismatches": 0, "seconds": 0, "GBps": 0, "staging_peak": 0,
        "bytes_checked": transition.totals["destination"],
    }  # fmt: skip
    assert problems_of(transition, inspect, rows, run) == []


@pytest.mark.parametrize(
    "change", ["drop", "twice", "wrong holder", "out of bounds"]
)
def test_a_wrong_plan_is_found(plan, change):
    transition, rows, inspect = plan
    row = next(row for row in rows if row["dst"] == 2 and row["tensor"] == "a")
    if change == "drop":
        rows.remove(row)
    elif change == "twice":
        rows.append(dict(row))
    elif change == "wrong holder":
        row["src"] = 0
    else:
        row["offset"] = [4, 0]
    assert check_deliveries(transition, rows, inspect)


def test_a_relay_counts_from_the_next_wave_on(plan):
    transition, rows, inspect = plan
    first = next(row for row in rows if row["dst"] == 1 and row["wave"] == 0)
    relay = first | {"src": 1, "dst": 2}
    transition.destination.add(
        0, "param", 2, transition.source.pieces[0, "param"][0][0]
    )
    transition.masks.clear()

    def complaints(wave):
        found = check_deliveries(
            transition, [*rows, relay | {"wave": wave}], inspect
        )
        return [text for text in found if "by then" in text]

    assert complaints(0) and not complaints(1)


@pytest.mark.parametrize("number", range(40))
def test_random_requests_are_sound(number):
    case = random_request(f"unit/{number}")
    again = random_request(f"unit/{number}")
    assert json.dumps(case.request) == json.dumps(again.request)
    transition = Transition(case.request, case.model)
    for side, tensors in transition.on.items():
        held = getattr(transition, side)
        for n, tensor in enumerate(tensors):
            for state in tensor.states:
                count = sum(
                    transition.mask(held, n, state, d) for d in held.devices
                )
                # Of an extra state, some values may be nobody's from then on.
                everywhere = not tensor.name.startswith("extra")
                assert np.all(count > 0) if everywhere else np.any(count > 0)


def test_states_change_their_dtypes_and_are_made_from_others():
    """Half of w goes to each of two devices: 4 elements of param (f32 to bf16)
    and of master (f32 to f64), from which device 1 makes its param."""
    request, model = shift_request()
    model["tensors"] = [{"name": "a", "shape": [4, 1], "dtype": "bf16"}]
    request["source"]["state"] = {"param": "f32", "master": "f32"}
    request["destination"] = {
        "world": 2, "dp": 2, "devices": [0, 1],
        "state": {"param": "bf16", "master": "f64"},
    }  # fmt: skip
    request["source"] |= {"world": 1, "tp": 1}
    request["derive"] = {"param": "master"}
    assert Transition(request, model).totals == {
        "destination": 2 * 4 * (2 + 8),
        "local": 4 * (2 + 8) + 4 * 2,
        "wire": 4 * 4,
        "inter_node": 0,
    }


def test_an_extra_state_has_one_value_per_coordinate():
    layout = {"world": 4, "tp": 2, "dp": 2}
    entry = {"name": "rng", "dtype": "u8", "shape": [5], "per": ["dp", "etp"]}
    assert extra_shape(entry, layout) == (2, 2, 5)
    wider = layout | {"world": 6, "dp": 3}
    found = [value_of(entry, layout, wider, rank) for rank in range(6)]
    assert found == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1)]


def test_what_rounds_alike():
    before = {"param": "bf16", "master": "f32"}
    assert round_alike(before, before, "master", "param")
    after = {"param": "bf16", "master": "f16"}
    assert not round_alike(before, after, "master", "param")


def test_a_side_lists_its_devices_in_order():
    assert Side([3, 1]).devices == [1, 3]


def test_seal_makes_checksums_right_again():
    header = bytearray(128)
    plan = PlanBytes(header + bytes(16) + bytes(32))
    plan.set_field("section_count", 1)
    plan.set_field("table_offset", 144)
    plan.set_table([[0, 0, 128, 16, 0]])
    plan.seal()
    before = plan.table()[0][4]
    plan.data[130] = 1
    plan.seal()
    assert plan.table()[0][4] != before
