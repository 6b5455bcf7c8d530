"""What one rank sends another: rate of large messages, time of small ones.

    torchrun --nproc-per-node=2 bench/gpu/pair_rates.py [--backend nccl]
                                [--bytes 268435456] [--repeat 20]

Rank 0 sends, rank 1 receives. Prints one line of JSON on rank 0. By how many
channels is the environment's: NCCL_MAX_P2P_NCHANNELS=1 for one. On two nodes,
one process each, it is the rate between them.
"""

import argparse
import json
import platform
import statistics
import sys
import time

import torch
import torch.distributed as dist

SMALL = 8


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--backend", default="nccl", choices=["nccl", "gloo"])
    parser.add_argument("--bytes", type=int, default=256 << 20)
    parser.add_argument("--repeat", type=int, default=20)
    return parser.parse_args()


def seconds_of(size, repeat, place):
    """The median of `repeat` messages, each waited for."""
    data = torch.zeros(size, dtype=torch.uint8, device=place)
    move = dist.send if dist.get_rank() == 0 else dist.recv
    seconds = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        move(data, 1 - dist.get_rank())
        if place.type == "cuda":
            torch.cuda.synchronize(place)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])  # the first one connects


def versions():
    found = {"torch": torch.__version__}
    if torch.cuda.is_available():
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def main():
    options = parse_arguments()
    dist.init_process_group(options.backend)
    if dist.get_world_size() != 2:
        sys.exit("expected two ranks")
    place = torch.device("cpu")
    if options.backend == "nccl":
        # Two processes of one host, or one on each of two.
        count = torch.cuda.device_count()
        place = torch.device("cuda", dist.get_rank() % count)
        torch.cuda.set_device(place)
    hosts = [None, None]
    dist.all_gather_object(hosts, platform.node())
    large = seconds_of(options.bytes, options.repeat, place)
    small = seconds_of(SMALL, options.repeat, place)
    if dist.get_rank() == 0:
        row = {
            "bench": "pair-rate",
            "level": "intra" if hosts[0] == hosts[1] else "inter",
            "bytes": options.bytes,
            "GBps": options.bytes / large / 1e9,
            "small_us": small * 1e6,
            "versions": versions(),
        }
        print(json.dumps(row), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
