"""What goes wrong, by kind. Every text says what was found and expected."""

from ._C import Error


class TensorError(Error):
    """A tensor does not fit the plan, or is missing, or is one too many."""


class CompileError(Error):
    """dt-opt refused the request, or is not installed."""


class CompileWarning(UserWarning):
    """What dt-opt warns of while it compiles, such as values that are lost."""


__all__ = ["CompileError", "CompileWarning", "Error", "TensorError"]
