"""What a plan must do, computed element by element, and checks against it.

`Transition(request, model)` evaluates both layouts; `problems_of(...)` compares
what the tools print about a plan with it. An empty list means that all agree.
"""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from extra_state import add_extra, extra_shape
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


@dataclass
class State:
    """A state's dtype on each side (None: not there), and the state that it
    is or may be made from."""

    source: str | None
    destination: str | None
    origin: str | None = None


def states_of(request):
    """{name: State}; empty for the default."""
    shared = request.get("state", {})
    before, after = (
        request[side].get("state", shared) for side in ("source", "destination")
    )
    derive = request.get("derive", {})
    return {
        name: State(before.get(name), after.get(name), derive.get(name))
        for name in before | after
    }


def tensors_of(request, model):
    """The tensors that a request with this model (parsed JSON) is about; their
    states are `State`s."""
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
        owns = [row.get("state") or row["dtype"].lower() for row in rows]
        described = [
            (*pair, cut, own)
            for pair, cut, own in zip(named, cuts, owns, strict=True)
        ]
    states = states_of(request)
    tensors = []
    for name, shape, cut, dtype in described:
        if isinstance(dtype, dict):
            own = {state: State(*sides) for state, sides in dtype.items()}
            tensors.append(Tensor(name, shape, own, cut))
            continue
        is_buffer = cut and cut.buffer
        if is_buffer and states and "param" not in states:
            continue
        dtype = "f32" if is_buffer else dtype
        only = {"param": State(dtype, dtype)}
        own = only if is_buffer or not states else states
        tensors.append(Tensor(name, shape, own, cut))
    for entry in request.get("extra", []):
        only = {"param": State(entry["dtype"], entry["dtype"])}
        shape = extra_shape(entry, request["source"])
        tensors.append(Tensor(entry["name"], shape, only))
    return tensors


def tensors_on(side, tensors):
    """The tensors with the states and dtypes of one side."""
    return [
        Tensor(
            tensor.name,
            tensor.shape,
            {
                name: getattr(state, side)
                for name, state in tensor.states.items()
                if getattr(state, side)
            },
            tensor.cut,
        )
        for tensor in tensors
    ]


class Transition:
    """Both layouts of a request, and the bytes that any plan for it moves."""

    def __init__(self, request, model):
        self.request = request
        self.tensors = tensors_of(request, model)
        self.on = {
            side: tensors_on(side, self.tensors)
            for side in ("source", "destination")
        }
        self.source, self.destination = map(self.evaluate, self.on)
        self.per_node = request.get("cluster", {}).get("devices_per_node", 8)
        self.is_flat = request.get("memory", {}).get("mode") == "flat"
        self.masks = {}
        self.totals = Counter()
        for number, tensor in enumerate(self.tensors):
            for name, state in tensor.states.items():
                if state.destination:
                    self.add_totals(number, name, state)

    def evaluate(self, name):
        """Who holds what on the side of that name."""
        multiple = self.request.get("vocab_multiple", 128)
        layout, extra = self.request[name], self.request.get("extra", [])
        weights = self.on[name][: len(self.on[name]) - len(extra)]
        side = side_of(weights, layout, multiple)
        for number, entry in enumerate(extra, len(weights)):
            add_extra(side, number, entry, self.request["source"], layout)
        return side

    def node(self, device):
        return device // self.per_node

    def mask(self, side, number, state, device):
        key = (side is self.source, number, state, device)
        if key not in self.masks:
            self.masks[key] = side.mask(self.tensors, number, state, device)
        return self.masks[key]

    def held(self, number, name, device):
        """What a device can read of a state at the source: a state that is
        only in the destination is read where its origin lies."""
        state = self.tensors[number].states[name]
        read = name if state.source else state.origin
        return self.mask(self.source, number, read, device)

    def made(self, number, name, device):
        """What a device makes from another state that it gets anyway."""
        state = self.tensors[number].states[name]
        wanted = self.mask(self.destination, number, name, device)
        if not (state.source and state.origin):
            return wanted & False
        got = self.mask(self.destination, number, state.origin, device)
        return wanted & got & ~self.held(number, name, device)

    def wire_width(self, number, name):
        states = self.tensors[number].states
        state = states[name]
        read = state.source or states[state.origin].source
        return min(DTYPE_BYTES[read], DTYPE_BYTES[state.destination])

    def add_totals(self, number, name, state):
        """Bytes of one (tensor, state): destination, local, and the least
        that must cross a wire and a node's border."""
        nodes = {}
        stored = DTYPE_BYTES[state.destination]
        width = self.wire_width(number, name)
        for device in self.destination.devices:
            wanted = self.mask(self.destination, number, name, device)
            held = self.held(number, name, device)
            missing = wanted & ~held & ~self.made(number, name, device)
            self.totals["destination"] += int(wanted.sum()) * stored
            self.totals["local"] += int((wanted & ~missing).sum()) * stored
            self.totals["wire"] += int(missing.sum()) * width
            if state.source == state.destination and (wanted == held).all():
                self.totals["unchanged"] += int(wanted.sum()) * stored
            node = self.node(device)
            nodes[node] = nodes.get(node, False) | missing
        for node, missing in nodes.items():
            for device in self.source.devices:
                if self.node(device) == node:
                    missing = missing & ~self.held(number, name, device)
            self.totals["inter_node"] += int(missing.sum()) * width

    def stored_on(self, name):
        """Bytes that each device stores on the side of that name."""
        side = self.source if name == "source" else self.destination
        return [side.stored_bytes(self.on[name], d) for d in side.devices]


