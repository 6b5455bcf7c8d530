#!/usr/bin/env python3
"""Tables for docs/Performance.md from what run_all.sh has left in a folder.

    bench/gpu/report.py FOLDER

A stage that was skipped or failed is named with its reason; no figure is made
up for it.
"""

import json
import sys
from pathlib import Path

STAGES = ["build", "kernels", "plans", "processes", "kill", "waves", "live"]


def load(folder):
    """Rows by stage, of the stages that have run."""
    found = {}
    for stage in STAGES:
        path = folder / f"{stage}.jsonl"
        if path.exists():
            lines = path.read_text().splitlines()
            found[stage] = [json.loads(line) for line in lines if line]
    return found


def table(heads, lines):
    text = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    text += ["| " + " | ".join(map(str, line)) + " |" for line in lines]
    return "\n".join(text)


def of(rows, bench):
    return [
        row
        for row in rows
        if row.get("bench") == bench and "skipped" not in row
    ]


def bandwidth(rows):
    lines = [
        [
            Path(row["case"]).stem,
            f"{row['bytes'] / 1e9:.2f} GB",
            f"{row.get('kernel', row)['median_s'] * 1e3:.3f} ms",
            f"{row['device_to_device']['median_s'] * 1e3:.3f} ms",
            f"{row['ratio']:.2f}",
        ]
        for row in of(rows, "gpu-bw")
    ]
    return table(["case", "bytes", "ours", "plain copy", "ratio"], lines)


def processes(rows):
    lines = [
        [
            row["case"],
            " ".join(row["way"]) or "pairs",
            f"{row['seconds'] * 1e3:.1f} ms",
            f"{row['GBps']:.2f}",
            row["mismatches"],
        ]
        for row in of(rows, "nccl-run")
    ]
    return table(["plan", "way", "time", "GB/s", "wrong elements"], lines)


def kill(rows):
    lines = [
        [f"{row['seconds']} s", f"{row['limit_s']} s"]
        + [f"{row['name_it']} of {row['others']}"]
        for row in of(rows, "kill")
    ]
    return table(["until all have ended", "limit", "name the rank"], lines)


def waves(rows):
    lines = [
        [row["way"], row["waves"], row["bytes"], f"{row['wave_us']:.1f} us"]
        for row in of(rows, "nccl-wave")
    ]
    return table(["way", "waves", "bytes", "per wave"], lines)


def live(rows):
    names = ["alone", "beside", "after", "warm_up", "transfer", "commit"]
    lines = [
        ["on" if row["expandable_segments"] else "off"]
        + [f"{row[name + '_s'] * 1e3:.2f} ms" for name in names]
        + [row["mismatches"]]
        for row in of(rows, "live-gpu")
    ]
    heads = ["expandable segments", *names, "wrong elements"]
    return table(heads, lines)


def build(rows):
    lines = [
        [row.get("case", "build"), f"{row['seconds']} s"]
        for row in of(rows, "build") + of(rows, "gpu-tests")
    ]
    return table(["what", "time"], lines)


TABLES = {
    "build": build,
    "kernels": bandwidth,
    "plans": bandwidth,
    "processes": processes,
    "kill": kill,
    "waves": waves,
    "live": live,
}


def report(folder):
    """The tables, as Markdown."""
    found = load(folder)
    parts = []
    for stage in STAGES:
        parts.append(f"### {stage}")
        rows = found.get(stage, [{"skipped": "not run"}])
        gpus = sorted({row["gpu"] for row in rows if "gpu" in row})
        if gpus:
            command = f"`bench/gpu/run_all.sh {stage}`"
            parts.append(f"{command}, {'; '.join(gpus)}.")
        for row in rows:
            for word in ("skipped", "failed"):
                if word in row:
                    what = row.get("bench", stage)
                    parts.append(f"{what}: {word}: {row[word]}")
        if any("bench" in row for row in rows):
            parts.append(TABLES[stage](rows))
    return "\n\n".join(parts) + "\n"


def main():
    if len(sys.argv) != 2 or sys.argv[1] == "--help":
        print(__doc__)
        return 0 if sys.argv[1:] == ["--help"] else 2
    print(report(Path(sys.argv[1])), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
