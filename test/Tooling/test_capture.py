"""Captured layouts: JSON forms always, torch's own objects where it is there;
each captured request compiles and runs with every byte compared."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"

# By its path: the package itself needs torch.
FOLDER = ROOT / "python" / "dynatrain" / "capture"
spec = importlib.util.spec_from_file_location(
    "capture", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
)
capture = importlib.util.module_from_spec(spec)
sys.modules["capture"] = capture
spec.loader.exec_module(capture)


def rows_of(layout, name):
    return {
        (row["rank"], tuple(row["offset"]), tuple(row["size"]))
        for row in layout.rows
        if row["tensor"] == name
    }


def run_checked(request, folder):
    """Compiles and runs a request; dt-run's report."""
    if not (BIN / "dt-run").exists():
        pytest.skip("the tools are not built")
    path, plan = folder / "request.json", folder / "out.dtplan"
    path.write_text(json.dumps(request))
    subprocess.run([BIN / "dt-opt", path, "-o", plan], check=True)
    subprocess.run([BIN / "dt-plan", "verify", plan], check=True)
    run = [BIN / "dt-run", plan, "--check", "--json"]
    report = json.loads(subprocess.check_output(run))
    assert report["ok"] and report["mismatches"] == 0
    return report


def shard(dim):
    return {"type": "Shard", "dim": dim}


REPLICATE = {"type": "Replicate"}


def strided(dim, factor):
    return {"type": "_StridedShard", "dim": dim, "split_factor": factor}


def dtensor(shape, mesh, *placements, dtype="torch.float32"):
    return {
        "shape": shape,
        "dtype": dtype,
        "mesh": mesh,
        "placements": placements,
    }


def checkpoint_metadata():
    def chunk(offset, size):
        return {"offsets": [offset, 0], "sizes": [size, 4]}

    def stored(offset, rank):
        index = {"fqn": "w", "offset": [offset, 0]}
        return {
            "index": index,
            "info": {"relative_path": f"__{rank}_0.distcp"},
        }

    entry = {
        "properties": {"dtype": "torch.float32"},
        "size": [10, 4],
        "chunks": [chunk(0, 4), chunk(4, 4), chunk(8, 2)],
    }
    return {
        "state_dict_metadata": {"w": entry, "step": {}},
        "storage_data": [stored(0, 2), stored(4, 0), stored(8, 1)],
    }


def sharded(key, offset, local, shape, **more):
    return {
        "key": key,
        "dtype": "torch.bfloat16",
        "local_shape": local,
        "global_shape": shape,
        "global_offset": offset,
        "replica_id": 0,
        "prepend_axis_num": 0,
    } | more


def test_checkpoint_metadata(tmp_path):
    layout = capture.from_checkpoint_metadata(checkpoint_metadata(), 3)
    expected = {(2, (0, 0), (4, 4)), (0, (4, 0), (4, 4)), (1, (8, 0), (2, 4))}
    assert rows_of(layout, "w") == expected
    after = capture.from_dtensors({"w": dtensor([10, 4], [0, 1], shard(1))}, 2)
    run_checked(capture.request(layout, after), tmp_path)


def test_dtensor_uneven_chunks_leave_the_last_ranks_short_or_empty():
    layout = capture.from_dtensors(
        {"w": dtensor([5, 2], [0, 1, 2, 3], shard(0))}, 4
    )
    expected = {(0, (0, 0), (2, 2)), (1, (2, 0), (2, 2)), (2, (4, 0), (1, 2))}
    assert rows_of(layout, "w") == expected


def test_dtensor_strided_shard_cuts_after_tensor_parallelism(tmp_path):
    mesh = [[0, 1], [2, 3]]  # fsdp x tp
    layout = capture.from_dtensors(
        {"w": dtensor([10, 2], mesh, strided(0, 2), shard(0))}, 4
    )
    assert rows_of(layout, "w") == {
        (0, (0, 0), (3, 2)), (1, (5, 0), (3, 2)),
        (2, (3, 0), (2, 2)), (3, (8, 0), (2, 2)),
    }  # fmt: skip
    after = capture.from_dtensors(
        {"w": dtensor([10, 2], [0, 1, 2], shard(0))}, 3
    )
    run_checked(capture.request(layout, after), tmp_path)


