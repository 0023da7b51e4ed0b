# SPDX-License-Identifier: Apache-2.0
"""A target whose CPU others take away: what gcause says of it is what the target's own clocks say.

Four competitors run on the target's core, so that 30 ms of CPU take some 150 ms. The target reads a stream and
now and then collects (case "pause") or computes (cases "busy", and "alone" without competitors). Compared are:
wall and CPU time of each pause with monotonic_ns and thread_time_ns in gc.callbacks, and cpu_wait_ns of each gap
with the verdict process with what the target lost between a read's return and the next read: 10 %. The report
names the CPU as what is missing exactly where those clocks say so.

Exits with 0 only if all holds. Needs root and a kernel with BTF.
"""
import argparse
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.join(os.path.dirname(HERE), "lab")
MS = 1_000_000
CPU = 30 * MS  # of a collection, and of what the target computes
COMPETITORS = 4
EVERY = 12  # chunks between two of them
CHUNKS = 240
INTERVAL = 20  # ms
BUDGET = 70  # ms: above what a reader waits for its turn, below what the target loses
SHARE = 0.1  # that figures may be off by
CLOCK = MS // 2  # and beyond it: clocks are read in Python code, which loses the CPU, too
STRETCHED = 2.5  # wall time over CPU time, at the least, or the run proves nothing
EDGES = 0.1  # of the pauses, which may lose the CPU between two clocks
ATTEMPTS = 3
COMPETE = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True:\n    pass\n"


def compute():
    end = time.thread_time_ns() + CPU
    while time.thread_time_ns() < end:
        pass


def timed(work):
    begin = time.thread_time_ns()
    work()
    return time.thread_time_ns() - begin


def heap():
    """Lists that take a collection the wanted CPU time."""
    lists, size = [], 200_000
    for _ in range(8):
        lists.extend([] for _ in range(size - len(lists)))
        del lists[size:]
        # The fastest counts: the machine is another in the next second, and less would not be enough.
        took = min(timed(gc.collect) for _ in range(5))
        if abs(took - CPU) < 0.1 * CPU:
            break
        size = int(size * min(4, max(0.25, CPU / took)))
    return lists


