"""What levels.py says of two texts."""

import pytest
from levels import difference


@pytest.mark.parametrize(
    ("printed", "expected", "problem", "lines"),
    [
        (b"a\nb\n", b"a\nb\n", None, 2),
        (b"", b"", None, 0),
        (b"a\nb\n", b"a\nc\n", "line 2 is 'b', expected 'c'", 1),
        (b"a\n", b"a\n\n", "line 2 is the end, expected ''", 1),
        (b"a\nb\n", b"a\n", "line 2 is 'b', expected the end", 1),
    ],
)
def test_difference(printed, expected, problem, lines):
    texts = (text.splitlines(keepends=True) for text in (printed, expected))
    assert difference(*texts) == (problem, lines)
