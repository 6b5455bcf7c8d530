"""One process of an elastic job: a GPT, or a mixture of experts, that trains
while processes come and go.

python examples/elastic_gpt/train.py HOST:PORT --processes 4 --steps 100

Start it as many times as --processes says, and more later: those join while the
others train. launch.py does so, 4 -> 6 -> 3 -> 4 processes.
"""

import os
import sys
import time
import warnings
from pathlib import Path

import dynatrain
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import moe  # noqa: E402
import trainer  # noqa: E402
from record import Recorder  # noqa: E402
from scripted import Script, options_of  # noqa: E402

MODELS = {"gpt": trainer.build, "moe": moe.build}
FLAT = {"mode": "flat", "granularity": "tensor", "staging": "4MiB"}


def options():
    parser = options_of(__doc__)
    parser.add_argument("--model", choices=MODELS, default="gpt")
    parser.add_argument("--rest", type=float, default=0, metavar="SECONDS")
    parser.add_argument(
        "--flat", action="store_true", help="no room for both worlds"
    )
    return parser.parse_args()


def main():
    args = options()
    torch.set_num_threads(1)
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0:
        # torchrun has started it again: it joins, as any other.
        args.processes = 1
    job = dynatrain.Job(
        args.store,
        MODELS[args.model],
        layout=args.layout,
        processes=args.processes,
        launch=args.launch,
        timeout=args.timeout,
        snapshots=args.snapshots,
        trace=args.trace,
        memory=FLAT if args.flat else {},
    )
    recorder, script = Recorder(args.record), Script(args.script)
    with job:
        recorder.joined(job)
        while (state := job.state).step < args.steps:
            if script.follow(job, state.step):
                break
            try:
                loss = state.training.step(state.samples, state.step + 1)
            except RuntimeError as error:
                if not job.recover(error):
                    break
                continue
            state.step += 1
            time.sleep(args.rest)
            world = job.world
            print(
                f"step {state.step} epoch {world.epoch} rank {world.rank} of "
                f"{world.size} loss {loss!r}",
                flush=True,
            )
            if not recorder.boundary(job, state.step):
                print(f"left after step {state.step}", flush=True)
                break


if __name__ == "__main__":
    warnings.simplefilter("default", dynatrain.JobWarning)
    main()
    # Gloo's threads may still ask for Python, which would end before them.
    sys.stdout.flush()
    os._exit(0)
