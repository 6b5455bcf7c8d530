"""A process without torch._dynamo, until something needs it.

Every optimizer imports that compiler, for `disable` and `graph_break` alone,
and to import it takes as long as to import torch itself. Nothing is compiled in
the tests. So a module with these two stands for it; where more of it is asked
for, the real one takes its place. scripts/follow-trainers runs the same
examples as they are.
"""

import importlib
import sys
import types
from importlib.machinery import ModuleSpec, PathFinder

NAME = "torch._dynamo"


class _Stands(types.ModuleType):
    @staticmethod
    def disable(fn=None, recursive=True, **_):
        return fn or (lambda given: given)

    @staticmethod
    def graph_break(msg=""):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):  # what the import itself asks for
            raise AttributeError(name)
        return getattr(_real(), name)


def _real():
    """torch._dynamo itself, from now on in the other's place."""
    if isinstance(sys.modules.get(NAME), _Stands):
        _Finder.stands = False
        del sys.modules[NAME]
    return importlib.import_module(NAME)


class _Loader:
    """Of a module that is there."""

    def __init__(self, module):
        self.module = module

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        pass


class _Finder:
    stands = True

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if not cls.stands or not (name + ".").startswith(NAME + "."):
            return None
        if name == NAME:
            spec = ModuleSpec(name, _Loader(_Stands(name)))
            real = PathFinder.find_spec(name, path, target)
            spec.submodule_search_locations = real.submodule_search_locations
            return spec
        path = _real().__path__  # who wants a part of it wants all
        if name in sys.modules:
            return ModuleSpec(name, _Loader(sys.modules[name]))
        return PathFinder.find_spec(name, path, target)


sys.meta_path.insert(0, _Finder)
