"""python -m dynatrain.doctor says what works here."""

import subprocess
import sys

import pytest
from conftest import BUILD

pytest.importorskip("torch")
pytest.importorskip("dynatrain")

from dynatrain import doctor  # noqa: E402


def test_all_works_here():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "dynatrain.doctor"],
        env={"PYTHONPATH": str(BUILD / "python"), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("ok  ") for line in lines), lines
    for found in ("package: dynatrain", "gloo", "bytes right", "committed"):
        assert found in done.stdout, found


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(doctor, "find_compiler", lambda: None)
    told = {name: (works, words) for name, works, words in doctor.examine()}
    assert all(works for works, _ in told.values())
    assert "plans compiled elsewhere" in told["compiler"][1]
    assert "without a compiler" in told["plan"][1]


def test_what_is_broken_is_told(monkeypatch, capsys):
    def broken(*_):
        raise OSError("no such thing")

    monkeypatch.setattr(doctor, "compile", broken)
    assert doctor.main() == 1
    printed = capsys.readouterr().out
    assert "FAIL plan: OSError: no such thing" in printed


@pytest.mark.parametrize(
    ("name", "value", "own"),
    [
        ("NCCL_PXN_DISABLE", "1", True),
        ("NCCL_PXN_DISABLE", "0", False),
        ("NCCL_P2P_PXN_LEVEL", "0", True),
        ("NCCL_P2P_PXN_LEVEL", "2", False),
    ],
)
def test_by_which_nic_nccl_sends(monkeypatch, name, value, own):
    monkeypatch.setattr(doctor._C, "features", lambda: ["cuda", "nccl"])
    for other in ("NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    told = {name: words for name, _, words in doctor.examine()}
    assert ("sender's NIC" in told["NCCL"]) == own
    assert ("NCCL_PXN_DISABLE=1" in told["NCCL"]) != own


@pytest.mark.parametrize(
    ("features", "why", "found"),
    [
        (["zstd"], "", "zstd on CPUs, nvCOMP on GPUs"),
        (
            ["zstd", "cuda"],
            "cannot load nvCOMP: no such file",
            "zstd on CPUs; not on GPUs (cannot load nvCOMP: no such file)",
        ),
        ([], "built without CUDA", "left out on CPUs"),
    ],
)
def test_what_links_are_compressed_with(monkeypatch, features, why, found):
    monkeypatch.setattr(doctor._C, "features", lambda: features)
    monkeypatch.setattr(doctor._C, "why_no_gpu_codec", lambda: why)
    told = {name: words for name, _, words in doctor.examine()}
    assert told["compression"].startswith(found)


def test_without_nvcomp_the_reason_is_told():
    """This machine's: the loader's words, or none where it is there."""
    told = {name: (works, words) for name, works, words in doctor.examine()}
    works, words = told["compression"]
    why = doctor._C.why_no_gpu_codec()
    assert works
    assert why in words if why else "nvCOMP on GPUs" in words
