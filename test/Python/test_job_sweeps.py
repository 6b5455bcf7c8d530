"""What a job's last switch removes of those who did not live to do it, and
what it leaves alone."""

import json

from dynatrain.job_status import sweep
from processes import dist


def test_what_the_dead_have_left_goes():
    store = dist.HashStore()
    record = {"world": "3.a", "target": "3.a"}
    store.set("j/job", json.dumps(record))
    world = json.dumps({"members": ["a", "bb"]})
    stays = [
        "j/job",
        "j/world/3.a",
        "j/alive/a",
        "j/status/bb",
        # Of the attempt that is about to be opened.
        "j/world/4.a",
        "j/4/ready",
        "other/alive/b",
    ]
    goes = [
        "j/world/3.b",
        "j/world/2.a",
        "j/alive/b",
        "j/status/b",
        "j/3/done",
        "j/ahead/2/x",
    ]
    for key in [*stays[1:], *goes]:
        store.set(key, world if "/world/" in key else "1")
    sweep(store, "j", 3)
    left = [key for key in [*stays, *goes] if store.check([key])]
    assert left == stays


def test_a_job_without_worlds_has_nothing_swept_but_the_attempt():
    store = dist.HashStore()
    for key in ("j/job", "j/alive/a", "j/1/ready"):
        store.set(key, "{}")
    sweep(store, "j", 1)
    assert store.check(["j/job", "j/alive/a"])
    assert not store.check(["j/1/ready"])
