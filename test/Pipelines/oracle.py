"""What a plan must do, computed element by element, and checks against it.

`Transition(request, model)` evaluates both layouts; `problems_of(...)` compares
what the tools print about a plan with it. An empty list means that all agree.
"""

import math
from collections import Counter

import numpy as np
from layouts import DTYPE_BYTES, Tensor, cut_by_rules, side_of
from megatron_tensors import tensors_of_config

INSPECT_KEYS = {
    "source": {"world"},
    "destination": {"world"},
    "bytes": {
        "destination", "local", "wire", "wire_lower_bound", "inter_node",
        "inter_node_lower_bound",
    },
    "time": {"predicted_s", "lower_bound_s"},
    "memory": {
        "mode", "staging_limit", "staging_peak", "device_peak", "source_max",
        "destination_max",
    },
    "counts": {"waves", "messages", "collectives"},
}  # fmt: skip
PLAIN_KEYS = {"format_version", "request_hash", "tensors"}
PROOF_KEYS = {"coverage", "deadlock_free", "memory_safe", "solver"}
DELIVERY_KEYS = {"tensor", "state", "src", "dst", "offset", "size", "wave"}
RUN_KEYS = {
    "ok",
    "bytes_checked",
    "mismatches",
    "seconds",
    "GBps",
    "staging_peak",
}

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def bytes_of_size(text):
    """Bytes of "64KiB" and the like."""
    number = text.rstrip("KMGiB")
    return int(number) * UNITS[text[len(number) :]]


def tensors_of(request, model):
    """The tensors that a request with this model (parsed JSON) is about."""
    if "model_type" in model:
        described = [(n, s, c, None) for n, s, c in tensors_of_config(model)]
    else:
        rows = model.get("tensors") or [
            {"name": n} | row for n, row in model.items()
        ]
        named = [(row["name"], tuple(row["shape"])) for row in rows]
        sized = any(
            "shards" not in request[s] for s in ("source", "destination")
        )
        cuts = (
            cut_by_rules(named, request["rules"])
            if sized
            else [None] * len(rows)
        )
        dtypes = [row["dtype"].lower() for row in rows]
        described = [
            (*pair, cut, dtype)
            for pair, cut, dtype in zip(named, cuts, dtypes, strict=True)
        ]
    states = request.get("state")
    tensors = []
    for name, shape, cut, dtype in described:
        own = {"param": "f32"} if cut and cut.buffer else None
        tensors.append(
            Tensor(name, shape, own or states or {"param": dtype}, cut)
        )
    return tensors


class Transition:
    """Both layouts of a request, and the bytes that any plan for it moves."""

    def __init__(self, request, model):
        self.request = request
        self.tensors = tensors_of(request, model)
        multiple = request.get("vocab_multiple", 128)
        self.source = side_of(self.tensors, request["source"], multiple)
        self.destination = side_of(
            self.tensors, request["destination"], multiple
        )
        self.per_node = request.get("cluster", {}).get("devices_per_node", 8)
        self.masks = {}
        self.totals = Counter()
        for number, tensor in enumerate(self.tensors):
            for state, dtype in tensor.states.items():
                self.add_totals(number, state, DTYPE_BYTES[dtype])

    def node(self, device):
        return device // self.per_node

    def mask(self, side, number, state, device):
        key = (side is self.source, number, state, device)
        if key not in self.masks:
            self.masks[key] = side.mask(self.tensors, number, state, device)
        return self.masks[key]

    def add_totals(self, number, state, width):
        """Bytes of one (tensor, state): destination, local, and the least
        that must cross a wire and a node's border."""
        nodes = {}
        for device in self.destination.devices:
            wanted = self.mask(self.destination, number, state, device)
            held = self.mask(self.source, number, state, device)
            missing = wanted & ~held
            self.totals["destination"] += int(wanted.sum()) * width
            self.totals["local"] += int((wanted & held).sum()) * width
            self.totals["wire"] += int(missing.sum()) * width
            node = self.node(device)
            nodes[node] = nodes.get(node, False) | missing
        for node, missing in nodes.items():
            for device in self.source.devices:
                if self.node(device) == node:
                    missing = missing & ~self.mask(
                        self.source, number, state, device
                    )
            self.totals["inter_node"] += int(missing.sum()) * width

    def stored_max(self, side):
        return max(side.stored_bytes(self.tensors, d) for d in side.devices)

    def stored_total(self, side):
        return sum(side.stored_bytes(self.tensors, d) for d in side.devices)


