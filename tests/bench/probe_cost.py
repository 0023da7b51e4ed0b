#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gcause's pair of probes adds to a collection, beside an empty pair on the same instruction.

    tests/bench/probe_cost.py --gcause build/gcause --empty build/tests/empty_probes --python PYTHON

One target collects its empty youngest generation over and over and times blocks of collections with its own
CPU clock. Rounds without probes, with an empty uprobe and uretprobe, and with gcause take turns, as the speed
of a shared machine drifts. The figure is the ratio of what the two kinds of probes add, from the medians.

USDT probes are no pair around the function, so the interpreter is a copy without them.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

TARGET = r"""
import gc, sys, time
gc.disable()
gc.freeze()
collect = gc.collect
def block():
    begin = time.thread_time_ns()
    for _ in range(2000):
        collect(0)
    return (time.thread_time_ns() - begin) / 2000
print("up", flush=True)
for line in sys.stdin:
    print(" ".join("%.1f" % block() for _ in range(10)), flush=True)
"""


def start(command, marker, stream):
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    for line in getattr(process, stream):
        if marker in line:
            return process
    sys.exit("%s ended before it said %r" % (command[0], marker))


class Bench:
    def __init__(self, args, python):
        self.args = args
        self.target = start([python, "-c", TARGET], "up", "stdout")
        self.figures = {"none": [], "empty": [], "gcause": []}

    def measure(self, kind):
        self.target.stdin.write("go\n")
        self.target.stdin.flush()
        self.figures[kind] += [float(x) for x in self.target.stdout.readline().split()]

    def round(self):
        pid = str(self.target.pid)
        self.measure("none")
        empty = start([self.args.empty, pid], "ready", "stdout")
        self.measure("empty")
        empty.stdin.close()
        empty.wait()
        gcause = start([self.args.gcause, "record", "-p", pid, "-o", "/dev/null", "-f", "jsonl"],
                       "recording pid", "stderr")
        self.measure("gcause")
        gcause.terminate()
        gcause.wait()


def without_usdt(python, folder):
    """A copy of the program that finds its library where the original does."""
    copy = os.path.join(folder, "python")
    subprocess.run(["objcopy", "--remove-section=.note.stapsdt", os.path.realpath(python), copy], check=True)
    os.environ["PYTHONHOME"] = subprocess.check_output(
        [python, "-c", "import sys; print(sys.base_prefix)"], text=True).strip()
    return copy


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--empty", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, without_usdt(args.python, folder))
        for _ in range(args.rounds):
            bench.round()
        bench.target.kill()
    none, empty, gcause = (statistics.median(bench.figures[k]) for k in ("none", "empty", "gcause"))
    print(json.dumps({
        "python": args.python,
        "collection_ns": round(none),
        "empty_pair_ns": round(empty - none),
        "gcause_pair_ns": round(gcause - none),
        "ratio": round((gcause - none) / (empty - none), 2),
    }))


if __name__ == "__main__":
    main()