def target(case, core):
    """Reads the stream of the origin whose port comes on standard input; says afterwards what it saw."""
    os.sched_setaffinity(0, {core})
    gc.disable()
    keep = heap() if case == "pause" else []
    pauses, turns, begin = [], [], [0, 0]

    def on_gc(phase, _):
        if phase == "start":
            begin[:] = time.monotonic_ns(), time.thread_time_ns()
        else:
            pauses.append((begin[0], time.monotonic_ns(), time.thread_time_ns() - begin[1]))

    print(json.dumps({"pid": os.getpid()}), flush=True)
    port = int(sys.stdin.readline())
    with socket.create_connection(("127.0.0.1", port)) as link:
        path = "/stream?chunks=%d&interval_ms=%d&framing=close" % (CHUNKS, INTERVAL)
        link.sendall(("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path).encode())
        gc.callbacks.append(on_gc)
        chunks = 0
        while True:
            body = link.recv(65536)
            start = time.monotonic_ns(), time.thread_time_ns()
            if not body:
                break
            before = chunks // EVERY
            chunks += body.count(b"data: {")
            if chunks // EVERY == before:
                continue
            if case == "pause":
                gc.collect()
            else:
                compute()
            used = time.thread_time_ns() - start[1]
            now = time.monotonic_ns()
            turns.append((start[0], now, now - start[0] - used))
        gc.callbacks.remove(on_gc)
    print(json.dumps({"chunks": chunks, "pauses": pauses, "turns": turns, "heap": len(keep)}), flush=True)


def cores():
    """The target's core, and one for the others."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[-1], usable[0]


class Run:
    """One run: what the target said, the lines of gcause, and its report."""

    def __init__(self, args, python, case, folder):
        mine, others = cores()
        origin = subprocess.Popen([sys.executable, os.path.join(LAB, "origin.py"), "--port", "0"],
                                  stdout=subprocess.PIPE, text=True)
        competitors = []
        client = subprocess.Popen([python, os.path.abspath(__file__), "--target", case, "--core", str(mine)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            os.sched_setaffinity(origin.pid, {others})
            port = json.loads(origin.stdout.readline())["port"]
            pid = json.loads(client.stdout.readline())["pid"]
            lines, report = os.path.join(folder, "out.jsonl"), os.path.join(folder, "out.txt")
            gcause = subprocess.Popen([args.gcause, "record", "-p", str(pid), "-b", "%dms" % BUDGET, "--chunks",
                                       "-o", lines, "-o", report], stderr=subprocess.PIPE, text=True)
            said = gcause.stderr.readline()
            if said != "gcause: recording pid %d\n" % pid:
                raise SystemExit("gcause: " + said + gcause.stderr.read())
            if case != "alone":
                competitors = [subprocess.Popen([sys.executable, "-c", COMPETE, str(mine)])
                               for _ in range(COMPETITORS)]
            self.truth = json.loads(client.communicate("%d\n" % port)[0])
            gcause.communicate()
            with open(lines, encoding="utf-8") as text:
                self.seen = [json.loads(line) for line in text]
            with open(report, encoding="utf-8") as text:
                self.report = " ".join(text.read().split())
        finally:
            for competitor in competitors:
                competitor.kill()
                competitor.wait()
            client.kill()
            client.wait()
            origin.send_signal(signal.SIGTERM)
            origin.wait()

    def of(self, kind):
        return [record for record in self.seen if record["type"] == kind]


class Judge:
    """Collects what does not hold."""

    def __init__(self):
        self.faults = []

    def expect(self, holds, text, *values):
        if not holds:
            self.faults.append(text % values)

    def near(self, found, true, text):
        self.expect(found is not None and abs(found - true) <= SHARE * true + CLOCK, text + ": %s, truly %s",
                    found, true)


def judge_pauses(judge, run):
    truth = run.truth["pauses"]
    # The interpreter collects when it ends, too.
    pauses = [pause for pause in run.of("pause") if pause["end_ns"] <= truth[-1][1]]
    judge.expect(len(truth) == len(pauses), "%d pauses, %d seen", len(truth), len(pauses))
    stretched = sorted((end - begin) / cpu for begin, end, cpu in truth)
    judge.expect(stretched and stretched[len(stretched) // 2] >= STRETCHED, "pauses were not stretched: %s",
                 stretched)
    off = []
    for (begin, end, cpu), pause in zip(truth, pauses):
        single = Judge()
        single.near(pause["duration_ns"], end - begin, "wall time of a pause")
        single.near(pause["cpu_ns"], cpu, "CPU time of a pause")
        off += single.faults[:1]
    # The target loses its CPU now and then just between its own clock and the collector.
    judge.expect(len(off) <= EDGES * len(truth), "%d of %d pauses are off: %s", len(off), len(truth), off)
    guilty = [gap for gap in run.of("gap") if gap["verdict"] == "gc"]
    judge.expect(len(guilty) >= 4, "only %d gaps caused by the collector", len(guilty))
    judge.expect("Pauses that lost their CPU did the harm" in run.report, "the report does not name the CPU")
    judge.expect("descheduled: the cure is CPU" in run.report, "no gap names the CPU")
    return "%d pauses of %.0f ms CPU took up to %.0f ms" % (
        len(pauses), sum(cpu for _, _, cpu in truth) / max(1, len(truth)) / MS,
        max((end - begin for begin, end, _ in truth), default=0) / MS)


def true_wait(run, gap):
    """What the target lost in the turn that this gap is made of; None where it lies in a read, with no clock."""
    lost = [lost for begin, end, lost in run.truth["turns"] if gap["from_ns"] <= begin and end <= gap["to_ns"]]
    return min(lost[0], gap["process_ns"]) if lost else None


def judge_gaps(judge, run, case):
    gaps = [gap for gap in run.of("gap") if gap["verdict"] == "process"]
    starved, waits = 0, []
    for gap in gaps:
        true = true_wait(run, gap)
        if true is not None:
            waits.append(true)
            judge.near(gap["cpu_wait_ns"], true, "gap of %.1f ms: without a CPU" % (gap["gap_ns"] / MS))
        starved += 2 * gap["cpu_wait_ns"] > gap["process_ns"]
    if case == "busy":
        judge.expect(starved >= 4 and len(waits) >= 4, "only %d gaps lacked a CPU, %d of them in a turn", starved,
                     len(waits))
    named = "No CPU: in %d of %d gap" % (starved, len(gaps)) in run.report
    judge.expect(named == (starved > 0), "the report and the lines do not agree: %d of %d", starved, len(gaps))
    judge.expect(("runnable without a CPU for" in run.report) == (starved > 0), "the gaps' notes do not agree")
    within = [gap for gap in run.of("gap") if gap["cpu_wait_ns"] is None]
    judge.expect(not within, "%d gaps without cpu_wait_ns", len(within))
    return "%d gaps of the process, %d without a CPU for up to %.0f ms" % (len(gaps), starved,
                                                                         max(waits, default=0) / MS)


def one(args, python, case):
    judge = Judge()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(args, python, case, folder)
    judge.expect(run.truth["chunks"] == CHUNKS, "the target read %d chunks", run.truth["chunks"])
    judge.expect(len(run.of("chunk")) == CHUNKS, "%d chunks were seen", len(run.of("chunk")))
    said = judge_pauses(judge, run) if case == "pause" else judge_gaps(judge, run, case)
    print("%-4s %s %-6s %s" % ("FAIL" if judge.faults else "ok", python, case, said), flush=True)
    for fault in judge.faults[:5]:
        print("       " + fault, flush=True)
    return not judge.faults


def holds(args, python, case):
    """Runs a case; on a machine that others use, too, a failed one twice more. What is wrong fails always."""
    return any(one(args, python, case) for _ in range(ATTEMPTS))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause")
    parser.add_argument("--python", action="append", help="an interpreter to test; may be given again")
    parser.add_argument("--case", action="append", choices=("pause", "busy", "alone"))
    parser.add_argument("--target", help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.target:
        target(args.target, args.core)
        return
    results = [holds(args, python, case) for python in args.python or [sys.executable]
               for case in args.case or ("pause", "busy", "alone")]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
