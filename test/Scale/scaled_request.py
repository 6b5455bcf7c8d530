"""Prints the request of bench/scale.py for a model and a world.

Usage: scaled_request.py BENCH_FOLDER MODEL WORLD
"""

import json
import sys


def main(bench, model, world):
    sys.path.insert(0, bench)
    from scale import request

    print(json.dumps(request(model, "rollback", int(world))))


if __name__ == "__main__":
    main(*sys.argv[1:])
