"""What happens to a process of an elastic job, in Python's own logging.

Each record of the logger "dynatrain.job" is a sentence for people, and has the
same as a dict in its attribute `job`, which `JsonLines` writes::

    handler = logging.StreamHandler()
    handler.setFormatter(dynatrain.job_log.JsonLines())
    logging.getLogger("dynatrain.job").addHandler(handler)
    logging.getLogger("dynatrain.job").setLevel(logging.DEBUG)

What ends is of level INFO, or WARNING where it has failed; that a part of a
switch begins is of level DEBUG.
"""

from __future__ import annotations

import json
import logging
from typing import Any

LOGGER = logging.getLogger("dynatrain.job")


class JobLog:
    """Of one process, by the name that it has in the job."""

    def __init__(self, process: str) -> None:
        self._process = process

    def begins(self, what: str, switch: int, **more: Any) -> None:
        """A part of a switch, on the thread that does it."""
        self._tell(logging.DEBUG, f"{what} begins", what, switch, more)

    def ends(self, how: str, switch: int, **more: Any) -> None:
        """A switch, for this process."""
        level = logging.WARNING if how == "aborted" else logging.INFO
        self._tell(level, how, how, switch, more)

    def _tell(
        self,
        level: int,
        words: str,
        what: str,
        switch: int,
        more: dict[str, Any],
    ) -> None:
        if not LOGGER.isEnabledFor(level):
            return
        job = {"process": self._process, "switch": switch, "what": what, **more}
        text = "".join(f", {name} {value}" for name, value in more.items())
        LOGGER.log(
            level,
            "%s, switch %d: %s%s",
            self._process,
            switch,
            words,
            text,
            extra={"job": job},
        )


class JsonLines(logging.Formatter):
    """A line of JSON for each record: its time in seconds, its level, and what
    its `job` has."""

    def format(self, record: logging.LogRecord) -> str:
        told = {"time": record.created, "level": record.levelname}
        return json.dumps({**told, **getattr(record, "job", {})})
