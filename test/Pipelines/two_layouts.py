"""Writes two requests of one small model for as many ranks as asked.

Usage: two_layouts.py WORLD FIRST SECOND

From the same 8-way tensor parallelism: the first goes to 4-way, the second from
two pipeline stages to 2-way.
"""

import json
import sys


def request(world, source, destination):
    names = [f"layers.{i}.{part}" for i in range(8) for part in ("up", "down")]
    tensors = [
        {"name": name, "shape": [256, 64], "dtype": "BF16"} for name in names
    ]

    def side(**axes):
        ranks = axes["tp"] * axes.get("pp", 1)
        return {"world": world, **axes, "dp": world // ranks}

    return {
        "model": {"tensors": tensors},
        "state": {"param": "bf16", "master": "f32"},
        "rules": [
            {"match": "*.up", "tp": 0},
            {"match": "*.down", "tp": 1},
        ],
        "source": side(**source),
        "destination": side(**destination),
        "cluster": {
            "devices_per_node": 8,
            "intra_node_GBps": 200,
            "inter_node_GBps": 25,
            "latency_us": 10,
        },
        "memory": {"staging": "1MiB", "mode": "rollback"},
    }


def main(world, first, second):
    before, after = {"tp": 8}, {"tp": 4}
    with open(first, "w") as file:
        json.dump(request(int(world), before, after), file)
    before, after = {"tp": 8, "pp": 2}, {"tp": 2}
    with open(second, "w") as file:
        json.dump(request(int(world), before, after), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