def expect(problems, what, found, expected):
    if found != expected:
        problems.append(f"{what} is {found}, expected {expected}")


def library_keys(request):
    """Keys of inspect's time where a request says what a library adds."""
    cluster = request.get("cluster", {})
    keys = {
        "launch_us": "launch_us",
        "multicast_us": "multicast_us",
        "copy_engine_us": "copy_engine_us",
        "channels": "channels_per_peer",
    }
    return {key for key, asked in keys.items() if cluster.get(asked)}


def relay_keys(request, inspect, key):
    """Keys of inspect where messages go over third devices."""
    relays = request.get("cluster", {}).get("relays")
    if not relays or "relayed" not in inspect.get("bytes", {}):
        return set()
    return {
        "bytes": {"relayed"},
        "time": {"without_relays_s"},
    }.get(key, set())


def calls_library(request):
    """Whether a request allows a library's collectives."""
    cluster = request.get("cluster", {})
    choice = cluster.get("collectives", "auto")
    return choice == "library" or (
        choice == "auto"
        and any(
            cluster.get(key, 0) > 0
            for key in ("launch_us", "multicast_us", "copy_engine_us")
        )
    )


def check_inspect(transition, inspect):
    problems = []
    keys = set(inspect) - {"proof"}
    expect(
        problems,
        "inspect's keys",
        sorted(keys),
        sorted(PLAIN_KEYS | {*INSPECT_KEYS}),
    )
    asked = transition.request.get("memory", {})
    by_tensor = asked.get("granularity") == "tensor"
    for key, inner in INSPECT_KEYS.items():
        found = inspect.get(key, {})
        more = {"granularity"} if key == "memory" and by_tensor else set()
        if key == "memory" and "communicator" in asked:
            more |= {"communicator", "over_nccl"}
        if key == "bytes" and transition.is_flat:
            more = {"in_place"} & set(found)
        if key == "time":
            more = library_keys(transition.request)
        more |= relay_keys(transition.request, inspect, key)
        if key == "counts" and calls_library(transition.request):
            more |= {"library_collectives"} & set(found)
        expect(
            problems,
            f"inspect's {key} keys",
            sorted(found),
            sorted(inner | more),
        )
    extra = set(inspect.get("proof", {})) - PROOF_KEYS
    expect(problems, "inspect's unknown proof keys", sorted(extra), [])
    if problems:
        return problems
    bytes_, memory = inspect["bytes"], inspect["memory"]
    totals, request = transition.totals, transition.request
    most = {side: max(transition.stored_on(side)) for side in transition.on}
    relayed = bytes_.get("relayed", 0)
    for what, found, expected in [
        ("tensors", inspect["tensors"], len(transition.tensors)),
        ("bytes.destination", bytes_["destination"], totals["destination"]),
        ("bytes that stay on their device",
         bytes_["local"] + bytes_.get("in_place", 0), totals["local"]),
        ("bytes.wire", bytes_["wire"], totals["wire"] + relayed),
        ("wire_lower_bound", bytes_["wire_lower_bound"], totals["wire"]),
        ("inter_node_lower_bound", bytes_["inter_node_lower_bound"],
         totals["inter_node"]),
        ("bytes.inter_node",
         bytes_["inter_node"] if not relayed else totals["inter_node"],
         totals["inter_node"]),
        ("source.world", inspect["source"]["world"],
         request["source"]["world"]),
        ("destination.world", inspect["destination"]["world"],
         request["destination"]["world"]),
        ("source_max", memory["source_max"], most["source"]),
        ("destination_max", memory["destination_max"], most["destination"]),
    ]:  # fmt: skip
        expect(problems, what, found, expected)
    if relayed and not (
        inspect["time"]["predicted_s"] < inspect["time"]["without_relays_s"]
        and bytes_["inter_node"] >= totals["inter_node"]
    ):
        problems.append("relays gain nothing, or save bytes")
    if bytes_.get("in_place", 0) > totals["unchanged"]:
        problems.append(
            f"{bytes_['in_place']} bytes stay in place, of which"
            f" {totals['unchanged']} do not change"
        )
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
    relays = Relays()
    pending = []  # arrivals of the wave at hand, visible from the next on
    wave = -1
    for row in sorted(deliveries, key=lambda row: row["wave"]):
        if set(row) - {"relayed", "collective"} != DELIVERY_KEYS:
            return [f"keys of a delivery are {sorted(row)}"]
        if row["wave"] != wave:
            for key, box in pending:
                arrived[key][1][box] = True
            pending, wave = [], row["wave"]
        problem = deliver(
            transition, numbers, row, arrived, pending, moved, relays
        )
        if problem:
            problems.append(f"{problem}: {row}")
    problems += missing_arrivals(transition, arrived) + relays.left()
    expect(
        problems,
        "bytes of relayed deliveries",
        moved["relayed"],
        inspect["bytes"].get("relayed", 0),
    )
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
    pairs = {
        (row["wave"], row["src"], row["dst"])
        for row in wires
        if "collective" not in row
    }
    calls = inspect["counts"].get("library_collectives", 0)
    if bool(calls) != any("collective" in row for row in wires):
        problems.append(f"{calls} library collectives, deliveries say others")
    waves = max((row["wave"] for row in wires), default=-1) + 1
    multicasts = count_multicasts(transition, wires)
    for what, count in [
        ("messages", len(pairs)),
        ("waves", waves),
        ("collectives", multicasts + calls),
    ]:
        expect(problems, f"counts.{what}", inspect["counts"][what], count)
    return problems[:20]


