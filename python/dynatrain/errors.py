"""What goes wrong, by kind. Every text says what was found and expected."""

from ._C import Error


class TensorError(Error):
    """A tensor does not fit the plan, or is missing, or is one too many."""


class CompileError(Error):
    """dt-opt refused the request, or is not installed."""


__all__ = ["CompileError", "Error", "TensorError"]
