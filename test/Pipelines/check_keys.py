"""Checks that JSON on stdin has exactly the keys that users are promised.

Usage: check_keys.py inspect | deliveries | run
"""

import json
import sys

INSPECT = {
    "format_version": str,
    "request_hash": str,
    "source": {"world": int},
    "destination": {"world": int},
    "tensors": int,
    "bytes": {
        "destination": int,
        "local": int,
        "wire": int,
        "wire_lower_bound": int,
        "inter_node": int,
        "inter_node_lower_bound": int,
    },
    "time": {"predicted_s": float, "lower_bound_s": float},
    "memory": {
        "mode": str,
        "staging_limit": int,
        "staging_peak": int,
        "device_peak": int,
        "source_max": int,
        "destination_max": int,
    },
    "counts": {"waves": int, "messages": int, "collectives": int},
    "proof": dict,
}
DELIVERY = {
    "tensor": str,
    "state": str,
    "src": int,
    "dst": int,
    "offset": list,
    "size": list,
    "wave": int,
}
RUN = {
    "ok": bool,
    "bytes_checked": int,
    "mismatches": int,
    "seconds": float,
    "GBps": float,
    "staging_peak": int,
}
PROOFS = {"coverage", "deadlock_free", "memory_safe", "solver"}


def check(value, promised, path="the top"):
    """Keys, their order and their types, all the way down."""
    if isinstance(promised, dict):
        assert isinstance(value, dict), f"{path} is no object"
        assert list(value) == list(promised), f"{path} has {list(value)}"
        for key, below in promised.items():
            check(value[key], below, f"{path}.{key}")
        return
    kinds = (int, float) if promised is float else promised
    assert isinstance(value, kinds), f"{path} is {value!r}"


def check_inspect(text):
    plan = json.loads(text)
    check(plan, INSPECT)
    assert set(plan["proof"]) <= PROOFS, plan["proof"]
    assert plan["memory"]["mode"] in ("flat", "rollback")


def check_deliveries(text):
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines, "no deliveries"
    for line in lines:
        check(line, DELIVERY)
        assert len(line["offset"]) == len(line["size"])
        assert (line["wave"] == -1) == (line["src"] == line["dst"]), line


CHECKS = {
    "inspect": check_inspect,
    "deliveries": check_deliveries,
    "run": lambda text: check(json.loads(text), RUN),
}

if __name__ == "__main__":
    CHECKS[sys.argv[1]](sys.stdin.read())
