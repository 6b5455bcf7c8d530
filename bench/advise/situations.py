#!/usr/bin/env python3
"""What dt-advise says in situations that others have published.

    bench/advise/situations.py [--bin build/bin] [--only NAME...] [--check]
                               [--no-table] [--json FILE]

One row per situation: the layout advised, its predicted throughput beside that
of the published or the even choice (same model of time), and the bytes and
seconds of the transition, compiled. --check also compiles the advised change
for a model with the same layers, heads and experts but narrow matrices, moves
it in this process and compares every byte; with --no-table only that is done.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "Pipelines"))

from plan_tools import Tools, print_closing_line  # noqa: E402

STATE = {"param": "bf16", "master": "f32", "exp_avg": "f32",
         "exp_avg_sq": "f32"}  # fmt: skip
# HotSPa's 32B (PKU-DAIR/Hetu, llama_hot_switch.sh): 60 layers, 64 heads.
LLAMA_32B = {
    "model_type": "llama", "hidden_size": 6656, "intermediate_size": 17920,
    "num_hidden_layers": 60, "num_attention_heads": 64, "vocab_size": 30592,
}  # fmt: skip
# GPT-2 XL, as FusionLLM trains it.
GPT2_XL = {
    "model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25,
    "n_positions": 1024, "vocab_size": 50257,
}  # fmt: skip
A800 = {"memory": "80GiB", "TFLOPs": 312, "memory_GBps": 2000,
        "intra_node_GBps": 200, "inter_node_GBps": 25}  # fmt: skip


def model(name):
    return json.loads((ROOT / f"examples/models/{name}.json").read_text())


def job(config, nodes, layout, batch, lost=(), **more):
    """A job on A800s, eight per node, from which nodes are lost."""
    cluster = {"devices": nodes * 8, **A800, **more.pop("cluster", {})}
    return {
        "model": config, "state": STATE, "gradients": "f32",
        "cluster": cluster, "layout": layout, "batch": batch,
        "lost": [f"node:{node}" for node in lost],
        "constraints": {"reserve": "4GiB", **more.pop("constraints", {})},
    }  # fmt: skip


def sizes(tp, pp, dp, **more):
    return {"world": tp * pp * dp, "tp": tp, "pp": pp, "dp": dp, **more}


def pretraining(samples, sequence=4096):
    return {"global": samples, "sequence": sequence}


def far_links(sites=3, per_site=16):
    """10 Gb/s inside a site, 8 Mb/s to 1 Gb/s between sites, as FusionLLM."""
    between = [[0, 0.001, 0.125], [0.001, 0, 0.0125], [0.125, 0.0125, 0]]
    devices = [(n * 7) % (sites * per_site) for n in range(sites * per_site)]
    site = [place // per_site for place in devices]
    return [
        [1.25 if a == b else between[a][b] for b in site] for a in site
    ]  # fmt: skip


QWEN = sizes(4, 4, 8, ep=8, etp=1, zero=1, pp_layers=[24, 23, 23, 24])
L70 = sizes(8, 4, 4, zero=1)
KEEP70 = {"tp": 8, "pp": 4}
KEEPQ = {"tp": 4, "pp": 4, "ep": 8, "etp": 1}


def hotspa(name, layout, sequence, published):
    batch = pretraining(4096 * 64 // sequence, sequence)
    case = job(LLAMA_32B, 4, layout, batch,
               constraints={"tp_inside_node": False})  # fmt: skip
    return name, case, published | {"tp_inside_node": False}


def tenplex(name, config, published):
    return (
        name,
        job(model(config), 2, sizes(4, 2, 1), pretraining(256, 1024)),
        published | {"world": 16},
    )


def situations():
    """[(name, job, constraints of the published or even choice)]"""
    l70, qwen = model("llama3-70b"), model("qwen3-235b-a22b")
    batch = pretraining(1024)
    fusion = job(GPT2_XL, 6, sizes(1, 48, 1), pretraining(96, 1024))
    fusion["cluster"] |= {"memory": "24GiB", "TFLOPs": 80,
                          "measured_GBps": far_links()}  # fmt: skip
    fusion["constraints"] = {"reserve": "1GiB"}
    return [
        ("16 nodes lose one, 70B", job(l70, 16, L70, batch, [3]), KEEP70),
        ("16 nodes lose two, 70B", job(l70, 16, L70, batch, [3, 9]), KEEP70),
        ("16 nodes lose one, 235B", job(qwen, 16, QWEN, batch, [3]), KEEPQ),
        ("16 nodes lose two, 235B", job(qwen, 16, QWEN, batch, [3, 9]), KEEPQ),
        (
            "ElasWave 96 -> 80, 70B",
            job(l70, 12, sizes(8, 4, 3, zero=1), pretraining(960), [0, 11]),
            KEEP70,
        ),
        (
            "8 -> 7 nodes, 70B",
            job(l70, 8, sizes(8, 4, 2, zero=1), pretraining(512), [5]),
            KEEP70,
        ),
        hotspa("HotSPa 32K -> 4K", sizes(16, 2, 1), 4096,
               {"tp": 2, "pp": 4, "dp": 4}),
        hotspa("HotSPa 4K -> 16K", sizes(2, 4, 4), 16384,
               {"tp": 8, "pp": 2, "dp": 2}),
        hotspa("HotSPa 16K -> 32K", sizes(8, 2, 2), 32768,
               {"tp": 16, "pp": 2, "dp": 1}),
        tenplex("Tenplex D2, 1.3B", "gpt3-1.3b", {"tp": 4, "pp": 2, "dp": 2}),
        tenplex("Tenplex M8, 2.7B", "gpt3-2.7b", {"tp": 8, "pp": 2, "dp": 1}),
        tenplex("Tenplex P4, 6.7B", "gpt3-6.7b", {"tp": 4, "pp": 4, "dp": 1}),
        ("FusionLLM 48 devices, 8 Mb/s to 10 Gb/s", fusion,
         {"tp": 1, "pp": 48, "dp": 1}),
    ]  # fmt: skip


def narrow(config):
    """Layers, heads and experts as they are, matrices as narrow as can be."""
    out = dict(config)
    if config["model_type"] == "gpt2":
        return out | {"n_embd": 2 * config["n_head"], "n_inner": 64,
                      "n_positions": 16, "vocab_size": 500}  # fmt: skip
    out |= {"hidden_size": 16, "head_dim": 2, "vocab_size": 500}
    for key, value in (("intermediate_size", 64), ("moe_intermediate_size", 8)):
        if key in config:
            out[key] = value
    return out


class Runner:
    def __init__(self, folder):
        self.tools = Tools(folder)
        self.work = Path(tempfile.mkdtemp(prefix="dt-situations-"))

    def advise(self, case, *options):
        """Rows of the job, or None where nothing fits."""
        path = self.work / "job.json"
        path.write_text(json.dumps(case))
        done = self.tools.start("dt-advise", path, "--json", *options)
        if done.returncode:
            if "no layout of" in done.stderr:
                return None
            sys.exit(f"dt-advise: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def published(self, case, constraints):
        fixed = dict(case)
        keys = {key: [value] if isinstance(value, int)
                and not isinstance(value, bool) else value
                for key, value in constraints.items()}  # fmt: skip
        fixed["constraints"] = (
            case["constraints"] | keys | {"uneven_layers": False}
        )
        rows = self.advise(fixed)
        if rows is None:  # the model's layers may not divide
            fixed["constraints"]["uneven_layers"] = True
            rows = self.advise(fixed)
        return rows[0] if rows else None

    def check(self, case, row, folder):
        """Moves the change of a narrow model; None, or what went wrong."""
        request = json.loads((folder / row["request"]).read_text())
        request["model"] = narrow(case["model"])
        request["vocab_multiple"] = 1
        request["memory"] = {"staging": "1MiB", "mode": "rollback"}
        for side in ("source", "destination"):
            request[side]["bucket_size"] = 3000
        path, plan = self.work / "narrow.json", self.work / "narrow.dtplan"
        path.write_text(json.dumps(request))
        self.tools.compile(path, plan)
        self.tools.output("dt-plan", "verify", plan)
        found = self.tools.json("dt-run", plan, "--check", "--json")
        if not found["ok"] or not found["bytes_checked"]:
            return f"{found['mismatches']} bytes differ"
        return None


def text_of(row, published):
    gain = row["tokens_per_s"] / published["tokens_per_s"] if published else 0
    layout = row["name"] + ("" if row["layout"]["pp"] == 1 else " ") + (
        "" if row["layout"]["pp"] == 1
        else "/".join(map(str, row["layout"]["pp_layers"]))
    )  # fmt: skip
    if len(layout) > 60:
        layout = row["name"] + " uneven"
    other = published["name"] if published else "does not fit"
    against = f"{gain:.2f} x {other}" if published else other
    return (
        f"{layout} | {row['tokens_per_s']:,.0f} | {against} | "
        f"{row['moved_bytes'] / 1e9:,.1f} GB | {row['transition_s']:.3g} s | "
        f"{row['memory_bytes'] / 2**30:.1f} GiB"
    )


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "bin")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-table", action="store_true")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def run(options):
    runner = Runner(options.bin)
    passed = failed = 0
    lines = []
    for name, case, constraints in situations():
        if options.only and not any(word in name for word in options.only):
            continue
        start = time.monotonic()
        folder = runner.work / f"advice-{len(lines)}"
        compiled = 0 if options.no_table else 1
        rows = runner.advise(case, "-o", folder, "--compile", compiled)
        row, problem = rows[0], None
        if not options.no_table:
            published = runner.published(case, constraints)
            print(f"{name} | {text_of(row, published)}", flush=True)
            lines.append({"situation": name, "row": row,
                          "published": published})  # fmt: skip
        if options.check or options.no_table:
            problem = runner.check(case, row, folder)
            seconds = time.monotonic() - start
            print(f"{name}: {problem or 'every byte equal'} ({seconds:.1f} s)",
                  file=sys.stderr)  # fmt: skip
        passed += problem is None
        failed += problem is not None
    if options.json:
        options.json.write_text("\n".join(map(json.dumps, lines)) + "\n")
    subprocess.run(["rm", "-rf", runner.work], check=False)
    return print_closing_line(passed, failed)


if __name__ == "__main__":
    sys.exit(run(parse_arguments()))
