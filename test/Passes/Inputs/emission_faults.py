"""Compiles requests with a compiler that makes one change between the proof and
the file, for each change that it knows: none may leave a file.

usage: emission_faults.py COMPILER VERIFIER FOLDER REQUEST...

Each change is tried on the requests, in both memory modes and by tensor with
storages that tensors share, until one has a place for it. Prints who refused
what, and "N faults, none left a file".
"""

import json
import os
import subprocess
import sys
from pathlib import Path

VARIANTS = {
    "flat": {"mode": "flat"},
    "rollback": {"mode": "rollback"},
    "tensor": {"mode": "flat", "granularity": "tensor", "staging": "64MiB"},
}


def variants(folder, paths):
    """The requests with every kind of memory, as files of the folder."""
    for path in map(Path, paths):
        for name, memory in VARIANTS.items():
            request = json.loads(path.read_text())
            request["model"] = str((path.parent / request["model"]).resolve())
            request["memory"] |= memory
            if name == "tensor":
                shared = {"match": "*attention*", "storage": "attention"}
                request["rules"] = [*request.get("rules", []), shared]
            out = folder / f"{path.stem}-{name}.json"
            out.write_text(json.dumps(request))
            yield out


def compile_with(compiler, fault, request, plan):
    plan.unlink(missing_ok=True)
    return subprocess.run(
        [compiler, request, "-o", plan, "--mlir-disable-threading"],
        env={**os.environ, "DT_EMISSION_FAULT": fault},
        capture_output=True,
        text=True,
        check=False,
    )


def refusal(done):
    """The first error of the compiler."""
    for line in done.stderr.splitlines():
        _, found, text = line.partition("error: ")
        if found:
            return text
    sys.exit(f"no error in: {done.stderr}")


def check_unchanged(compiler, verifier, requests, plan):
    """Without a fault there is a file, with its stamp."""
    for request in requests:
        done = compile_with(compiler, "", request, plan)
        if done.returncode != 0 or "fault" in done.stderr:
            sys.exit(f"{request.name}: {done.stderr}")
        subprocess.run(
            [verifier, "verify", plan], check=True, stdout=sys.stderr
        )
        said = subprocess.run(
            [verifier, "inspect", plan],
            capture_output=True,
            text=True,
            check=True,
        )
        if (
            "coverage proved" not in said.stdout
            or "verifier" not in said.stdout
        ):
            sys.exit(f"{request.name}: no stamp")


def main():
    compiler, verifier, folder, *paths = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "faulty.dtplan"
    requests = list(variants(folder, paths))
    check_unchanged(compiler, verifier, requests, plan)
    names = subprocess.run(
        [compiler],
        env={**os.environ, "DT_EMISSION_FAULT": "list"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in names:
        for request in requests:
            done = compile_with(compiler, name, request, plan)
            if f"fault '{name}'" in done.stderr:
                break
        else:
            sys.exit(f"no request has a place for '{name}'")
        left = [path.name for path in folder.iterdir() if "faulty" in path.name]
        if done.returncode == 0 or left:
            sys.exit(f"'{name}' in {request.name} leaves {left}: {done.stderr}")
        print(f"{name}: {refusal(done)}")
    print(f"{len(names)} faults, none left a file")


if __name__ == "__main__":
    main()
