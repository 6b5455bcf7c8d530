#!/usr/bin/env bash
# bench/gpu/run_all.sh STAGE
#
# One stage of the measurements on a machine with a GPU, each below 9 minutes:
# build kernels plans flat processes kill waves rates live. What a stage finds goes to
# $OUT/STAGE.jsonl (default build-gpu/out), what it prints to $OUT/STAGE.log;
# bench/gpu/report.py turns the folder into tables. bench/gpu/pack.sh, run before
# on a machine with the compiler, makes what has to be carried. Without a GPU a
# stage says so and ends well.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ $# -ne 1 ] || [ "$1" = --help ]; then
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  [ $# -eq 1 ] && exit 0 || exit 2
fi
out=${OUT:-$root/build-gpu/out}
mkdir -p "$out"
timeout 540 python3 "$root/bench/gpu/stages.py" "$1" --out "$out" 2>&1 |
  tee "$out/$1.log"
