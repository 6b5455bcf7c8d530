"""What goes wrong, by kind. Every text says what was found and expected.

An error of a switch is raised on every rank with the same cause, and as the
same class. After each of them but `UndecidedError` the old state is intact.
"""

from . import _C
from ._C import Error


class InvalidError(Error):
    """A plan, a tensor or a call cannot be used as it is."""


class TensorError(InvalidError):
    """A tensor does not fit the plan, or is missing, or is one too many."""


class CompileError(Error):
    """dt-opt refused the request, or is not installed."""


class CompileWarning(UserWarning):
    """What dt-opt warns of while it compiles, such as values that are lost."""


class JobWarning(UserWarning):
    """A switch of an elastic job has failed; its old world goes on."""


class MismatchError(Error):
    """The ranks do not have the same tag, plan or tensors; `World.meet` is
    where they find each other again."""


class PeerTimeoutError(Error):
    """A rank did not come, or did not answer, in time."""


class PeerLostError(Error):
    """The connection to a rank is gone; most often its process is."""


class LostStateError(Error):
    """What a process held that is lost is nowhere else; says what it was, and
    of which process. Go on from a checkpoint."""


class StoreLostError(Error):
    """The store is gone, or does not answer."""


class OutOfMemoryError(Error):
    """There is no memory for what the plan needs."""


class AbortedError(Error):
    """A rank has ended the switch: its trainer, a signal, an exception."""


class UndecidedError(Error):
    """Whether the switch was committed cannot be learnt, as the store is lost.

    Both is possible, so the tensors of both sides must be kept. Calling
    `Switch.commit` again asks once more.
    """


class PlatformError(Error):
    """The operating system or a library refused."""


#: By the codes of the runtime.
_BY_CODE: dict[str, type[Error]] = {
    "invalid": InvalidError,
    "mismatch": MismatchError,
    "timeout": PeerTimeoutError,
    "peer_lost": PeerLostError,
    "store_lost": StoreLostError,
    "out_of_memory": OutOfMemoryError,
    "cancelled": AbortedError,
    "undecided": UndecidedError,
    "system": PlatformError,
    "lost_state": LostStateError,
}
_C.name_exceptions(_BY_CODE)


def error_of(code: str, text: str) -> Error:
    """The exception that the runtime's code stands for."""
    return _BY_CODE[code](text)


def code_of(error: BaseException) -> str:
    """The runtime's code of an exception; that of a trainer's own error is that
    it has ended the work."""
    for code, kind in _BY_CODE.items():
        if isinstance(error, kind):
            return code
    return "cancelled"


__all__ = [
    "AbortedError",
    "CompileError",
    "CompileWarning",
    "Error",
    "InvalidError",
    "JobWarning",
    "LostStateError",
    "MismatchError",
    "OutOfMemoryError",
    "PeerLostError",
    "PeerTimeoutError",
    "PlatformError",
    "StoreLostError",
    "TensorError",
    "UndecidedError",
]
