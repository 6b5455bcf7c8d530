"""dt-ctl: how an elastic job stands, and what it shall become.

dt-ctl status --store 10.0.0.1:29500
dt-ctl request --store 10.0.0.1:29500 --leave 3 --wait 120
dt-ctl request --store 10.0.0.1:29500 leave node 3
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from . import __version__
from .errors import Error, InvalidError
from .job_metrics import prometheus_text
from .job_status import JobView
from .job_trace import merged


def _request_in_words(queued: dict[str, Any]) -> str:
    words = [
        f"{what} {' '.join(queued[what])}"
        for what in ("join", "leave", "lost")
        if queued[what]
    ]
    if queued["layout"] is not None:
        words.append(f"layout {json.dumps(queued['layout'])}")
    return ", ".join(words)


def _member_in_words(member: dict[str, Any]) -> list[str]:
    """A line, and one for what it has asked for."""
    who = f"  rank {member['rank']}  {member['process']}"
    if "state" not in member:
        return [f"{who}  has not told yet"]
    counters = member["counters"]
    lines = [
        f"{who}  step {member['step']}  {member['state']}  "
        f"stood {counters['stood_s']:.2f} s in {counters['committed']} switches"
    ]
    if member["queued"] is not None:
        lines.append(f"    queued: {_request_in_words(member['queued'])}")
    return lines


def _switch_in_words(switch: dict[str, Any]) -> list[str]:
    lines = [f"switch {switch['attempt']}: {switch['phase']}"]
    if switch["phase"] == "aborted":
        lines[0] += f" by {switch['by']}: {switch['why']}"
    if switch["gone"]:
        lines.append("  what the world held is gone: back to a snapshot")
    if not switch["is_open"]:
        return lines
    counted = ["ready", *(["begun"] if switch["passes"] else []), "done"]
    votes = ", ".join(f"{switch['votes'][vote]} {vote}" for vote in counted)
    lines[0] += f", of {switch['parties']} processes {votes}"
    lines.append(f"  to {' '.join(switch['target'])}")
    if switch["layout"] is not None:
        lines.append(f"  layout {json.dumps(switch['layout'])}")
    if switch["lost"]:
        lines.append(f"  lost {' '.join(switch['lost'])}")
    if switch["phase"] != "preparing":
        lines.append(f"  at step {switch['horizon']}")
    return lines


def status_in_words(status: dict[str, Any]) -> str:
    """For people."""
    lines = [
        f"job {status['job']}: world {status['world']} of "
        f"{len(status['members'])} processes, since step {status['first_step']}"
        + (
            f", layout {json.dumps(status['layout'])}"
            if status["layout"] is not None
            else ""
        )
    ]
    for member in status["members"]:
        lines += _member_in_words(member)
    if status["switch"] is not None:
        lines += _switch_in_words(status["switch"])
    kept = status["snapshots"]
    if kept is not None:
        steps = " and ".join(map(str, kept["steps"])) or "none yet"
        lines.append(
            f"snapshots: every {kept['every']} steps, whole of step {steps}, "
            f"{kept['bytes'] / 2**20:.1f} MiB in all"
        )
    return "\n".join(lines)


def _view(options: argparse.Namespace) -> JobView:
    return JobView(options.store, options.job, options.timeout)


def _status(options: argparse.Namespace) -> int:
    with _view(options) as view:
        status = view.status()
    if options.json:
        print(json.dumps(status, indent=2))
    elif options.prometheus:
        print(prometheus_text(status), end="")
    else:
        print(status_in_words(status))
    return 0


def _member(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _layout(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidError(f"--layout is no JSON: {error}") from None


def _request(options: argparse.Namespace) -> int:
    if options.layout is None and not options.leave and not options.words:
        raise InvalidError("request: give words, --layout, or --leave")
    layout = None if options.layout is None else _layout(options.layout)
    leave = [_member(one) for one in options.leave]
    with _view(options) as view:
        words = " ".join(options.words)
        begun = view.request(words, layout=layout, leave=leave)
        if begun is None:
            print("the world is as asked for")
            return 0
        print(f"switch {begun.attempt} has begun", flush=True)
        if options.wait is None:
            return 0
        record = view.wait(begun, options.wait)
    if record.epoch == begun.epoch:
        print(f"dt-ctl: {record.by}: {record.why}", file=sys.stderr)
        return 1
    print(
        f"the job is in world {record.epoch}, {len(record.members)} processes"
    )
    return 0


def _trace(options: argparse.Namespace) -> int:
    text = json.dumps(merged(options.folder, options.switch))
    if options.output == "-":
        print(text)
    else:
        with open(options.output, "w") as file:
            file.write(text)
    return 0


def _of_job() -> argparse.ArgumentParser:
    """What commands on a running job take."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--store",
        required=True,
        metavar="HOST:PORT",
        help="of the job, or etcd://...",
    )
    parser.add_argument(
        "--job", default="dynatrain", metavar="NAME", help="its name there"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="that the store has to answer, and the job to begin a switch",
    )
    return parser


def _add_status(commands: Any) -> None:
    parser = commands.add_parser(
        "status",
        parents=[_of_job()],
        help="worlds, members, the switch under way, requests, snapshots",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="all, as JSON")
    form.add_argument(
        "--prometheus", action="store_true", help="numbers, for a monitor"
    )
    parser.set_defaults(run=_status)


def _add_request(commands: Any) -> None:
    parser = commands.add_parser(
        "request", parents=[_of_job()], help="asks for another world"
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORDS",
        help="such as: lost node 3; leave rank 2; -1 node",
    )
    parser.add_argument(
        "--layout", metavar="JSON", help="of the next world, for `build`"
    )
    parser.add_argument(
        "--leave",
        nargs="+",
        default=[],
        metavar="MEMBER",
        help="who is to leave, by rank or by name",
    )
    parser.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        help="until it is decided; exit code 1 where it comes to nothing",
    )
    parser.set_defaults(run=_request)


def _add_trace(commands: Any) -> None:
    parser = commands.add_parser(
        "trace", help="one trace of what all ranks wrote of a switch"
    )
    parser.add_argument("folder", metavar="FOLDER", help="`Job(trace=...)`")
    parser.add_argument(
        "--switch", type=int, metavar="NUMBER", help="default: the newest"
    )
    parser.add_argument("-o", dest="output", default="-", metavar="FILE")
    parser.set_defaults(run=_trace)


def _parser() -> argparse.ArgumentParser:
    description, _, examples = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="dt-ctl",
        description=description.removeprefix("dt-ctl: "),
        epilog=f"Examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_status(commands)
    _add_request(commands)
    _add_trace(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (Error, RuntimeError, OSError) as error:
        print(f"dt-ctl: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
