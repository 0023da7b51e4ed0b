#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gcause costs sockets that nobody follows: messages per second over loopback, with and without it.

gcause hears of every socket of the host (arrivals, reads, writes, switches of threads) and has to let go of those
that it does not follow at the first look. Here pairs of processes play ping-pong over loopback TCP while gcause
records a Python process that sleeps. They do some work for each message, as much as makes it 50,000 messages a
second (--rate) on all cores; with --rate 0 none, which is as many messages as the machine can do at all. Windows without and with it take turns, and a pair of neighbours gives one
ratio, so that what else happens on the machine hits both. All runs at a high priority, so that it hits little.
Between two pairs the order is the other way round.

The ratio of CPU time per message stands beside that of the throughput: other load on the machine takes messages
away, but hardly makes one dearer. Two windows without gcause are compared in the same way: what they differ by
is noise.

Of all that, arrivals are the part that runs for every socket of the host. What they cost alone is measured by
the same windows, with gcause in all of them, but without arrivals in one of each pair.

Prints one JSON object. With --limit PERCENT the exit code is 1 if the median loss of throughput to arrivals is not
below it.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from overhead import Gcause

ARRIVALS = ("sk_data_ready", "tcp_probe")
IDLE = "import time; print(1, flush=True); time.sleep(1e6)"


class Load:
    """Pairs of processes that send each other small messages as fast as they go."""

    def __init__(self, binary, pairs, work=0):
        self.process = subprocess.Popen([binary, str(pairs), str(work)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit("the load did not start")

    def measure(self, seconds):
        """(messages a second, CPU ns a message) of the next seconds."""
        self.process.stdin.write("%d\n" % (1000 * seconds))
        self.process.stdin.flush()
        messages, elapsed, cpu = map(int, self.process.stdout.readline().split())
        return messages / (elapsed / 1e9), cpu / messages

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def work_for(args):
    """How much work a message has to be worth for the rate of messages that is wanted."""
    if not args.rate:
        return 0
    costs, steps = [], 10000
    for work in (0, steps):
        load = Load(args.load, args.processes, work)
        load.measure(0.5)
        costs.append(load.measure(1)[1])
        load.stop()
    wanted = os.cpu_count() * 1e9 / args.rate
    return max(0, round(steps * (wanted - costs[0]) / (costs[1] - costs[0])))


class Bench:
    """The windows, and what they gave."""

    def __init__(self, args, load, idle, folder):
        self.args, self.load, self.idle, self.folder = args, load, idle, folder
        self.plain = []

    def without(self):
        figures = self.load.measure(self.args.seconds)
        self.plain.append(figures[0])
        return figures

    def blind(self):
        return self.recorded(ARRIVALS)

    def recorded(self, without=()):
        gcause = Gcause(self.args.gcause, self.idle.pid, self.folder + "/idle.gcause", without)
        figures = self.load.measure(self.args.seconds)
        gcause.stop()
        return figures

    def pairs(self, first, second):
        """Ratios second / first of throughput and of CPU time per message."""
        throughput, cpu = [], []
        for number in range(self.args.pairs):
            if number % 2 == 0:
                base, other = first(), second()
            else:
                other = second()
                base = first()
            throughput.append(other[0] / base[0])
            cpu.append(other[1] / base[1])
        return throughput, cpu


def spread(ratios, sign):
    """Median and quartiles of ratios as a change in percent; sign -1 turns a gain into a loss."""
    changes = sorted(sign * 100 * (ratio - 1) for ratio in ratios)
    low, middle, high = statistics.quantiles(changes, n=4, method="inclusive")
    return {"median": round(middle, 2), "lower_quartile": round(low, 2), "upper_quartile": round(high, 2)}


def run(args, folder):
    load = Load(args.load, args.processes, work_for(args))
    idle = subprocess.Popen([args.python, "-c", IDLE], stdout=subprocess.PIPE)
    idle.stdout.readline()
    try:
        bench = Bench(args, load, idle, folder)
        load.measure(1)
        throughput, cpu = bench.pairs(bench.without, bench.recorded)
        arrivals, arrivals_cpu = bench.pairs(bench.blind, bench.recorded)
        noise, noise_cpu = bench.pairs(bench.without, bench.without)
    finally:
        idle.kill()
        idle.wait()
        load.stop()
    return {
        "messages_per_s": round(statistics.median(bench.plain)),
        "pairs": args.pairs,
        "throughput_loss_percent": spread(throughput, -1),
        "cpu_per_message_added_percent": spread(cpu, 1),
        "arrivals_throughput_loss_percent": spread(arrivals, -1),
        "arrivals_cpu_per_message_added_percent": spread(arrivals_cpu, 1),
        "noise_throughput_percent": spread(noise, -1),
        "noise_cpu_percent": spread(noise_cpu, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--load", required=True, help="the program loopback_load")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--pairs", type=int, default=16, help="of windows")
    parser.add_argument("--processes", type=int, default=2, help="pairs of processes in the load")
    parser.add_argument("--rate", type=int, default=50000, help="messages a second of the load without gcause")
    parser.add_argument("--seconds", type=float, default=2, help="of a window")
    parser.add_argument("--limit", type=float, metavar="PERCENT")
    args = parser.parse_args()
    os.setpriority(os.PRIO_PROCESS, 0, -15)
    with tempfile.TemporaryDirectory() as folder:
        figures = run(args, folder)
    print(json.dumps(figures))
    if args.limit is not None and figures["arrivals_throughput_loss_percent"]["median"] >= args.limit:
        sys.exit(1)


if __name__ == "__main__":
    main()
