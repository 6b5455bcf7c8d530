"""Seconds worked out by hand from Simulation.h's words."""

import pytest
from seconds import Message, seconds_of

CLUSTER = {
    "devices_per_node": 2,
    "intra_node_GBps": 200,
    "inter_node_GBps": 50,
    "latency_us": 10,
}
MB = 10**6
WIRE = 1e-3  # 200 MB inside a node, 50 MB between two
PACK = 5e-6 + 0.2e-3  # 200 MB


def message(wave, source, destination, size, packed=False, unpacked=False):
    return Message(wave, source, destination, size, packed, unpacked)


def forwarded(wave, source, destination, size, packed=False):
    return Message(wave, source, destination, size, packed, False, True)


@pytest.mark.parametrize(
    ("messages", "more", "seconds"),
    [
        ([], {}, 0),
        ([message(0, 0, 1, 200 * MB)], {}, 10e-6 + WIRE),
        ([message(0, 1, 2, 50 * MB)], {}, 10e-6 + WIRE),
        # Packed before, unpacked after.
        (
            [message(0, 0, 1, 200 * MB, True, True)],
            {},
            10e-6 + WIRE + 2 * PACK,
        ),
        # The second is packed while the first is on the wire.
        (
            [message(wave, 0, 1, 200 * MB, True) for wave in range(2)],
            {},
            PACK + 2 * (10e-6 + WIRE),
        ),
        # The first is unpacked while the second is on the wire.
        (
            [
                message(0, 0, 1, 200 * MB, unpacked=True),
                message(1, 0, 1, 200 * MB),
            ],
            {},
            2 * (10e-6 + WIRE),
        ),
        # What comes is unpacked and packed before it goes on.
        (
            [
                message(0, 0, 1, 200 * MB, unpacked=True),
                forwarded(1, 1, 0, 200 * MB, packed=True),
            ],
            {},
            2 * (10e-6 + WIRE) + 2 * PACK,
        ),
        # A forward from its place waits for the unpack.
        (
            [
                message(0, 0, 1, 200 * MB, unpacked=True),
                forwarded(1, 1, 0, 200 * MB),
            ],
            {},
            2 * (10e-6 + WIRE) + PACK,
        ),
        # Two devices, a NIC each, or one for both.
        (
            [message(0, 0, 2, 50 * MB), message(0, 1, 3, 50 * MB)],
            {},
            10e-6 + WIRE,
        ),
        (
            [message(0, 0, 2, 50 * MB), message(0, 1, 3, 50 * MB)],
            {"nics_per_node": 1},
            2 * (10e-6 + WIRE),
        ),
        # To one place of two nodes, or to two.
        (
            [message(0, 0, 2, 50 * MB), message(0, 1, 4, 50 * MB)],
            {"pxn": True},
            2 * (10e-6 + WIRE),
        ),
        (
            [message(0, 0, 2, 50 * MB), message(0, 1, 5, 50 * MB)],
            {"pxn": True},
            10e-6 + WIRE,
        ),
        # Each wave is launched.
        (
            [message(wave, 0, 1, 200 * MB) for wave in range(2)],
            {"launch_us": 5},
            2 * (15e-6 + WIRE),
        ),
        # Half of a port by two channels.
        (
            [message(0, 0, 2, 50 * MB)],
            {"channels_per_peer": 2, "inter_channel_GBps": 12.5},
            10e-6 + 2 * WIRE,
        ),
        (
            [message(0, 0, 1, 206 * MB)],
            {"channels_per_peer": 10},
            10e-6 + 2 * WIRE,
        ),
        # Two halves of a port at once, and three, which take their turns.
        (
            [message(0, 0, to, 50 * MB) for to in (2, 4)],
            {"channels_per_peer": 2, "inter_channel_GBps": 12.5},
            10e-6 + 2 * WIRE,
        ),
        (
            [message(0, 0, to, 50 * MB) for to in (2, 4, 6)],
            {"channels_per_peer": 2, "inter_channel_GBps": 12.5},
            10e-6 + 3 * WIRE,
        ),
        # Two devices of a NIC at once, where a pair does not fill it.
        (
            [message(0, 0, 2, 50 * MB), message(0, 1, 3, 50 * MB)],
            {
                "channels_per_peer": 2,
                "inter_channel_GBps": 12.5,
                "nics_per_node": 1,
            },
            10e-6 + 2 * WIRE,
        ),
        # The last link that fits.
        (
            [message(0, 0, 2, 50 * MB)],
            {
                "links": [
                    {"from": 0, "to": 2, "GBps": 5},
                    {"from": "node:0", "to": 2, "GBps": 25},
                    {"from": 2, "to": 0, "GBps": 1},
                ]
            },
            10e-6 + 2 * WIRE,
        ),
        # A group ends with its last message; the next waits for both ends.
        (
            [
                message(0, 0, 1, 200 * MB),
                message(0, 1, 0, 100 * MB),
                message(1, 1, 2, 50 * MB),
            ],
            {},
            2 * (10e-6 + WIRE),
        ),
    ],
)
def test_seconds(messages, more, seconds):
    assert seconds_of(messages, CLUSTER | more) == pytest.approx(
        seconds, rel=1e-12
    )


@pytest.mark.parametrize(
    ("copies", "seconds"),
    [
        # Between the groups, at the end, and of others.
        ([(1, 1, 200 * MB, False)], 2 * (10e-6 + WIRE) + PACK),
        ([(2, 1, 200 * MB, False)], 2 * (10e-6 + WIRE) + PACK),
        ([(0, 5, 200 * MB, False)], 2 * (10e-6 + WIRE)),
        # Before the first group and between them.
        (
            [(0, 1, 200 * MB, False), (1, 1, 200 * MB, False)],
            2 * (10e-6 + WIRE) + 2 * PACK,
        ),
        # Beside a group that takes longer, or not as long as they do; the next
        # waits.
        ([(0, 1, 200 * MB, True), (1, 1, 200 * MB, True)], 2 * (10e-6 + WIRE)),
        ([(0, 1, 2000 * MB, True)], 10e-6 + WIRE + 5e-6 + 2e-3),
        # After what is copied before the group.
        (
            [(0, 1, 200 * MB, False), (0, 1, 2000 * MB, True)],
            PACK + 10e-6 + WIRE + 5e-6 + 2e-3,
        ),
    ],
)
def test_copies(copies, seconds):
    messages = [
        message(0, 0, 1, 200 * MB),
        message(1, 0, 1, 200 * MB),
    ]
    assert seconds_of(messages, CLUSTER, copies) == pytest.approx(
        seconds, rel=1e-12
    )
