"""What the programs of elastic examples are told: their options, and what the
first process of each world is to ask for, out of a file."""

import argparse
import json


def options_of(doc):
    """A parser of the options that they have in common; doc: the program's."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("store", metavar="HOST:PORT")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--launch", default="start")
    parser.add_argument("--layout", type=json.loads)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--snapshots", type=int, default=0, metavar="STEPS")
    parser.add_argument("--record", help="folder for what each switch moved")
    parser.add_argument("--script", help="what to ask for, in which world")
    parser.add_argument("--trace", help="folder for what switches take")
    return parser


class Script:
    """What a world's first process asks for once it has trained there for some
    steps: {"EPOCH": {"after": 3, "leave": [..], "layout": .., "end": true}}."""

    def __init__(self, path):
        self.path, self.entered = path, (0, 0)

    def follow(self, job, step):
        """Whether all is done after this step."""
        if not self.path:
            return False
        if self.entered[0] != job.world.epoch:
            self.entered = job.world.epoch, step
        with open(self.path) as file:
            wish = json.load(file).get(str(job.world.epoch))
        if wish is None or step < self.entered[1] + wish["after"]:
            return False
        if job.world.rank == 0 and not wish.get("end"):
            job.request(leave=wish.get("leave", []), layout=wish.get("layout"))
        return wish.get("end", False)
