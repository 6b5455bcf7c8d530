"""How long a plan takes, worked out from what it prints and from its request.

Shares nothing with the tools but the rule that
runtime/include/dtrt/cost/Simulation.h states in words.
"""

import itertools
import json
import math
import struct
from collections import defaultdict
from dataclasses import dataclass

from plan_file import COMMON, PlanBytes

# What packing costs a device; a request has no key for it (Cluster.h).
PACK_LAUNCH_S = 5e-6
PACK_BYTES_PER_S = 1e12


@dataclass
class Message:
    """What one device sends another in one wave; whether it lies in slots."""

    wave: int
    source: int
    destination: int
    size: int
    packed: bool = True
    unpacked: bool = True
    # Whether it has what the sender's group before brought.
    forward: bool = False
    # Latencies that it takes, and what is packed for it, if not all.
    steps: float = 1
    pack_size: int | None = None

    def packed_size(self):
        whole = self.size if self.pack_size is None else self.pack_size
        return whole * self.packed


class Cluster:
    """The `cluster` of a request."""

    def __init__(self, keys):
        self.per_node = keys.get("devices_per_node", 8)
        nics = keys.get("nics_per_node", self.per_node)
        self.per_nic = self.per_node // nics
        self.pxn = keys.get("pxn", False)
        self.latency = keys.get("latency_us", 10) * 1e-6
        self.launch = keys.get("launch_us", 0) * 1e-6
        self.rates = (
            keys.get("intra_node_GBps", 200),
            keys.get("inter_node_GBps", 25),
        )
        channels = keys.get("channels_per_peer", math.inf)
        self.pairs = (
            channels * keys.get("intra_channel_GBps", 10.3),
            channels * keys.get("inter_channel_GBps", 14),
        )
        self.links = keys.get("links", [])
        # Of a library's calls inside a node, without a ring.
        self.multicast = keys.get("multicast_us", math.inf) * 1e-6
        self.copy_engine = keys.get("copy_engine_us", math.inf) * 1e-6

    def nic_out(self, a, b):
        """By which a message to another node leaves."""
        rail = self.per_node * (a // self.per_node) + b % self.per_node
        return (rail if self.pxn else a) // self.per_nic

    def between_nodes(self, a, b):
        return a // self.per_node != b // self.per_node

    def at_once(self, inter):
        """Messages that a port carries in a wave, each way."""
        filling = math.ceil(self.rates[inter] / self.pairs[inter] - 1e-9)
        return min(max(filling, 1), 3)

    def link(self, a, b):
        rate = self.rates[self.between_nodes(a, b)]
        for link in self.links:
            names = (link["from"], link["to"])
            if all(
                name in (device, f"node:{device // self.per_node}")
                for name, device in zip(names, (a, b), strict=True)
            ):
                rate = link["GBps"]
        return rate

    def seconds(self, message, pairs=1):
        """On the wire, alone, by the channels of so many pairs."""
        ends = (message.source, message.destination)
        most = pairs * self.pairs[self.between_nodes(*ends)]
        return message.size / (min(self.link(*ends), most) * 1e9)

    def shares_nics(self, inter):
        """Whether several devices use a NIC."""
        return inter and (self.per_nic > 1 or self.pxn)

    def nics(self, message):
        """Those of a message, where devices share them."""
        ends = (message.source, message.destination)
        if not self.shares_nics(self.between_nodes(*ends)):
            return []
        return [
            ("nic out", self.nic_out(*ends)),
            ("nic in", message.destination // self.per_nic),
        ]

    def ports(self, message):
        """Those of which a message has a part of the time, with that: none
        where a port carries one message."""
        ends = (message.source, message.destination)
        inter = self.between_nodes(*ends)
        if self.at_once(inter) == 1:
            return []
        names = self.nics(message) or [("out", ends[0]), ("in", ends[1])]
        times = [self.seconds(message, self.at_once(inter))] * 2
        if inter and self.pxn:
            # The NIC may have more messages at once than fill it.
            times[0] = self.seconds(message, math.inf)
        return [((inter, *n), t) for n, t in zip(names, times, strict=True)]


@dataclass
class Collective:
    """A library's, which takes as long as some messages round a ring."""

    wave: int
    kind: str
    members: list[int]
    root: int | None
    block: int

    def edge(self, source, destination, size, **keys):
        return Message(
            self.wave, source, destination, size, steps=self.steps, **keys
        )

    def steps_over(self, cluster):
        """In latencies: a ring's, or of what reaches all of a node."""
        ways = [(len(self.members) - 1) * cluster.latency]
        nodes = {member // cluster.per_node for member in self.members}
        if len(nodes) == 1 and self.kind != "all_to_all":
            ways.append(cluster.multicast)
        if len(nodes) == 1 and self.kind != "broadcast":
            ways.append(cluster.copy_engine)
        return min(ways) / cluster.latency if cluster.latency else 0

    def edges(self, cluster):
        self.steps = self.steps_over(cluster)
        members, others = self.members, len(self.members) - 1
        if self.kind == "broadcast":
            at = members.index(self.root)
            order = members[at:] + members[:at]
            return [
                self.edge(a, b, self.block, packed=a == self.root)
                for a, b in itertools.pairwise(order)
            ]
        if self.kind == "all_gather":
            return [
                self.edge(a, b, others * self.block, pack_size=self.block)
                for a, b in zip(members, members[1:] + members[:1], strict=True)
            ]
        return list(self.exchange(cluster))

    def exchange(self, cluster):
        nodes = [
            list(own)
            for _, own in itertools.groupby(
                self.members, key=lambda m: m // cluster.per_node
            )
        ]
        for own, there in zip(nodes, nodes[1:] + nodes[:1], strict=True):
            near, far = len(own) - 1, len(self.members) - len(own)
            for place, member in enumerate(own):
                if near:
                    peer = own[(place + 1) % len(own)]
                    yield self.edge(member, peer, near * self.block)
                if far:
                    peer = there[min(place, len(there) - 1)]
                    yield self.edge(member, peer, far * self.block)


def copy_seconds(size):
    return PACK_LAUNCH_S + size / PACK_BYTES_PER_S if size else 0.0


@dataclass
class Device:
    """When a device has done what it does of the waves so far."""

    began: float = 0.0  # its last group, with its last message
    ended: float = 0.0  # its last group
    copies: float = 0.0  # its copy lane
    unpacked: float = 0.0  # the group before the last
    copied: float = 0.0  # what it copied on itself
    waiting: int = 0  # bytes of the last group that are still in slots
    own: int = 0  # bytes that it copies on itself before the next group
    beside: int = 0  # and beside it

    def unpack(self):
        if self.waiting:
            self.copies = max(self.copies, self.ended)
            self.copies += copy_seconds(self.waiting)
            self.unpacked = self.copies
            self.waiting = 0

    def copy(self):
        if self.own:
            self.copies = max(self.copies, self.ended) + copy_seconds(self.own)
            self.copied = self.copies
            self.own = 0

    def copy_beside(self, begin):
        if self.beside:
            self.copies = max(self.copies, begin) + copy_seconds(self.beside)
            self.copied = self.copies
            self.beside = 0

    def ready(self, early, late):
        """When the next group may begin. `early` bytes of it are packed while
        the last group is on the wire; `late` ones, unless None, when all that
        the last one brought is unpacked. Own copies stand between the two, or
        beside the next."""
        free = [self.ended, self.unpacked, self.copied]
        if early:
            self.copies = max(self.copies, self.began) + copy_seconds(early)
            free.append(self.copies)
        waits = late is not None or self.own > 0
        self.unpack()
        self.copy()
        free += [self.unpacked, self.copied] if waits else []
        if late:
            self.copies = max(self.copies, self.ended) + copy_seconds(late)
            free.append(self.copies)
        self.copy_beside(max(free))
        return max(free)


def run_wave(cluster, messages, devices, nics):
    packs, forwards, unpacks = defaultdict(int), {}, defaultdict(int)
    for m in messages:
        if m.forward:
            forwards[m.source] = forwards.get(m.source, 0) + m.packed_size()
        else:
            packs[m.source] += m.packed_size()
        unpacks[m.destination] += m.size * m.unpacked
    ready = {
        device: cluster.launch
        + devices[device].ready(packs[device], forwards.get(device))
        for device in {*packs, *forwards, *unpacks}
    }
    begins, ends = dict(ready), dict.fromkeys(ready, 0.0)
    busy = defaultdict(float)
    for m in messages:
        for port, seconds in cluster.ports(m):
            busy[port] += seconds
    # They take turns on a NIC that carries one message.
    takes_turns = cluster.at_once(inter=True) == 1
    later = defaultdict(float)
    for m in messages:
        shared = cluster.nics(m)
        start = max(
            [ready[m.source], ready[m.destination]]
            + [nics[nic] for nic in shared]
        )
        flows = [cluster.seconds(m)]
        flows += [busy[port] for port, _ in cluster.ports(m)]
        end = start + m.steps * cluster.latency + max(flows)
        for nic in shared:
            until = nics if takes_turns else later
            until[nic] = max(until[nic], end)
        for device in (m.source, m.destination):
            begins[device] = max(begins[device], start)
            ends[device] = max(ends[device], end)
    for nic, end in later.items():
        nics[nic] = max(nics[nic], end)
    for device in ready:
        state = devices[device]
        state.began, state.ended = begins[device], ends[device]
        state.waiting = unpacks[device]


def seconds_of(messages, keys, copies=()):
    """Until the last byte is in its place; `keys` are the request's cluster,
    `copies` those that stay between two groups of a device or beside one:
    (wave, device, bytes, beside), the wave being that of the group after them
    or beside them."""
    cluster, devices = Cluster(keys), defaultdict(Device)
    nics = defaultdict(float)
    messages = [
        each
        for message in messages
        for each in (
            [message]
            if isinstance(message, Message)
            else message.edges(cluster)
        )
    ]
    order = sorted(messages, key=lambda m: (m.wave, m.source, m.destination))
    local = sorted(copies)
    for number, wave in itertools.groupby(order, key=lambda m: m.wave):
        while local and local[0][0] <= number:
            _, device, size, beside = local.pop(0)
            if beside:
                devices[device].beside += size
            else:
                devices[device].own += size
        run_wave(cluster, list(wave), devices, nics)
    for _, device, size, _ in local:
        devices[device].own += size
    for device in devices.values():
        device.unpack()
        device.copy()
    return max(
        (
            max(each.ended, each.unpacked, each.copied)
            for each in devices.values()
        ),
        default=0.0,
    )


def meet(a, b):
    """Whether two segments of a dump have bytes in common."""
    return (
        a["side"] == b["side"]
        and a["shard"] == b["shard"]
        and bool({*a["states"]} & {*b["states"]})
        and all(
            low < other + other_size and other < low + size
            for low, size, other, other_size in zip(
                a["offset"], a["size"], b["offset"], b["size"], strict=True
            )
        )
    )


def forwards_of(program):
    """(wave, peer) of the messages of a program that send what came in the
    program's group before theirs."""
    groups = defaultdict(lambda: {"send": {}, "receive": []})
    for instruction in program["instructions"]:
        own = groups[instruction["wave"]]
        segments = instruction.get("segments", [])
        if instruction["op"] == "pack":
            own["send"][instruction["slot"]] = segments
        elif instruction["op"] == "relay":
            own["send"][instruction["slot"]] = []  # nothing of a shard
        elif instruction["op"] == "unpack":
            own["receive"] += segments
        for message in instruction.get("messages", []):
            if message["kind"] == "receive" and "slot" not in message:
                own["receive"].append(message["segment"])
    found, before = set(), []
    for instruction in program["instructions"]:
        if instruction["op"] != "group":
            continue
        own = groups[instruction["wave"]]
        for message in instruction["messages"]:
            if message["kind"] == "send" and any(
                meet(read, written)
                for read in (
                    own["send"][message["slot"]]
                    if "slot" in message
                    else [message["segment"]]
                )
                for written in before
            ):
                found.add((instruction["wave"], message["peer"]))
        before = own["receive"]
    return found


def programs_of(dump):
    """What `dt-plan dump --all-ranks --json` prints."""
    decoder = json.JSONDecoder()
    while dump := dump.lstrip():
        program, at = decoder.raw_decode(dump)
        dump = dump[at:]
        yield program


def copies_of(dump):
    """(wave, device, bytes, beside) of the copies and zeros of a dump, each
    before the device's group of that wave or beside it."""
    copies = []
    for program in programs_of(dump):
        device = program["device"]
        size = {False: 0, True: 0}
        for instruction in program["instructions"]:
            if instruction["op"] == "group":
                for beside in size:
                    wave = instruction["wave"]
                    copies.append((wave, device, size[beside], beside))
                    size[beside] = 0
            elif instruction["op"] in ("copy", "zero"):
                size[instruction["wave"] >= 0] += instruction["bytes"]
        copies.append((math.inf, device, size[False], False))
    return [copy for copy in copies if copy[2]]


def relayed_ends_of(program):
    """(wave, source, destination, kind) of the messages that come to be sent
    on, and of those that send them."""
    found, came, waits = set(), {}, {}  # by slot: the receive, the relay
    device = program["device"]
    for instruction in program["instructions"]:
        if instruction["op"] == "relay":
            found.add(came[instruction["slot"]])
            waits[instruction["slot"]] = True
        for message in instruction.get("messages", []):
            if "slot" not in message:
                continue
            slot, wave = message["slot"], instruction["wave"]
            if message["kind"] == "send" and waits.pop(slot, False):
                found.add((wave, device, message["peer"], "send"))
        for message in instruction.get("messages", []):
            if "slot" in message and message["kind"] == "receive":
                came[message["slot"]] = (
                    instruction["wave"], message["peer"], device, "receive"
                )  # fmt: skip
    return found


def messages_of(dump):
    """The messages of a dump."""
    ends = {}  # of (wave, source, destination): {kind: message}
    calls = {}  # of (wave, first member)
    forwards = set()  # (wave, source, destination)
    relayed = set()  # the same, and kind: ends that stay in their slot
    for program in programs_of(dump):
        forwards |= {
            (wave, program["device"], peer)
            for wave, peer in forwards_of(program)
        }
        relayed |= relayed_ends_of(program)
        for instruction in program["instructions"]:
            if call := instruction.get("collective"):
                wave, members = instruction["wave"], call["members"]
                calls[wave, members[0]] = Collective(
                    wave, call["kind"], members, call.get("root"),
                    call["block_bytes"],
                )  # fmt: skip
                continue
            for message in instruction.get("messages", []):
                pair = (program["device"], message["peer"])
                if message["kind"] == "receive":
                    pair = pair[::-1]
                key = (instruction["wave"], *pair)
                ends.setdefault(key, {})[message["kind"]] = message
    return [
        Message(
            *key,
            both["send"]["bytes"],
            packed="slot" in both["send"] and (*key, "send") not in relayed,
            unpacked="slot" in both["receive"]
            and (*key, "receive") not in relayed,
            forward=key in forwards,
        )
        for key, both in ends.items()
    ] + list(calls.values())


def with_other_time(plan, stated, factor):
    """The bytes of a plan file that states a time of its summary `factor` times
    as long, with its checksums right."""
    changed = PlanBytes(plan)
    kinds = [entry[0] for entry in changed.table()]
    common = changed.section(kinds.index(COMMON))
    at = changed.data.index(
        struct.pack("<d", stated), common.start, common.stop
    )
    struct.pack_into("<d", changed.data, at, stated * factor)
    changed.seal()
    return bytes(changed.data)
