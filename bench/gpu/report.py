#!/usr/bin/env python3
"""Tables for docs/Performance.md from what run_all.sh has left in a folder.

    bench/gpu/report.py FOLDER [--calibration FILE]

A stage that was skipped or failed is named with its reason; no figure is made
up for it. With --calibration what the stages waves and rates have found is also
written to FILE, which a request names as `cluster.calibration`.
"""

import argparse
import json
import sys
from pathlib import Path

STAGES = ["build", "kernels", "plans", "flat", "processes", "kill", "waves"]
STAGES += ["rates", "live"]
#: How `dt-run` and worlds put waves on a GPU.
OUR_WAY = "on a stream, blocking calls"


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


def flat(rows):
    lines = [
        [Path(row["case"]).stem]
        + [
            f"{row[name + '_bytes'] / 2**30:.2f} GiB"
            for name in ("state", "limit", "taken", "pages", "staging")
        ]
        + [f"{row['median_s'] * 1e3:.1f} ms"]
        for row in of(rows, "gpu-flat")
    ]
    heads = ["case", "state", "limit", "taken", "pages", "staging", "time"]
    return table(heads, lines)


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


def rates(rows):
    lines = [
        [row["level"], row["channels"], row["bytes"]]
        + [f"{row['GBps']:.1f}", f"{row['small_us']:.1f} us"]
        for row in of(rows, "pair-rate")
    ]
    heads = ["level", "channels", "bytes", "GB/s", "8 bytes"]
    return table(heads, lines)


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
    "flat": flat,
    "processes": processes,
    "kill": kill,
    "waves": waves,
    "rates": rates,
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


def measured_pairs(rows):
    """Rates, channels and latency of a request's cluster, as far as there are
    rows of them."""
    out = {}
    pairs = of(rows, "pair-rate")
    for level in ("intra", "inter"):
        own = {r["channels"]: r for r in pairs if r["level"] == level}
        if 1 not in own or len(own) < 2:
            continue
        most = max(own)
        out[f"{level}_node_GBps"] = round(own[most]["GBps"], 2)
        out[f"{level}_channel_GBps"] = round(own[1]["GBps"], 2)
        out["channels_per_peer"] = most
        latency = round(own[most]["small_us"], 2)
        out["latency_us"] = max(latency, out.get("latency_us", 0))
    return out


def calibration(folder):
    """What a request may name as `cluster.calibration`, from the stages waves
    and rates."""
    found = load(folder)
    waves, rates = found.get("waves", []), found.get("rates", [])
    cluster = measured_pairs(rates)
    for row in of(waves, "nccl-wave"):
        if row["way"] == OUR_WAY:
            cluster["launch_us"] = round(row["wave_us"], 2)
    if "latency_us" in cluster and "launch_us" in cluster:
        # A message by itself is launched too.
        latency = cluster["latency_us"] - cluster["launch_us"]
        cluster["latency_us"] = round(max(0.0, latency), 2)
    if not cluster:
        raise ValueError(f"{folder}: neither waves nor rates were measured")
    about = [row for row in [*rates, *waves] if "gpu" in row][0]
    versions = {}
    for row in rates:
        versions.update(row.get("versions", {}))
    return {
        "machine": {"gpu": about["gpu"], "host": about.get("host", "")},
        "versions": versions,
        "command": f"bench/gpu/report.py {folder} --calibration",
        "cluster": cluster,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--calibration", type=Path, metavar="FILE")
    options = parser.parse_args()
    print(report(options.folder), end="")
    if options.calibration:
        try:
            text = json.dumps(calibration(options.folder), indent=2)
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        options.calibration.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
