"""What works here: ``python -m dynatrain.doctor``.

One line per thing; exit code 0 when what is built works, whatever is left out.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist

from . import _C, __version__
from .compiler import compile, find_compiler
from .redistribution import redistribute

#: What the tests of the trainers run with.
_TRAINERS = {
    "megatron-core": "0.16.1",
    "torchtitan": "0.3.0",
    "transformers": "5.23.0",
}
_REQUEST = {
    "model": {"tensors": [{"name": "w", "shape": [4, 6], "dtype": "f32"}]},
    "source": {"world": 2, "tp": 2},
    "destination": {"world": 3, "tp": 3, "devices": [1, 2, 3]},
    "rules": [{"match": "w", "tp": 1}],
}


def _package() -> str:
    return f"dynatrain {__version__}, torch {torch.__version__}"


def _transports() -> str:
    built = _C.features()
    found = ["gloo"]
    if "nccl" in built:
        found.append("nccl")
    words = f"built: {', '.join(found)}"
    if "nccl" not in built:
        words += "; left out: nccl (CUDA's compiler or NCCL was not there)"
    return words


def _nccl() -> str:
    """What the environment tells NCCL, which reads it once, when it starts."""
    if "nccl" not in _C.features():
        return "left out"
    own_nic = (
        os.environ.get("NCCL_PXN_DISABLE") == "1"
        or os.environ.get("NCCL_P2P_PXN_LEVEL") == "0"
    )
    if own_nic:
        return "messages leave by their sender's NIC, as plans expect"
    return (
        "messages may leave by another GPU's NIC (PXN): NCCL_PXN_DISABLE=1 "
        "where predicted times between nodes have to hold"
    )


def _compression() -> str:
    """What slow links can be compressed with, and where it is done."""
    if "zstd" in _C.features():
        words = "zstd on CPUs"
    else:
        words = "left out on CPUs (zstd was not there)"
    why = _C.why_no_gpu_codec()
    if why:
        return f"{words}; not on GPUs ({why})"
    return f"{words}, nvCOMP on GPUs"


def _gpus() -> str:
    if not torch.cuda.is_available():
        return "none: tensors on CPUs only"
    count = torch.cuda.device_count()
    if "cuda" not in _C.features():
        return f"{count}, but this package is built without CUDA"
    return f"{count}, {torch.cuda.get_device_name(0)}"


def _compiler() -> str:
    path = find_compiler()
    if path is None:
        return "not found: plans compiled elsewhere can be loaded and run"
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True
    )
    return f"{path}, {done.stdout.strip().splitlines()[-1]}"


def _plan() -> str:
    if find_compiler() is None:
        return "left out, without a compiler"
    with tempfile.TemporaryDirectory() as folder:
        plan = compile(_REQUEST, os.path.join(folder, "doctor.dtplan"))
        plan.verify()
        moved = _C.loopback(plan._native, True, False)
    if moved["mismatches"]:
        raise RuntimeError(f"{moved['mismatches']} values are wrong")
    return f"compiled, verified, moved: {moved['bytes_checked']} bytes right"


def _switch() -> str:
    """Of this process with itself, by the way of a live job."""
    if find_compiler() is None:
        return "left out, without a compiler"
    if dist.is_initialized():
        return "left out, torch.distributed is in use"
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    dist.init_process_group(
        "gloo", store=dist.HashStore(), rank=0, world_size=1
    )
    try:
        mesh = DeviceMesh("cpu", [0])
        full = torch.arange(24.0).view(4, 6)
        before = distribute_tensor(full, mesh, [Shard(0)])
        after = redistribute(before, (mesh, [Replicate()]))
        if not torch.equal(after.to_local(), full):
            raise RuntimeError("values are wrong")
    finally:
        dist.destroy_process_group()
    return "planned, prepared, transferred, committed over gloo"


def _trainers() -> str:
    found = []
    for name, tested in _TRAINERS.items():
        try:
            version = importlib.metadata.version(name)
            found.append(f"{name} {version} (tested: {tested})")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


_CHECKS: dict[str, Callable[[], str]] = {
    "package": _package,
    "transports": _transports,
    "NCCL": _nccl,
    "compression": _compression,
    "GPUs": _gpus,
    "compiler": _compiler,
    "plan": _plan,
    "switch": _switch,
    "trainers": _trainers,
}


def examine() -> Iterator[tuple[str, bool, str]]:
    """(what, whether it works, in words) of each thing."""
    for name, check in _CHECKS.items():
        try:
            yield name, True, check()
        except Exception as error:
            yield name, False, f"{type(error).__name__}: {error}"


def main() -> int:
    """Prints what was found; 1 when something that is there does not work."""
    broken = 0
    for name, works, words in examine():
        broken += not works
        print(f"{'ok  ' if works else 'FAIL'} {name}: {words}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
