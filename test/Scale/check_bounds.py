"""Checks what `dt-plan inspect --json` says on stdin: no more bytes cross wires
or nodes than the layouts make necessary, and staging keeps its limit."""

import json
import sys


def main():
    plan = json.load(sys.stdin)
    moved, memory = plan["bytes"], plan["memory"]
    print(moved, memory)
    assert moved["local"] + moved["wire"] == moved["destination"]
    assert moved["wire"] == moved["wire_lower_bound"] > 0
    assert moved["inter_node"] == moved["inter_node_lower_bound"]
    assert memory["staging_peak"] <= memory["staging_limit"]


if __name__ == "__main__":
    main()
