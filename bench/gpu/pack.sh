#!/usr/bin/env bash
# bench/gpu/pack.sh [FOLDER]
#
# Gathers in FOLDER (default .deps, which git ignores) what a machine with a GPU
# needs beside the checkout, where it has no network and no code generator:
# headers, the plan format's generated header, zstd, which reads compressed plans,
# GoogleTest's sources, and plans.
# Run it where build/bin/dt-opt is, or name that build folder by DT_BUILD. Some
# 10 MB.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$root/.deps}
build=${DT_BUILD:-$root/build}
mkdir -p "$folder/include" "$folder/lib" "$folder/plans"
for header in flatbuffers nlohmann CLI xxhash.h zstd.h zstd_errors.h; do
  cp -r "/usr/include/$header" "$folder/include/"
done
cp "$build/runtime/format/plan_generated.h" "$folder/include/"
# By the names that a linker and a program look for.
zstd=$(sed -n 's/^DT_ZSTD_LIBRARY:FILEPATH=//p' "$build/CMakeCache.txt")
for name in libzstd.so libzstd.so.1; do
  cp -L "$zstd" "$folder/lib/$name"
done
cp -r /usr/src/googletest "$folder/"
for request in qwen3-30b-slice gpt3-1.3b-full gpt3-1.3b-flat small-waves; do
  "$build/bin/dt-opt" "$root/bench/gpu/$request.json" \
    -o "$folder/plans/$request.dtplan"
done
du -sh "$folder"
