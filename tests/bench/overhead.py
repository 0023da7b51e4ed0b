# SPDX-License-Identifier: Apache-2.0
"""CPU time of a target with and without gcause, paired and interleaved, and gcause's own cost.

Two equal targets run side by side, and gcause follows the one and the other in turn. In each window the CPU time
of the followed one is divided by that of its twin: whatever the machine does to both, a slow moment of a shared
host above all, cancels. A pair is two windows with the roles exchanged.

Prints one JSON object. The target is the lab client: 10 streams of 100 chunks a second from an origin in
its own process, and 35 cyclic objects allocated per chunk, as SDKs do, which makes about 100 automatic
collections a second.
"""
import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

LAB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab")


def cpu_ns(pid):
    """On-CPU time of all threads of a process so far, ns (schedstat, no tick rounding)."""
    total = 0
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, tid)) as stat:
            total += int(stat.read().split()[0])
    return total


def peak_bytes(pid):
    """Peak resident memory of a process, bytes."""
    with open("/proc/%d/status" % pid) as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def start_json(command, **kwargs):
    """Starts a program that prints one JSON line first; returns it and the line's value."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **kwargs)
    return process, json.loads(process.stdout.readline())


class Gcause:
    """gcause attached to a process; knows when its probes became active."""

    def __init__(self, binary, pid, output, without=()):
        start = time.monotonic()
        self.process = subprocess.Popen(
            [binary, "record", "-p", str(pid), "-f", "gcause", "-o", output]
            + [option for feature in without for option in ("--without", feature)],
            stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if not line.startswith("gcause: recording pid "):
            raise SystemExit("gcause did not start: " + line + self.process.stderr.read())
        self.active_after = time.monotonic() - start
        self.cpu_at_start = cpu_ns(self.process.pid)

    def stop(self):
        """Ends the recording; returns CPU ns since it became active, and peak memory in bytes."""
        cost = cpu_ns(self.process.pid) - self.cpu_at_start, peak_bytes(self.process.pid)
        self.process.send_signal(signal.SIGINT)
        if self.process.wait() != 0:
            raise SystemExit("gcause failed: " + self.process.stderr.read())
        return cost


class Target:
    """The lab client with an origin of its own."""

    def __init__(self, args, folder, name):
        origin_command = [sys.executable, os.path.join(LAB, "origin.py"), "--port", "0"]
        client_options, scheme = [], "http"
        if args.tls:
            origin_command += ["--tls", os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")]
            client_options, scheme = ["--tls", "--cafile", os.path.join(folder, "ca.pem")], "https"
        self.origin, said = start_json(origin_command)
        chunks = int(100 * (2 * args.pairs + 4) * (args.seconds + 3))
        url = "%s://localhost:%d/stream?chunks=%d&interval_ms=10" % (scheme, said["port"], chunks)
        self.go = os.path.join(folder, name + ".go")
        self.process, said = start_json(
            [args.python, os.path.join(LAB, "client.py"), "--url", url, "--mode", args.mode, "--streams",
             "10", "--scenario", "auto", "--alloc", "35", "--go-file", self.go] + client_options)
        self.pid = said["pid"]

    def start(self):
        open(self.go, "w").close()

    def kill(self):
        self.process.kill()
        self.origin.kill()


def measure(targets, seconds):
    """CPU time of each target in one and the same window, ns."""
    before = [cpu_ns(target.pid) for target in targets]
    time.sleep(seconds)
    return [cpu_ns(target.pid) - start for target, start in zip(targets, before)]


def run(args, folder):
    if args.tls:
        subprocess.run([os.path.join(LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
    targets = [Target(args, folder, "first"), Target(args, folder, "second")]
    for target in targets:
        target.start()
    time.sleep(4)
    ratios, gcause_cpu, peaks, starts, cores = [], [], [], [], []
    try:
        for _ in range(args.pairs):
            logs = []
            for followed in (0, 1):
                gcause = Gcause(args.gcause, targets[followed].pid, os.path.join(folder, "bench.gcause"))
                start = time.monotonic()
                used = measure(targets, args.seconds)
                cpu, peak = gcause.stop()
                gcause_cpu.append(cpu / (time.monotonic() - start) / 1e9)
                peaks.append(peak)
                starts.append(gcause.active_after)
                cores.append(used[1 - followed] / args.seconds / 1e9)
                logs.append(math.log(used[followed] / used[1 - followed]))
            # What differs between the two targets themselves cancels in a pair.
            ratios.append(math.exp(sum(logs) / 2))
    finally:
        for target in targets:
            target.kill()
    return {
        "target_cpu_ratio": statistics.median(ratios),
        "target_cpu_ratios": ratios,
        "target_cpu_cores": statistics.median(cores),
        "gcause_cpu_cores": statistics.median(gcause_cpu),
        "gcause_peak_bytes": max(peaks),
        "active_after_s": statistics.median(starts),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the target")
    parser.add_argument("--mode", default="asyncio", choices=["asyncio", "sync", "threads"])
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(args, folder)))


if __name__ == "__main__":
    main()
