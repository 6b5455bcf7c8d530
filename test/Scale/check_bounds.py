"""Checks what `dt-plan inspect --json` says on stdin: no more bytes cross wires
or nodes than the layouts make necessary, and staging keeps its limit. With
arguments also: predicted time is at most so many times its lower bound, and
there are at most so many messages."""

import json
import sys


def main():
    plan = json.load(sys.stdin)
    moved, memory = plan["bytes"], plan["memory"]
    print(moved, memory)
    kept = moved["local"] + moved.get("in_place", 0)
    assert kept + moved["wire"] == moved["destination"]
    assert moved["wire"] == moved["wire_lower_bound"] > 0
    assert moved["inter_node"] == moved["inter_node_lower_bound"]
    assert memory["staging_peak"] <= memory["staging_limit"]
    if len(sys.argv) > 1:
        most_time, most_messages = float(sys.argv[1]), int(sys.argv[2])
        time, messages = plan["time"], plan["counts"]["messages"]
        print(time, messages)
        assert time["predicted_s"] <= most_time * time["lower_bound_s"]
        assert messages <= most_messages


if __name__ == "__main__":
    main()
