"""Runs an example several times in the same processes: what it imports costs
more than it does.

    torchrun ... example_runs.py SCRIPT OPTIONS [OPTIONS...]
    example_runs.py SCRIPT OPTIONS [OPTIONS...]

Each of OPTIONS is what one run is given, in one argument. Rank 0 ends what a
run prints with a line of its own, END. Without torchrun there are PROCESSES,
forked from one that has imported what the example imports.
"""

import multiprocessing
import os
import runpy
import shlex
import signal
import sys
from multiprocessing.connection import wait
from pathlib import Path

END = "== end of a run"
PROCESSES = 4

fork = multiprocessing.get_context("fork")


def run_all(run, texts):
    for options in texts:
        run(shlex.split(options))
        if os.environ["RANK"] == "0":
            print(END, flush=True)
    import cpu  # which the example has made known

    cpu.leave()


def share_gloo_thread():
    """One thread that looks for messages a hundred times a second is enough
    for all groups of a process."""
    from torch.distributed import ProcessGroupGloo, distributed_c10d

    devices = [ProcessGroupGloo.create_default_device()]

    class Group(ProcessGroupGloo):
        def __init__(self, store, rank, size, timeout):
            options = ProcessGroupGloo._Options()
            options._devices, options._timeout = devices, timeout
            super().__init__(store, rank, size, options)

    distributed_c10d.ProcessGroupGloo = Group


def rank(number, port, run, texts):
    """One of them, with what torchrun would say."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ |= {
        "RANK": f"{number}",
        "LOCAL_RANK": f"{number}",
        "WORLD_SIZE": f"{PROCESSES}",
        "LOCAL_WORLD_SIZE": f"{PROCESSES}",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": f"{port}",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    share_gloo_thread()
    run_all(run, texts)


def host(pipe):
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipe.send(store.port)
    pipe.recv()  # never: it is ended


def fork_ranks(run, texts):
    """Their exit code; the first that fails ends the others, and so does a
    signal to this process."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    pipe, theirs = fork.Pipe()
    store = fork.Process(target=host, args=(theirs,), daemon=True)
    store.start()
    port = pipe.recv()
    ranks = [
        fork.Process(target=rank, args=(number, port, run, texts), daemon=True)
        for number in range(PROCESSES)
    ]
    for one in ranks:
        one.start()
    running = {one.sentinel: one for one in ranks}
    while running:
        for sentinel in wait(running):
            one = running.pop(sentinel)
            one.join()
            if one.exitcode != 0:
                return 1  # daemons end with this process
    return 0


def main():
    script, *texts = sys.argv[1:]
    sys.path.insert(0, str(Path(script).parent))
    run = runpy.run_path(script)["main"]
    if "RANK" in os.environ:
        run_all(run, texts)
    else:
        sys.exit(fork_ranks(run, texts))


if __name__ == "__main__":
    main()