def test_dtensor_strided_shard_alone_interleaves():
    layout = capture.from_dtensors(
        {"w": dtensor([8], [0, 1], strided(0, 2))}, 2
    )
    assert rows_of(layout, "w") == {
        (0, (0,), (2,)), (0, (4,), (2,)), (1, (2,), (2,)), (1, (6,), (2,)),
    }  # fmt: skip


def rows_on(layout, name="w"):
    """{rank: elements of a tensor of one dim}."""
    held = {rank: [] for rank in range(layout.world)}
    for rank, (offset,), (size,) in sorted(rows_of(layout, name)):
        held[rank] += range(offset, offset + size)
    return held


def test_dtensor_strided_shard_after_a_shard_interleaves_its_part():
    placements = shard(0), strided(0, 2)
    mesh = [[0, 1], [2, 3]]
    layout = capture.from_dtensors({"w": dtensor([16], mesh, *placements)}, 4)
    assert rows_on(layout) == {
        0: [0, 1, 4, 5], 1: [2, 3, 6, 7],
        2: [8, 9, 12, 13], 3: [10, 11, 14, 15],
    }  # fmt: skip


def test_dtensor_strided_shards_count_each_other():
    """FSDP2 over experts over tensor parallelism, all along one dim: the
    innermost mesh dim cuts first, the outermost last."""
    mesh = [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
    placements = strided(0, 6), strided(0, 2), shard(0)

    def part(elements, parts, number):
        each = -(-len(elements) // parts)
        return elements[number * each : (number + 1) * each]

    for size in (24, 25, 31):
        layout = capture.from_dtensors(
            {"w": dtensor([size], mesh, *placements)}, 12
        )
        held = rows_on(layout)
        for rank in range(12):
            own = part(list(range(size)), 2, rank % 2)
            own = part(part(own, 3, rank // 2 % 3), 2, rank // 6)
            assert held[rank] == own, (size, rank)


def test_dtensor_shards_before_a_strided_shard_cut_from_left_to_right():
    mesh = [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]
    placements = strided(0, 6), shard(0), shard(0)

    def part(elements, parts, number):
        each = -(-len(elements) // parts)
        return elements[number * each : (number + 1) * each]

    for size in (24, 25, 31):
        layout = capture.from_dtensors(
            {"w": dtensor([size], mesh, *placements)}, 12
        )
        held = rows_on(layout)
        for rank in range(12):
            own = part(list(range(size)), 2, rank // 3 % 2)
            own = part(part(own, 3, rank % 3), 2, rank // 6)
            assert held[rank] == own, (size, rank)


def test_dtensor_neighbouring_pieces_are_one_box():
    """A mesh dim of one rank cuts into pieces that all stay together."""
    placements = strided(0, 3), shard(1)
    layout = capture.from_dtensors(
        {"w": dtensor([7, 4], [[0, 1]], *placements)}, 2
    )
    assert rows_of(layout, "w") == {(0, (0, 0), (7, 2)), (1, (0, 2), (7, 2))}


def test_dtensor_strided_shards_of_two_dims():
    """A factor counts the shards of its own dim only."""
    mesh = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    placements = strided(1, 2), shard(0), shard(1)
    layout = capture.from_dtensors({"w": dtensor([4, 8], mesh, *placements)}, 8)
    assert rows_of(layout, "w") == {
        (4 * a + 2 * b + c, (2 * b, 4 * c + 2 * a), (2, 2))
        for a in range(2) for b in range(2) for c in range(2)
    }  # fmt: skip


class LocalTensor:
    def __init__(self, *shape):
        self.shape = shape


class Mesh:
    """A device mesh as one of its ranks sees it."""

    def __init__(self, mesh, at, root=None):
        self.mesh, self.at, self.root = mesh, at, root

    def get_coordinate(self):
        return self.at

    def _get_root_mesh(self):
        return self.root or self


def test_uneven_strided_shards_mean_what_the_local_tensor_is():
    """FSDP2 and distribute_tensor write the same placements for other shards
    of 7 elements: the shape of a local tensor tells them apart."""
    mesh = [[0, 1], [2, 3], [4, 5]]
    entry = dtensor([7], None, strided(0, 2), shard(0))
    fsdp2 = {0: [0, 1], 1: [4], 2: [2, 3], 3: [5], 4: [], 5: [6]}
    by_hand = {0: [0, 1], 1: [4], 2: [2, 3], 3: [5], 4: [6], 5: []}

    def held(rank, size):
        seen = Mesh(mesh, [rank // 2, rank % 2])
        local = {"device_mesh": seen, "_local_tensor": LocalTensor(size)}
        return rows_on(capture.from_dtensors({"w": entry | local}, 6))

    assert (
        rows_on(capture.from_dtensors({"w": entry | {"mesh": mesh}}, 6))
        == fsdp2
    )
    for rank in range(6):
        assert held(rank, len(fsdp2[rank])) == fsdp2
    for rank in (4, 5):
        assert held(rank, len(by_hand[rank])) == by_hand
    words = (
        r"'w': its local shape at \[2, 0\] of the mesh \[3, 2\] is \[3\], "
        r"where .* of \[7\] leaves \[1\]"
    )
    with pytest.raises(capture.CaptureError, match=words):
        held(4, 3)


def test_dtensor_hsdp_replicates_over_the_first_mesh_dim(tmp_path):
    mesh = [[0, 1], [2, 3]]
    before = capture.from_dtensors(
        {"w": dtensor([7, 3], mesh, REPLICATE, shard(0))}, 4
    )
    assert len(rows_of(before, "w")) == 4
    after = capture.from_dtensors(
        {"w": dtensor([7, 3], mesh, shard(1), shard(0))}, 4
    )
    run_checked(capture.request(before, after), tmp_path)


@pytest.mark.parametrize("kind", ["Partial", "_MaskPartial"])
def test_dtensor_partial_is_refused(kind):
    words = rf"tensor 'w': placement {kind}: the ranks hold parts of a reduct"
    with pytest.raises(capture.CaptureError, match=words):
        capture.from_dtensors({"w": dtensor([4], [0, 1], {"type": kind})}, 2)


def test_dtensor_placements_that_make_no_sense_are_refused():
    for placement, words in [
        ({"type": "Blocks"}, "placement Blocks is not known, expected Shard, "),
        (shard(1), "placement Shard cuts dim 1 of 1"),
        (shard(-2), "placement Shard cuts dim -2 of 1"),
    ]:
        with pytest.raises(capture.CaptureError, match=f"'w': {words}"):
            capture.from_dtensors({"w": dtensor([4], [0, 1], placement)}, 2)
    negative = capture.from_dtensors(
        {"w": dtensor([2, 4], [0, 1], shard(-1))}, 2
    )
    assert rows_of(negative, "w") == {(0, (0, 0), (2, 2)), (1, (0, 2), (2, 2))}
    first = capture.from_dtensors({"w": dtensor([2, 4], [0, 1], shard(-2))}, 2)
    assert rows_of(first, "w") == {(0, (0, 0), (1, 4)), (1, (1, 0), (1, 4))}


# Ranks that see a part -------------------------------------------------------

GRID = [[0, 1], [2, 3]]


def stage(rank, **tensors):
    """A rank's state dict in a pipeline of two stages, each cut in two."""
    own = GRID[rank // 2]
    return {
        name: dtensor(shape, own, shard(0)) | {"root_mesh": GRID}
        for name, shape in tensors.items()
    }


def test_stages_are_merged(tmp_path):
    whole = {
        name: dtensor([6, 2], [0, 1, 2, 3], shard(0)) for name in ("a", "b")
    }
    before = capture.from_dtensors(whole, 4)
    first = capture.from_dtensors(stage(0, a=[6, 2]), 4)
    last = capture.from_dtensors(stage(3, b=[6, 2]), 4)
    assert set(first.unknown) == {2, 3} and set(last.unknown) == {0, 1}
    words = (
        "the destination is not known on ranks 2-3: tensor 'a' is on a "
        r"sub-mesh of ranks 0-1; read the state dicts of those ranks too"
    )
    with pytest.raises(capture.CaptureError, match=words):
        capture.request(before, first)
    with pytest.raises(
        capture.CaptureError, match="the source is not known on"
    ):
        capture.request(last, before)
    with pytest.raises(capture.CaptureError, match="not known on ranks 2-3"):
        capture.request(before, capture.merge([first, first]))
    after = capture.merge([first, last])
    assert rows_of(after, "b") == {(2, (0, 0), (3, 2)), (3, (3, 0), (3, 2))}
    run_checked(capture.request(before, after), tmp_path)
    # A world of the first two ranks needs nobody else.
    assert not capture.from_dtensors(stage(0, a=[6, 2]), 2).unknown
    # The same, by objects: each stage's mesh is cut out of the whole.
    seen = stage(0, a=[6, 2])["a"] | {
        "device_mesh": Mesh(GRID[0], None, Mesh(GRID, None))
    }
    assert capture.from_dtensors({"a": seen}, 4).unknown == first.unknown


def test_a_mesh_of_its_own_leaves_no_rank_unknown():
    """Two of four ranks hold all there is, in a world that grows."""
    layout = capture.from_dtensors({"w": dtensor([4], [0, 1], shard(0))}, 4)
    assert not layout.unknown and rows_on(layout)[2] == []


def test_plain_tensors_lie_where_the_capture_speaks_for():
    step = {"shape": [3], "dtype": "torch.float32"}
    first = capture.from_dtensors(stage(1, a=[4]) | {"step.a": step}, 4)
    assert rows_of(first, "step.a") == {(0, (0,), (3,)), (1, (0,), (3,))}
    plain = [
        capture.from_dtensors({name: step}, 2, ranks=[rank])
        for rank, name in enumerate("ab")
    ]
    words = "not known on rank 1: the state dict is that of rank 0; read"
    with pytest.raises(capture.CaptureError, match=words):
        capture.request(plain[0], plain[0])
    both = capture.merge(plain)
    assert rows_of(both, "a") == {(0, (0,), (3,))} and not both.unknown
    assert rows_of(both, "b") == {(1, (0,), (3,))}


def test_layouts_that_do_not_merge():
    one = capture.from_dtensors({"w": dtensor([4], [0, 1], shard(0))}, 2)
    with pytest.raises(capture.CaptureError, match="worlds of 2 and 3 ranks"):
        capture.merge([one, capture.Layout(3)])
    with pytest.raises(capture.CaptureError, match="expected at least one"):
        capture.merge([])
    other = capture.from_dtensors({"w": dtensor([6], [0, 1], shard(0))}, 2)
    with pytest.raises(capture.CaptureError, match=r"'w' is \[6\] float32"):
        capture.merge([one, other])


def test_ranks_in_words():
    words = capture.layout.ranks_text
    assert words([3]) == "rank 3"
    assert words([2, 1]) == "ranks 1-2"
    assert words([0, 2]) == "ranks 0 and 2"
    assert words([9, 0, 1, 2, 5]) == "ranks 0-2, 5 and 9"


def test_megatron_prepended_layers_and_flat_ranges(tmp_path):
    def rank(tp, dp):
        begin = dp * 8
        return {
            "model": {
                "w": sharded(
                    "layers.w", [1, tp * 2, 0], [2, 8], [2, 4, 8],
                    prepend_axis_num=1, replica_id=[0, tp, dp],
                    axis_fragmentations=[2, 2, 1],
                ),
            },
            "optimizer": [
                sharded(
                    "optimizer.exp_avg", [tp * 2, 0], [2, 8], [4, 8],
                    flattened_range=[begin, begin + 8],
                )
            ],
        }  # fmt: skip

    states = [rank(tp, dp) for dp in range(2) for tp in range(2)]
    layout = capture.from_sharded_tensors(states)
    assert (1, (1, 2, 0), (1, 2, 8)) in rows_of(layout, "layers.w")
    ranges = [row["range"] for row in layout.rows if "range" in row]
    assert ranges == [[0, 8], [0, 8], [8, 16], [8, 16]]
    held = capture.Layout(1)
    held.declare("layers.w", [2, 4, 8], "torch.bfloat16")
    held.declare("optimizer.exp_avg", [4, 8], "torch.bfloat16")
    held.hold("layers.w", 0, [1, 0, 0], [1, 4, 8])
    held.hold("optimizer.exp_avg", 0, [0, 0], [4, 8])
    request = capture.request(layout, held)
    # The other layer is nowhere.
    request["destination"]["partial"] = True
    run_checked(request, tmp_path)


def test_sides_that_differ_are_refused_by_name():
    one = capture.from_dtensors({"a": dtensor([4], [0], REPLICATE)}, 1)
    two = capture.from_dtensors({"b": dtensor([4], [0], REPLICATE)}, 1)
    with pytest.raises(capture.CaptureError, match="'a'"):
        capture.request(one, two)


def test_torch_metadata_objects():
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint.metadata")
    filesystem = pytest.importorskip("torch.distributed.checkpoint.filesystem")
    chunks = [
        dcp.ChunkStorageMetadata(torch.Size([at]), torch.Size([4]))
        for at in (0, 4)
    ]
    entry = dcp.TensorStorageMetadata(
        dcp.TensorProperties(dtype=torch.bfloat16), torch.Size([8]), chunks
    )
    stored = {
        dcp.MetadataIndex("w", torch.Size([at])): filesystem._StorageInfo(
            f"__{rank}_0.distcp", 0, 8
        )
        for rank, at in enumerate((0, 4))
    }
    metadata = dcp.Metadata({"w": entry}, storage_data=stored)
    layout = capture.from_checkpoint_metadata(metadata, 2)
    assert layout.tensors["w"] == ([8], "bfloat16")
    assert rows_of(layout, "w") == {(0, (0,), (4,)), (1, (4,), (4,))}


def test_torch_placements():
    pytest.importorskip("torch")
    placements = pytest.importorskip("torch.distributed.tensor")
    kind_of = capture.tensors.placement_of
    assert kind_of(placements.Shard(1), 2) == ("shard", 1, 1)
    assert kind_of(placements.Shard(-1), 3) == ("shard", 2, 1)
    assert kind_of(placements.Replicate(), 2)[0] == "replicate"


def test_dtensor_regions_are_those_of_torch():
    torch = pytest.importorskip("torch")
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    tensors = pytest.importorskip("torch.distributed.tensor")
    types = pytest.importorskip("torch.distributed.tensor.placement_types")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor._utils import (
        compute_local_shape_and_global_offset,
    )

    shard, whole = tensors.Shard, tensors.Replicate()
    cases = [
        (shard(0), shard(1)), (shard(0), shard(0)), (whole, shard(0)),
        (types._StridedShard(0, split_factor=2), shard(0)), (shard(1), whole),
    ]  # fmt: skip
    group = torch.distributed
    for rank in range(8):
        group.init_process_group(
            "fake", store=fake.FakeStore(), rank=rank, world_size=8
        )
        mesh = init_device_mesh("cpu", (4, 2))
        for shape in [(8, 6), (10, 6), (7, 5), (3, 3)]:
            for placements in cases:
                size, offset = compute_local_shape_and_global_offset(
                    shape, mesh, placements
                )
                entry = dtensor(list(shape), None, *placements)
                entry["device_mesh"] = mesh
                layout = capture.from_dtensors({"w": entry}, 8)
                held = {row for row in rows_of(layout, "w") if row[0] == rank}
                empty = 0 in size
                expected = set() if empty else {(rank, offset, size)}
                assert held == {
                    (r, tuple(o), tuple(s)) for r, o, s in expected
                }, (shape, placements)
        group.destroy_process_group()
