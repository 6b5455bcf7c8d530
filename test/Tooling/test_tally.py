"""scripts/tally.py adds up right, and never takes silence for success."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import tally

JUNIT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure/></testcase>
<testcase name="c"><skipped/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def suite(tmp_path):
    """Writes the results of a suite and gives its counts."""

    def count(code, log="", xml=None):
        (tmp_path / "s.code").write_text(f"{code}\n")
        (tmp_path / "s.log").write_text(log)
        if xml is not None:
            (tmp_path / "s.xml").write_text(xml)
        return tally.count_suite(tmp_path, "s")

    return count


def test_counts_cases_of_junit(suite):
    assert suite(1, xml=JUNIT) == (1, 1, 1, None)


def test_adds_up_the_closing_lines_of_the_parts(suite):
    log = "1 passed, 0 failed\nwords\n5 passed, 2 failed, 1 skipped\n"
    assert suite(1, log) == (6, 2, 1, None)


def test_a_suite_without_tests_fails(suite):
    assert suite(0, "all is well\n") == (0, 1, 0, "ran no test")
    assert suite(0, xml="<testsuites/>") == (0, 1, 0, "ran no test")


def test_a_bad_end_without_failures_fails(suite):
    *counts, complaint = suite(139, "3 passed, 0 failed\n")
    assert counts == [3, 1, 0] and "139" in complaint


def test_a_cut_off_file_fails(suite):
    *counts, complaint = suite(0, xml="<testsuites><testcase")
    assert counts == [0, 1, 0] and "s.xml" in complaint


def test_closes_with_one_plain_line(suite, tmp_path, capsys):
    suite(0, "3 passed, 0 failed\n")
    assert tally.main([str(tmp_path), "s"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed"
    suite(1, "3 passed, 1 failed\n")
    assert tally.main([str(tmp_path), "s"]) == 1


def test_names_what_failed_and_why(suite, tmp_path, capsys):
    """Of pytest the end of the trace, of GoogleTest its failure."""
    trace = "\n".join(f"line {i}" for i in range(30))
    xml = f"""<testsuites><testsuite>
<testcase classname="t.py" name="a"><failure message="m">{trace}</failure>
</testcase>
<testcase classname="G.B" name="G.B"><failure message=""/><system-out>start
f.cpp:3: Failure
Expected: 1
[  FAILED  ] G.B</system-out></testcase>
<testcase classname="t.py" name="good"/></testsuite></testsuites>"""
    suite(1, xml=xml)
    assert tally.main([str(tmp_path), "s"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 2 failed"
    shown = lines[lines.index("failed: s: t.py.a") :]
    assert shown[1:13] == [f"    line {i}" for i in range(18, 30)]
    assert shown[13:16] == [
        "failed: s: G.B.G.B",
        "    f.cpp:3: Failure",
        "    Expected: 1",
    ]
