"""Checks that JSON on stdin has exactly the keys that users are promised.

Usage: check_keys.py inspect | deliveries | replan | replans | run | simulate
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
REPLAN = {
    "bytes": {
        "wire": int,
        "wire_lower_bound": int,
        "inter_node": int,
        "inter_node_lower_bound": int,
        "on_old_route": int,
        "in_old_wave": int,
    },
    "time": {"predicted_s": float, "lower_bound_s": float},
    "programs_copied": int,
    "from_zero": (str, type(None)),
}
HELD = {"ready": bool, "digest": str, "programs": int}
#: From a plan that is held.
ANSWER = {"plan": str, "seconds": float, **REPLAN, "warnings": list}
RUN = {
    "ok": bool,
    "bytes_checked": int,
    "mismatches": int,
    "seconds": float,
    "GBps": float,
    "staging_peak": int,
}
SPENT = {
    "wire": float,
    "latency": float,
    "launch": float,
    "copies": float,
    "sharing": float,
    "slow": float,
    "jitter": float,
}
LOST = {"order" if key == "wire" else key: float for key in SPENT}
SIMULATION = {
    "simulated_s": float,
    "undisturbed_s": float,
    "predicted_s": float,
    "lower_bound_s": float,
    "lost_s": LOST,
    "spent_s": SPENT,
    "options": {
        "latency_us": float,
        "launch_us": float,
        "jitter_percent": float,
        "seed": int,
        "slow_devices": list,
        "slow_links": list,
    },
    "disturbances": list,
    "legs": list,
    "path": list,
    "waves": list,
    "devices": list,
}
#: What each item of these lists has.
SIMULATED = {
    "disturbances": {"what": str, "alone_s": float, "lost_s": float},
    "legs": {
        "device": int,
        "port": (str, type(None)),
        "messages": int,
        "copies": int,
        "first_wave": int,
        "last_wave": int,
        "begin_s": float,
        "end_s": float,
    },
    "path": {
        "what": str,
        "wave": int,
        "device": int,
        "peer": (int, type(None)),
        "begin_s": float,
        "end_s": float,
        "spent_s": SPENT,
    },
    "waves": {
        "wave": int,
        "begin_s": float,
        "end_s": float,
        "messages": int,
        "bytes": int,
        "on_path_s": SPENT,
    },
    "devices": {
        "device": int,
        "carrying_s": float,
        "copying_s": float,
        "waiting_s": float,
        "waited_for": (int, type(None)),
        "waited_for_s": float,
        "kept_waiting_s": float,
        "end_s": float,
    },
}
#: Of plans in flat memory.
LOSSES = {"first_release": {"after_wave": int, "device": int}, "waves": list}
LOSS = {
    "first": int,
    "last": int,
    "device": int,
    "bytes": int,
    "all_bytes": int,
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
    losses = plan.pop("losses", None)
    if losses is not None:
        assert plan["memory"]["mode"] == "flat"
        check(losses, LOSSES, "losses")
        for loss in losses["waves"]:
            check(loss, LOSS, "losses.waves")
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


def check_replans(text):
    held, *answers = [json.loads(line) for line in text.splitlines()]
    check(held, HELD)
    assert answers, "no answers"
    for answer in answers:
        check(answer, ANSWER)


def check_simulation(text):
    simulation = json.loads(text)
    check(simulation, SIMULATION)
    for name, promised in SIMULATED.items():
        for item in simulation[name]:
            check(item, promised, name)
    # What it was spent on, and the steps of the path, make the whole.
    seconds = simulation["simulated_s"]
    parts = [sum(simulation["spent_s"].values())]
    parts.append(sum(sum(s["spent_s"].values()) for s in simulation["path"]))
    parts += [simulation["path"][-1]["end_s"], simulation["legs"][-1]["end_s"]]
    parts.append(max(device["end_s"] for device in simulation["devices"]))
    assert all(abs(part - seconds) < 1e-9 for part in parts), parts


CHECKS = {
    "simulate": check_simulation,
    "inspect": check_inspect,
    "deliveries": check_deliveries,
    "replan": lambda text: check(json.loads(text), REPLAN),
    "replans": check_replans,
    "run": lambda text: check(json.loads(text), RUN),
}

if __name__ == "__main__":
    CHECKS[sys.argv[1]](sys.stdin.read())