def expect(problems, what, found, expected):
    if found != expected:
        problems.append(f"{what} is {found}, expected {expected}")


def check_inspect(transition, inspect):
    problems = []
    keys = set(inspect) - {"proof"}
    expect(
        problems,
        "inspect's keys",
        sorted(keys),
        sorted(PLAIN_KEYS | {*INSPECT_KEYS}),
    )
    for key, inner in INSPECT_KEYS.items():
        found = inspect.get(key, {})
        expect(problems, f"inspect's {key} keys", sorted(found), sorted(inner))
    extra = set(inspect.get("proof", {})) - PROOF_KEYS
    expect(problems, "inspect's unknown proof keys", sorted(extra), [])
    if problems:
        return problems
    bytes_, memory = inspect["bytes"], inspect["memory"]
    totals, request = transition.totals, transition.request
    source, destination = transition.source, transition.destination
    for what, found, expected in [
        ("tensors", inspect["tensors"], len(transition.tensors)),
        ("bytes.destination", bytes_["destination"], totals["destination"]),
        ("bytes.local", bytes_["local"], totals["local"]),
        ("bytes.wire", bytes_["wire"], totals["wire"]),
        ("wire_lower_bound", bytes_["wire_lower_bound"], totals["wire"]),
        ("inter_node_lower_bound", bytes_["inter_node_lower_bound"],
         totals["inter_node"]),
        ("bytes.inter_node", bytes_["inter_node"], totals["inter_node"]),
        ("source.world", inspect["source"]["world"],
         request["source"]["world"]),
        ("destination.world", inspect["destination"]["world"],
         request["destination"]["world"]),
        ("source_max", memory["source_max"], transition.stored_max(source)),
        ("destination_max", memory["destination_max"],
         transition.stored_max(destination)),
    ]:  # fmt: skip
        expect(problems, what, found, expected)
    return problems + check_limits(request.get("memory", {}), inspect)


def check_limits(asked, inspect):
    """Memory and time figures that no layout fixes, only bounds."""
    problems, memory, time = [], inspect["memory"], inspect["time"]
    limit = bytes_of_size(asked.get("staging", "1GiB"))
    expect(problems, "staging_limit", memory["staging_limit"], limit)
    expect(
        problems, "memory.mode", memory["mode"], asked.get("mode", "rollback")
    )
    if memory["staging_peak"] > limit:
        problems.append(
            f"staging_peak {memory['staging_peak']} is over {limit}"
        )
    if memory["device_peak"] < max(
        memory["source_max"], memory["destination_max"]
    ):
        problems.append("device_peak is less than the state on one device")
    if time["predicted_s"] < time["lower_bound_s"] * (1 - 1e-9):
        problems.append("predicted_s is less than lower_bound_s")
    return problems


