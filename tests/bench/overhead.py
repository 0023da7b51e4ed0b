# SPDX-License-Identifier: Apache-2.0
"""CPU time of a target with and without gcause, paired and interleaved, and gcause's own cost.

Prints one JSON object. The target is the lab client: 10 streams of 100 chunks a second from an origin in
its own process, and 70 cyclic objects allocated per chunk, as SDKs do, which makes about 100 automatic
collections a second.
"""
import argparse
import json
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

    def __init__(self, binary, pid, output):
        start = time.monotonic()
        self.process = subprocess.Popen(
            [binary, "record", "-p", str(pid), "-f", "gcause", "-o", output],
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


def measure(target_pid, seconds):
    before, start = cpu_ns(target_pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_ns(target_pid) - before) / (time.monotonic() - start)


def run(args, folder):
    origin_command = [sys.executable, os.path.join(LAB, "origin.py"), "--port", "0"]
    client_options = []
    scheme = "http"
    if args.tls:
        subprocess.run([os.path.join(LAB, "certs.sh"), folder], check=True,
                       stdout=subprocess.DEVNULL)
        origin_command += ["--tls", os.path.join(folder, "cert.pem"),
                           os.path.join(folder, "key.pem")]
        client_options = ["--tls", "--cafile", os.path.join(folder, "ca.pem")]
        scheme = "https"
    origin, said = start_json(origin_command)
    go = os.path.join(folder, "go")
    chunks = int(100 * (2 * args.pairs + 2) * (args.seconds + 4))
    url = "%s://localhost:%d/stream?chunks=%d&interval_ms=10" % (scheme, said["port"], chunks)
    target, said = start_json(
        [args.python, os.path.join(LAB, "client.py"), "--url", url, "--mode", args.mode,
         "--streams", "10", "--scenario", "auto", "--alloc", "70", "--go-file", go]
        + client_options)
    pid = said["pid"]
    open(go, "w").close()
    time.sleep(3)
    ratios, gcause_cpu, peaks, starts, base = [], [], [], [], []
    try:
        for pair in range(args.pairs):
            figures = {}
            # The order alternates, so that a drift of the machine does not favour one side.
            for attached in ((False, True) if pair % 2 == 0 else (True, False)):
                if attached:
                    gcause = Gcause(args.gcause, pid, os.path.join(folder, "bench.gcause"))
                    start = time.monotonic()
                    figures[True] = measure(pid, args.seconds)
                    cpu, peak = gcause.stop()
                    gcause_cpu.append(cpu / (time.monotonic() - start) / 1e9)
                    peaks.append(peak)
                    starts.append(gcause.active_after)
                else:
                    figures[False] = measure(pid, args.seconds)
            ratios.append(figures[True] / figures[False])
            base.append(figures[False] / 1e9)
    finally:
        target.kill()
        origin.kill()
    return {
        "target_cpu_ratio": statistics.median(ratios),
        "target_cpu_ratios": ratios,
        "target_cpu_cores": statistics.median(base),
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
