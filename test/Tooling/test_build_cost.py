"""What bench/build_cost.py makes of what bash and ninja print."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import build_cost  # noqa: E402

GRAPH = """digraph ninja {
rankdir="LR"
"0x1" [label="all"]
"0x2" -> "0x1" [label=" phony"]
"0x2" [label="program"]
"0x3" [label="LINK", shape=ellipse]
"0x3" -> "0x2"
"0x4" -> "0x3" [arrowhead=none]
"0x5" -> "0x3" [arrowhead=none]
"0x4" [label="first.o"]
"0x6" -> "0x4" [label=" CXX"]
"0x5" [label="second.o"]
"0x6" -> "0x5" [label=" CXX"]
"0x6" [label="header.gch"]
}
"""


@pytest.mark.parametrize(
    "seconds, longest",
    [
        ({"header.gch": 5, "first.o": 7, "second.o": 2, "program": 1}, 13),
        ({"header.gch": 5, "first.o": 1, "second.o": 2, "program": 1}, 8),
        ({"second.o": 4, "of another build": 9}, 4),
        ({}, 0),
    ],
)
def test_the_longest_chain_waits_for_what_it_needs(seconds, longest):
    assert build_cost.longest_chain(GRAPH, seconds) == longest


def test_a_compiler_is_timed_and_otherwise_as_it_is(tmp_path):
    """By its user and system time, output by output; also where it fails."""
    busy = tmp_path / "busy"
    busy.write_text(
        "#!/bin/sh\ni=0\nwhile [ $i -lt 200000 ]; do i=$((i+1)); done\nexit 3\n"
    )
    busy.chmod(0o755)
    notes, wrapper = tmp_path / "notes", tmp_path / "c++"
    notes.mkdir()
    build_cost.write_compiler(wrapper, str(busy), notes)
    for _ in range(2):
        done = subprocess.run([wrapper, "-c", "a.cpp", "-o", "a.o"])
        assert done.returncode == 3
    subprocess.run([wrapper, "--version"])
    [(output, seconds)] = build_cost.compiled(notes).items()
    assert output == "a.o"
    assert seconds > 0


def test_minutes_count():
    assert build_cost.seconds_of("2m1.500s 0m0.250s") == 121.75
