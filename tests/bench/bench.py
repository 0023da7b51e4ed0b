# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks, prints one line a figure (name, value, unit), and writes them to a JSON file."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "live"))
import load  # noqa: E402


class CaptureRun(load.LoadRun):
    """Ten seconds of load, kept as the kernel's records."""

    def outputs(self):
        return super().outputs() + ["--raw-capture", self.path("load.gcraw")]


def overhead(args, transport):
    """Cost to the target and of gcause itself."""
    command = [sys.executable, os.path.join(HERE, "overhead.py"), "--gcause", args.gcause, "--python",
               args.python, "--pairs", str(args.pairs), "--seconds", str(args.seconds)]
    figures = json.loads(subprocess.check_output(command + (["--tls"] if transport == "tls" else [])))
    ratios = sorted(figures["target_cpu_ratios"])
    name = transport + "."
    return [
        (name + "target_cpu_added", 100 * (figures["target_cpu_ratio"] - 1), "%"),
        (name + "target_cpu_added_lower_quartile", 100 * (ratios[len(ratios) // 4] - 1), "%"),
        (name + "target_cpu_added_upper_quartile", 100 * (ratios[-1 - len(ratios) // 4] - 1), "%"),
        (name + "target_cpu", 100 * figures["target_cpu_cores"], "% of a core"),
        (name + "gcause_cpu", 100 * figures["gcause_cpu_cores"], "% of a core"),
        (name + "gcause_peak_memory", figures["gcause_peak_bytes"] / 2**20, "MiB"),
        (name + "active_after", figures["active_after_s"], "s"),
    ]


def probes(args):
    """What gcause's pair of probes adds to a collection, and an empty pair at the same instruction."""
    figures = json.loads(subprocess.check_output(
        [sys.executable, os.path.join(HERE, "probe_cost.py"), "--gcause", args.gcause, "--empty", args.empty,
         "--python", args.python]))
    return [
        ("collection_probes_added", figures["gcause_pair_ns"], "ns"),
        ("collection_empty_probes_added", figures["empty_pair_ns"], "ns"),
        ("collection_probes_ratio", figures["ratio"], "times"),
    ]


def pipeline(args):
    """Speed of the replayed pipeline on one core, on records of a live run under load."""
    args.without = []
    seconds, args.seconds = args.seconds, 10
    with tempfile.TemporaryDirectory() as folder:
        run = CaptureRun(args, args.python, "asyncio", "collect-rate", False, folder)
        run.go()
        figures = json.loads(subprocess.check_output(
            ["taskset", "-c", "0", args.pipeline, run.path("load.gcraw"), "5"]))
    args.seconds = seconds
    return [("pipeline_records", figures["records_per_s"], "records/s")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--empty", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--json", required=True)
    args = parser.parse_args()
    figures = overhead(args, "plain") + overhead(args, "tls") + probes(args) + pipeline(args)
    for name, value, unit in figures:
        print("%-40s %14.2f %s" % (name, value, unit))
    with open(args.json, "w") as out:
        json.dump([{"name": name, "value": value, "unit": unit} for name, value, unit in figures], out,
                  indent=2)
        out.write("\n")


if __name__ == "__main__":
    main()
