#!/usr/bin/env python3
"""What `pip install .` costs: CPU seconds, and which files they go to.

    bench/build_cost.py [--slowest N] [--keep FOLDER]

Installs a copy of this checkout, from nothing and without ccache, into a folder
that is thrown away (or kept: --keep), with the Python that runs this. Prints
one line of JSON: the machine, CPU and wall seconds of the whole command, the
CPU seconds of the longest chain of files that wait for each other, what was
built, and the slowest files. CPU seconds, since other work may share the
machine; an idle one with two cores takes about half of them, and never less
than the chain.

Exits with 1 above MOST_CPU or MOST_CHAIN seconds: two cores have to be done
within two minutes.
"""

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from plan_quality import machine

ROOT = Path(__file__).resolve().parent.parent
MOST_CPU = 220
MOST_CHAIN = 110

# A compiler that also notes what it has made, and the time that it took. Who
# asks for no file, but for a version say, is not noted.
COMPILER = """#!/bin/bash
{compiler} "$@"
code=$?
while [ $# -gt 1 ]; do
  [ "$1" = -o ] && out=$2
  shift
done
if [ -n "$out" ]; then
  {{ echo "$out"; times; }} >{notes}/"$EPOCHREALTIME.$$"
fi
exit $code
"""


def write_compiler(wrapper, compiler, notes):
    """One that runs `compiler` and writes into the folder `notes`."""
    words = shlex.join(shlex.split(compiler))
    wrapper.write_text(
        COMPILER.format(compiler=words, notes=shlex.quote(str(notes)))
    )
    wrapper.chmod(0o755)


def seconds_of(times):
    """Of a line of bash's `times`: user and system, as 1m2.345s."""
    return sum(
        60 * float(minutes) + float(seconds)
        for minutes, seconds in re.findall(r"(\d+)m([\d.]+)s", times)
    )


def compiled(folder):
    """{output: CPU seconds} of what the compiler above has noted."""
    found = {}
    for note in folder.iterdir():
        # Of bash itself, and of what it has run.
        output, _, times = note.read_text().splitlines()
        found[output] = found.get(output, 0) + seconds_of(times)
    return found


def longest_chain(graph, seconds):
    """CPU seconds of the longest chain in what `ninja -t graph` prints, where
    files take `seconds` by their path and all others nothing."""
    label = dict(re.findall(r'^"(\w+)" \[label="([^"]*)"', graph, re.M))
    inputs = {}
    for source, target in re.findall(r'^"(\w+)" -> "(\w+)"', graph, re.M):
        inputs.setdefault(target, []).append(source)

    @cache
    def end(node):
        before = max(map(end, inputs.get(node, ())), default=0)
        return before + seconds.get(label.get(node), 0)

    return max(map(end, label), default=0)


def copy_checkout(folder):
    """The files that git tracks, as they are now."""
    listed = subprocess.check_output(
        ["git", "-C", ROOT, "ls-files", "-z"], text=True
    )
    for name in filter(None, listed.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)


def install(source, folder):
    """Of `pip install`: its output, CPU and wall seconds, {file: seconds}."""
    notes, wrapper = folder / "notes", folder / "c++"
    notes.mkdir()
    write_compiler(wrapper, os.environ.get("CXX", "c++"), notes)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-v", "--no-deps"]
        + ["--no-build-isolation", "--target", folder / "site", source],
        env=os.environ | {"CXX": str(wrapper), "CCACHE_DISABLE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, cpu, wall, compiled(notes)


def measure(folder, slowest):
    source = folder / "checkout"
    copy_checkout(source)
    said, cpu, wall, seconds = install(source, folder)
    build = next(source.glob("build-*"))
    graph = subprocess.check_output(
        ["ninja", "-C", build, "-t", "graph", "dynatrain_C"]
        + ["dt-opt"] * (build / "bin" / "dt-opt").exists(),
        text=True,
    )
    order = sorted(seconds.items(), key=lambda row: -row[1])
    return {
        "machine": machine(),
        "cpu_s": round(cpu, 1),
        "wall_s": round(wall, 1),
        "chain_s": round(longest_chain(graph, seconds), 1),
        "said": re.search(r"dynatrain: built .*", said)[0],
        "slowest": {name: round(took, 1) for name, took in order[:slowest]},
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--slowest", type=int, default=8)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True)
        row = measure(options.keep.resolve(), options.slowest)
    else:
        with tempfile.TemporaryDirectory(prefix="dynatrain-build-") as folder:
            row = measure(Path(folder), options.slowest)
    print(json.dumps(row))
    return int(row["cpu_s"] > MOST_CPU or row["chain_s"] > MOST_CHAIN)


if __name__ == "__main__":
    sys.exit(main())
