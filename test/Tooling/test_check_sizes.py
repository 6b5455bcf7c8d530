"""scripts/check_sizes.py sees functions where a reader sees them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import check_sizes

CPP = """\
namespace dt {

struct Box {
  int size() const {
    return 1;
  }
};

const int table[] = {
    1,
    2,
};

std::vector<int>
Router::route(const Box &box,
              int count) const {
  if (count) {
    each([](int i) {
      use(i);
    });
  }
  return {};
}

} // namespace dt
"""


def test_finds_cpp_functions_with_their_whole_head():
    found = list(check_sizes.cpp_functions(CPP))
    assert found == [("size", 4, 3), ("Router::route", 14, 10)]


def test_finds_python_functions():
    text = (
        "def f():\n    return 1\n\nclass C:\n    def g(self):\n        pass\n"
    )
    assert list(check_sizes.python_functions(text)) == [
        ("f", 1, 2),
        ("g", 5, 2),
    ]


def test_long_functions_are_named(tmp_path, capsys):
    path = tmp_path / "long.cpp"
    path.write_text("void f() {\n" + "  g();\n" * 600 + "}\n")
    assert check_sizes.main([str(path)]) == 1
    assert "f has 602 lines" in capsys.readouterr().err


def test_long_files_of_short_functions_pass(tmp_path):
    path = tmp_path / "long.cpp"
    path.write_text("void f() {\n  g();\n}\n" * 600)
    assert check_sizes.main([str(path)]) == 0