class Relays:
    """What has come to devices that neither hold nor want it."""

    def __init__(self):
        self.waiting = {}  # what and where: waves

    @staticmethod
    def key(row, device):
        box = (*row["offset"], *row["size"])
        return row["tensor"], row["state"], device, box

    def add(self, row):
        key = self.key(row, row["dst"])
        self.waiting.setdefault(key, []).append(row["wave"])

    def take(self, row):
        """Whether the row sends on what came in an earlier wave: once."""
        waves = self.waiting.get(self.key(row, row["src"]), [])
        if not waves or min(waves) >= row["wave"]:
            return False
        waves.remove(min(waves))
        row["from_relay"] = True
        return True

    def left(self):
        return [
            f"a relay keeps {key}"
            for key, waves in self.waiting.items()
            if waves
        ]


def count_multicasts(transition, wires):
    """Sets of devices that send or receive an element that one of them does
    both with, other than as a relay."""
    shapes = {tensor.name: tensor.shape for tensor in transition.tensors}
    ends = {}  # (tensor, state): {device: (sent, received), masks}
    for row in wires:
        box = tuple(
            slice(lo, lo + n)
            for lo, n in zip(row["offset"], row["size"], strict=True)
        )
        own = ends.setdefault((row["tensor"], row["state"]), {})
        for side, device in enumerate((row["src"], row["dst"])):
            if device not in own:
                shape = shapes.get(row["tensor"], ())
                own[device] = np.zeros((3, *shape), bool)
            passes = "from_relay" in row if side == 0 else "relayed" in row
            own[device][(2 if passes else side, *box)] = True
    found = set()
    for own in ends.values():
        devices = sorted(own)
        masks = np.stack([own[d].reshape(3, -1) for d in devices], axis=1)
        passed_on = masks[:2].all(axis=0).any(axis=0)
        for column in np.unique(masks.any(axis=0)[:, passed_on], axis=1).T:
            found.add(tuple(np.array(devices)[column]))
    return len(found)


def deliver(transition, numbers, row, arrived, pending, moved, relays):
    """Books one delivery; returns what is wrong with it, or None."""
    number = numbers.get(row["tensor"])
    if (
        number is None
        or row["state"] not in transition.on["destination"][number].states
    ):
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
    if "relayed" in row:
        relays.add(row)
    else:
        if key not in arrived:
            shape = tensor.shape
            arrived[key] = (np.zeros(shape, np.int32), np.zeros(shape, bool))
        arrived[key][0][box] += 1
        pending.append((key, box))
    if (row["wave"] < 0) != (src == dst):
        return "expected wave -1 for a local copy and only for that"
    held = transition.held(number, state, src)[box]
    if src == dst:
        held = held | transition.made(number, state, dst)[box]
    if src != dst and (number, state, src) in arrived:
        held = held | arrived[number, state, src][1][box]
    count = math.prod(size) * transition.wire_width(number, state)
    if src != dst:
        moved["wire"] += count
        moved["relayed"] += count if "relayed" in row else 0
        if transition.node(src) != transition.node(dst) and enters_node(
            transition, row, moved
        ):
            moved["inter_node"] += count
    if src != dst and relays.take(row):
        return None
    return None if held.all() else "src does not hold all of it by then"


def enters_node(transition, row, moved):
    """A library brings what all members get into a node once."""
    if row.get("collective", "all_to_all") == "all_to_all":
        return True
    key = (
        *(row["tensor"], row["state"], row["wave"], row["src"]),
        *(*row["offset"], *row["size"], transition.node(row["dst"])),
    )
    moved[key] += 1
    return moved[key] == 1


def missing_arrivals(transition, arrived):
    problems = []
    for number, tensor in enumerate(transition.on["destination"]):
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
    stored = sum(transition.stored_on("destination"))
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