def check_deliveries(transition, deliveries, inspect):
    """Every destination element arrives once, from a holder; and the counts
    that inspect prints are those of the deliveries."""
    numbers = {tensor.name: n for n, tensor in enumerate(transition.tensors)}
    arrived, moved, problems = {}, Counter(), []
    hops = inspect["counts"]["collectives"] > 0
    pending = []  # arrivals of the wave at hand, visible from the next on
    wave = -1
    for row in sorted(deliveries, key=lambda row: row["wave"]):
        if set(row) != DELIVERY_KEYS:
            return [f"keys of a delivery are {sorted(row)}"]
        if row["wave"] != wave or hops:
            for key, box in pending:
                arrived[key][1][box] = True
            pending, wave = [], row["wave"]
        problem = deliver(transition, numbers, row, arrived, pending, moved)
        if problem:
            problems.append(f"{problem}: {row}")
    problems += missing_arrivals(transition, arrived)
    expect(
        problems,
        "bytes of wire deliveries",
        moved["wire"],
        inspect["bytes"]["wire"],
    )
    expect(
        problems, "bytes of inter-node deliveries",
        moved["inter_node"], inspect["bytes"]["inter_node"],
    )  # fmt: skip
    wires = [row for row in deliveries if row["src"] != row["dst"]]
    if not hops:
        pairs = {(row["wave"], row["src"], row["dst"]) for row in wires}
        expect(
            problems,
            "counts.messages",
            inspect["counts"]["messages"],
            len(pairs),
        )
    waves = max((row["wave"] for row in wires), default=-1) + 1
    expect(problems, "counts.waves", inspect["counts"]["waves"], waves)
    return problems[:20]


def deliver(transition, numbers, row, arrived, pending, moved):
    """Books one delivery; returns what is wrong with it, or None."""
    number = numbers.get(row["tensor"])
    if number is None or row["state"] not in transition.tensors[number].states:
        return "unknown tensor or state"
    tensor, state = transition.tensors[number], row["state"]
    src, dst, offset, size = row["src"], row["dst"], row["offset"], row["size"]
    ends = [lo + n for lo, n in zip(offset, size, strict=True)]
    if len(offset) != len(tensor.shape) or min(offset + size, default=0) < 0:
        return "not a box of the tensor"
    if any(end > n for end, n in zip(ends, tensor.shape, strict=True)):
        return "out of the tensor's bounds"
    box = tuple(slice(lo, hi) for lo, hi in zip(offset, ends, strict=True))
    key = (number, state, dst)
    if key not in arrived:
        shape = tensor.shape
        arrived[key] = (np.zeros(shape, np.int32), np.zeros(shape, bool))
    arrived[key][0][box] += 1
    pending.append((key, box))
    if (row["wave"] < 0) != (src == dst):
        return "expected wave -1 for a local copy and only for that"
    held = transition.mask(transition.source, number, state, src)[box]
    if src != dst and (number, state, src) in arrived:
        held = held | arrived[number, state, src][1][box]
    count = math.prod(size) * DTYPE_BYTES[tensor.states[state]]
    if src != dst:
        moved["wire"] += count
        if transition.node(src) != transition.node(dst):
            moved["inter_node"] += count
    return None if held.all() else "src does not hold all of it by then"


def missing_arrivals(transition, arrived):
    problems = []
    for number, tensor in enumerate(transition.tensors):
        for state in tensor.states:
            for device in transition.destination.devices:
                wanted = transition.mask(
                    transition.destination, number, state, device
                )
                counts, _ = arrived.pop((number, state, device), (0, None))
                wrong = np.argwhere(
                    np.asarray(counts - wanted.astype(np.int32))
                )
                if len(wrong):
                    problems.append(
                        f"{tensor.name} {state} on device {device}: "
                        f"{len(wrong)} elements arrive too often or never, "
                        f"first {wrong[0].tolist()}"
                    )
    problems += [
        f"delivery to {key[2]}, which is no destination" for key in arrived
    ]
    return problems


def check_run(transition, run):
    problems = []
    expect(problems, "dt-run's keys", sorted(run), sorted(RUN_KEYS))
    if problems:
        return problems
    expect(problems, "ok", run["ok"], True)
    expect(problems, "mismatches", run["mismatches"], 0)
    stored = transition.stored_total(transition.destination)
    expect(problems, "bytes_checked", run["bytes_checked"], stored)
    asked = transition.request.get("memory", {}).get("staging", "1GiB")
    if run["staging_peak"] > bytes_of_size(asked):
        problems.append(
            f"dt-run staged {run['staging_peak']} bytes, over {asked}"
        )
    return problems


def problems_of(transition, inspect, deliveries, run):
    return (
        check_inspect(transition, inspect)
        or check_deliveries(transition, deliveries, inspect)
    ) + check_run(transition, run)
