"""A plan that is held, so that the next one is there when it is needed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from .compiler import compiler_or_error
from .errors import CompileError, CompileWarning
from .plan import Plan

# Seconds that a compiler has to end in when nothing more is asked of it.
_PATIENCE = 10.0


@dataclass(frozen=True)
class Replanned:
    """A plan that was made from another one."""

    plan: Plan
    #: By the clock, from the request until the plan was written.
    seconds: float
    #: Programs that are those of the old plan, byte for byte.
    programs_copied: int
    #: Why nothing of the old plan was kept; or None.
    from_zero: str | None
    #: What the new plan predicts, and what no plan goes below.
    predicted_s: float
    lower_bound_s: float


class Replanner:
    """Holds a plan file in a process of `dt-opt`, read and verified.

    Who is told that a device will go asks for the plan without it, as a whole
    request. That takes a small part of the time that `compile` takes, as all
    that both plans have in common is known. Each plan is proved and verified
    like any other, and its bytes do not depend on what was asked before.

        with Replanner("job.dtplan") as replanner:
            replanner.expect("job.json")
            ...
            made = replanner.replan(request, "next.dtplan")

    Threads may ask at the same time: one waits for the other. Use as a context
    manager, or `close` it: the process ends then.
    """

    def __init__(self, plan: str | os.PathLike[str]) -> None:
        """Waits until the plan is verified. Raises `CompileError` where it is
        wrong, or cannot be read, or dt-opt is not found."""
        command = [compiler_or_error(), "--replan", os.fspath(plan)]
        self._lock = threading.Lock()
        self._open = contextlib.ExitStack()
        # No pipe: nobody reads it while an answer is waited for.
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._open.push(self._words)
        self._process = subprocess.Popen(
            [*command, "--requests"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
        )
        try:
            ready = self._answer()
        except BaseException:
            self.close()
            raise
        #: Of the plan that is held, as `Plan.digest`.
        self.digest: str = ready["digest"]

    def replan(
        self,
        request: str | os.PathLike[str] | Mapping[str, Any],
        output: str | os.PathLike[str],
    ) -> Replanned:
        """Makes the plan of a request (a file, or the same as a dict) from the
        one that is held, and writes it to `output`.

        Paths are relative to the current folder of when this object was made.
        Raises `CompileError` with the compiler's own words; then others can be
        asked for all the same, unless its process has ended. What it warns of
        becomes a `CompileWarning`.
        """
        inline = isinstance(request, Mapping)
        line = json.dumps(
            {
                "request": request if inline else os.fspath(request),
                "output": os.fspath(output),
            }
        )
        with self._lock:
            answer = self._ask(line)
        for text in answer["warnings"]:
            warnings.warn(f"dt-opt: {text}", CompileWarning, stacklevel=2)
        return Replanned(
            plan=Plan.load(output),
            seconds=answer["seconds"],
            programs_copied=answer["programs_copied"],
            from_zero=answer["from_zero"],
            **answer["time"],
        )

    def expect(
        self, request: str | os.PathLike[str] | Mapping[str, Any]
    ) -> bool:
        """Reads a request ahead, mostly that of the plan that is held. One that
        differs from it in `devices` alone then takes less time; the plan is the
        same. False where `devices` say more than where ranks are: then nothing
        is expected.
        """
        inline = isinstance(request, Mapping)
        line = json.dumps({"expect": request if inline else os.fspath(request)})
        with self._lock:
            return bool(self._ask(line)["expected"])

    def close(self) -> None:
        """Ends the process. May be called again."""
        with self._lock:
            self._end()
            self._open.close()

    def __enter__(self) -> Replanner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, line: str) -> dict[str, Any]:
        """An answer that nobody waits for would be taken for the next one."""
        try:
            self._send(line)
            return self._answer()
        except CompileError:
            raise
        except BaseException:
            self._end()
            raise

    def _send(self, line: str) -> None:
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            raise CompileError("dt-opt: this Replanner is closed")
        # Where it has ended, the answer says so.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(f"{line}\n")
            stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise CompileError(f"dt-opt: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise CompileError(f"dt-opt: error: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._end()
        self._words.seek(0)
        code = self._process.returncode
        return self._words.read().strip() or f"exit code {code}"

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
