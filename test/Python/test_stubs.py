"""The stubs of the package say what it has."""

import ast
import importlib
import inspect
import pkgutil

import pytest
from conftest import ROOT

pytest.importorskip("torch")
dynatrain = pytest.importorskip("dynatrain")

from dynatrain import _C, capture  # noqa: E402

PACKAGE = ROOT / "python" / "dynatrain"


def stubbed(path):
    """{name: definition} of a stub file."""
    tree = ast.parse((PACKAGE / path).read_text())
    kinds = (ast.ClassDef, ast.FunctionDef)
    return {one.name: one for one in tree.body if isinstance(one, kinds)}


def members(definition):
    """{name: definition, or None for what is no function} of a class."""
    found = {}
    for one in definition.body:
        if isinstance(one, ast.FunctionDef):
            found[one.name] = one
        elif isinstance(one, ast.AnnAssign):
            found[one.target.id] = None
    return {k: v for k, v in found.items() if not k.startswith("_")}


def public(thing):
    return {name for name in vars(thing) if not name.startswith("_")}


def parameters(definition):
    of = definition.args
    listed = [*of.posonlyargs, *of.args, of.vararg, *of.kwonlyargs, of.kwarg]
    return [one.arg for one in listed if one]


def test_the_extension():
    told = stubbed("_C.pyi")
    assert told.keys() == public(_C)
    for name, definition in told.items():
        if inspect.isclass(getattr(_C, name)):
            assert members(definition).keys() == public(getattr(_C, name)), name


def test_capture():
    told = stubbed("capture/__init__.pyi")
    assert told.keys() == set(capture.__all__)
    for name, definition in told.items():
        thing = getattr(capture, name)
        functions = {name: (definition, thing)}
        if inspect.isclass(thing):
            own = members(definition)
            assert public(thing) - own.keys() == set(), name
            functions = {
                key: (one, getattr(thing, key))
                for key, one in own.items()
                if inspect.isfunction(getattr(thing, key, None))
            }
        for key, (one, function) in functions.items():
            found = list(inspect.signature(function).parameters)
            assert parameters(one) == found, key


def functions_of(module):
    """(name, function) of all that is public in a module of the package."""
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", 0) != (
            module.__name__
        ):
            continue
        if inspect.isfunction(thing):
            yield name, thing
        for key, one in vars(thing).items() if inspect.isclass(thing) else ():
            one = getattr(one, "__func__", getattr(one, "fget", one))
            ours = getattr(one, "__module__", None) == module.__name__
            if inspect.isfunction(one) and ours and key[0] != "_":
                yield f"{name}.{key}", one


@pytest.mark.parametrize(
    "name",
    [one.name for one in pkgutil.iter_modules([str(PACKAGE)])],
)
def test_types_are_said(name):
    """Of modules without a stub."""
    if (PACKAGE / f"{name}.pyi").exists() or (PACKAGE / name).is_dir():
        pytest.skip("it has a stub")
    for key, function in functions_of(
        importlib.import_module(f"dynatrain.{name}")
    ):
        said = set(function.__annotations__) | {"self", "cls"}
        missing = {*inspect.signature(function).parameters, "return"} - said
        assert not missing, (key, missing)
