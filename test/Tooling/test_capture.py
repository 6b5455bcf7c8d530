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
    strided = {"type": "_StridedShard", "dim": 0, "split_factor": 2}
    mesh = [[0, 1], [2, 3]]  # fsdp x tp
    layout = capture.from_dtensors(
        {"w": dtensor([10, 2], mesh, strided, shard(0))}, 4
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
    strided = {"type": "_StridedShard", "dim": 0, "split_factor": 2}
    layout = capture.from_dtensors({"w": dtensor([8], [0, 1], strided)}, 2)
    assert rows_of(layout, "w") == {
        (0, (0,), (2,)), (0, (4,), (2,)), (1, (2,), (2,)), (1, (6,), (2,)),
    }  # fmt: skip


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


def test_dtensor_partial_is_refused():
    with pytest.raises(capture.CaptureError, match="Partial"):
        capture.from_dtensors(
            {"w": dtensor([4], [0, 1], {"type": "Partial"})}, 2
        )


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
    run_checked(capture.request(layout, held), tmp_path)


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
    assert capture.tensors.placement_of(placements.Shard(1)) == ("shard", 1, 1)
    assert (
        capture.tensors.placement_of(placements.Replicate())[0] == "replicate"
    )


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
