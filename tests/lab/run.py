# SPDX-License-Identifier: Apache-2.0
"""The laboratory: origins with a schedule, targets that know their own truth, gcause beside them, and the judge.

    python3 tests/lab/run.py --gcause build/gcause                 every scenario, client and CPython; plain and
                                                                   TLS in turn, both where few gaps are made
    python3 tests/lab/run.py --gcause build/gcause --busy          the same while every core computes
    python3 tests/lab/run.py --gcause build/gcause --short         a few minutes, on one CPython
    ... --scenario guilty --client sync --python debian-3.13 --transport tls

Prints a confusion matrix for each scenario and client and the totals by client. Exits with 0 only if every rule
holds: 99 % of the verdicts right, no innocent gap blamed on the collector, arrivals within 0.2 ms at p99, charges
within 0.5 ms or 2 %, every pause and chunk seen, what a scenario is made for has happened, and, in a run of
everything, 200 gaps of each class and client.

A scenario is a file of tests/lab/scenarios: what the origin sends (the query of the URL; silence_every is
[chunks, ms, ...], the silences taken in turn), the client's options, how many connections each client has, and
how many gaps of which true class it has to bring. Needs root and a kernel with BTF. The origin runs at real-time
priority, as its clock is the truth; target and gcause at a high one, so that other work on the machine disturbs
less, but with --busy at the usual one.
"""
import argparse
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import judge

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "live"))
import forms  # noqa: E402

MINORS = ("3.9", "3.11", "3.13", "3.14")
CLIENTS = ("sync", "asyncio", "threads")
SHORT = ("guilty", "innocent", "partial", "busy")
LIMIT = 180  # seconds after which a run counts as hung
TARGET = ("client.py", "readers.py", "behaviours.py")
SPIN = "while True: pass"


class Broken(Exception):
    """A run could not be made; there is nothing to judge."""


def scenarios():
    """{name: its file's contents}, in the order of the names."""
    found = {}
    for name in sorted(os.listdir(os.path.join(HERE, "scenarios"))):
        with open(os.path.join(HERE, "scenarios", name), encoding="utf-8") as text:
            found[name[: -len(".json")]] = json.load(text)
    return found


def query(origin):
    """The query of the URL for a scenario's ``origin``."""
    fields = dict(origin)
    every, *silences = fields.pop("silence_every", [0])
    if every:
        fields["silence"] = ",".join("%d:%g" % pair for pair in zip(range(every, fields["chunks"], every),
                                                                    itertools.cycle(silences)))
    return "&".join("%s=%s" % pair for pair in sorted(fields.items()))


class Processes:
    """Everything that one run starts. Use it as a context: nothing outlives it, also where SIGTERM ends this."""

    def __init__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self.running = []
        self.hung = False
        self.watchdog = threading.Timer(LIMIT, self.give_up)
        self.watchdog.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watchdog.cancel()
        for process in self.running:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    def give_up(self):
        self.hung = True
        for process in list(self.running):
            process.kill()

    def start(self, command, **options):
        process = subprocess.Popen(command, text=True, **options)
        self.running.append(process)
        return process

    def competitors(self, prefix, cpus):
        for cpu in cpus:
            self.start(prefix + ["taskset", "--cpu-list", str(cpu), sys.executable, "-I", "-S", "-c", SPIN])


class LabRun:
    """One run: a scenario, a client, an interpreter, a transport."""

    def __init__(self, name, scenario, client, interpreter, tls):
        self.name, self.scenario, self.client = name, scenario, client
        self.interpreter, self.tls = interpreter, tls
        self.said = ""

    def title(self):
        return "%-8s %-12s %-7s %-5s" % (self.interpreter.version, self.name, self.client,
                                         "tls" if self.tls else "plain")

    def expected(self):
        """{true class, or first-chunk for times to first chunk that a collection made longer: gaps at least}"""
        return self.scenario["clients"][self.client].get("expect", self.scenario.get("expect", {}))

    def launch(self, folder):
        """How the client is started, whose files are in the folder."""
        return forms.Launch(self.interpreter, "as-is", folder, folder)

    def client_arguments(self, launch, port):
        kind = self.scenario["clients"][self.client]
        url = "%s://127.0.0.1:%d/stream?%s" % ("https" if self.tls else "http", port,
                                               query(self.scenario["origin"]))
        arguments = ["--url", url, "--mode", self.client, "--streams", str(kind["streams"]), "--keep-alive",
                     str(kind["keep_alive"]), "--log", launch.path("client.jsonl"), *self.scenario["client"],
                     *kind.get("options", ())]
        return arguments + (["--tls", "--cafile", launch.path("ca.pem")] if self.tls else [])

    def start_origin(self, processes, folder):
        command = ["chrt", "--fifo", "10", sys.executable, os.path.join(HERE, "origin.py"), "--log",
                   os.path.join(folder, "origin.jsonl")]
        if self.tls:
            command += ["--tls", os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")]
        origin = processes.start(command, stdout=subprocess.PIPE)
        return origin, json.loads(first_line(origin, "the origin"))["port"]

    def start_gcause(self, processes, args, pid, folder, *outputs):
        command = [args.gcause, "record", "-p", str(pid), "-b", "%gms" % self.scenario["budget_ms"], "--chunks",
                   "-o", os.path.join(folder, "gcause.jsonl")]
        for output in outputs:
            command += ["-o", output]
        for feature in args.without:
            command += ["--without", feature]
        gcause = processes.start(priority(args) + command, stderr=subprocess.PIPE)
        line = gcause.stderr.readline()
        if line != "gcause: recording pid %d\n" % pid:
            raise Broken("gcause: " + line + gcause.stderr.read())
        return gcause

    def go(self, args, folder, *outputs):
        """Runs it; leaves client.jsonl, origin.jsonl and gcause.jsonl in the folder, and the other outputs."""
        for program in TARGET:
            shutil.copy(os.path.join(HERE, program), folder)
        if self.tls:
            subprocess.run([os.path.join(HERE, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
        launch = self.launch(folder)
        before = priority(args)
        if "competitors" in self.scenario:
            before = before + ["taskset", "--cpu-list", "0"]
        with Processes() as processes:
            origin, port = self.start_origin(processes, folder)
            client = processes.start(before + launch.command("client.py", *self.client_arguments(launch, port)),
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=launch.environment)
            pid = json.loads(first_line(client, "the client"))["pid"]
            gcause = self.start_gcause(processes, args, pid, folder, *outputs)
            processes.competitors(priority(args), [0] * self.scenario.get("competitors", 0))
            if args.busy:
                processes.competitors([], sorted(os.sched_getaffinity(0)))
            client.stdin.write("go\n")
            client.stdin.flush()
            client.wait()
            _, self.said = gcause.communicate()
            origin.send_signal(signal.SIGTERM)
            origin.wait()
            if processes.hung or client.returncode or gcause.returncode or origin.returncode:
                raise Broken("%s: client %s, gcause %s, origin %s%s: %s" % (
                    self.title(), client.returncode, gcause.returncode, origin.returncode,
                    ", killed after %d s" % LIMIT if processes.hung else "", self.said.strip()))

    def judged(self, args):
        """The tally of a run of it."""
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            self.go(args, folder)
            tally = judge.judge_run(judge.load_logs(folder))
            if args.keep:
                name = re.sub(" +", "_", self.title())
                shutil.copytree(folder, os.path.join(args.keep, "%s.%d" % (name, time.monotonic_ns())))
        for true, wanted in self.expected().items():
            count = tally.held_first_chunks if true == "first-chunk" else tally.of_class(true)[0]
            # Where competitors stretch everything, the same run brings fewer and longer gaps.
            if count < (wanted // 2 if args.busy else wanted):
                tally.faults.append("%s: only %d of class %s" % (self.title(), count, true))
        return tally


def priority(args):
    """In front of the commands of target and gcause."""
    return [] if args.busy else ["nice", "-n", "-15"]


def first_line(process, what):
    line = process.stdout.readline()
    if not line:
        process.wait()
        raise Broken("%s ended with exit code %s before it was ready" % (what, process.returncode))
    return line


def planned(args):
    """The runs that the options ask for, in an order in which each scenario's stand together."""
    runs = []
    interpreters = chosen_interpreters(args)
    for at, (name, scenario) in enumerate(sorted(scenarios().items())):
        if args.scenario and name not in args.scenario:
            continue
        for client in CLIENTS:
            if client not in scenario["clients"] or (args.client and client not in args.client):
                continue
            for number, interpreter in enumerate(interpreters):
                in_turn = ("plain", "tls")[(at + CLIENTS.index(client) + number) % 2]
                both = ("plain", "tls") if scenario.get("transports") == "both" else (in_turn,)
                for transport in args.transport or both:
                    runs += [LabRun(name, scenario, client, interpreter, transport == "tls")] * args.repeat
    return runs


def chosen_interpreters(args):
    if args.python:
        return forms.chosen(args.python)
    if args.short:
        return forms.chosen(["system"])
    return forms.chosen(["debian-" + minor for minor in MINORS])


def run_all(args, runs):
    """Makes the runs; returns the tallies by (scenario, client)."""
    tallies = {}
    for number, run in enumerate(runs, 1):
        begin = time.monotonic()
        try:
            tally = run.judged(args)
        except Broken as broken:
            tally = judge.Tally()
            tally.faults.append(str(broken))
        tallies.setdefault((run.name, run.client), judge.Tally()).add(tally)
        counted, right = tally.right()
        classes = ((name, tally.of_class(name)[0]) for name in judge.CLASSES)
        print("%3d/%d %4.0f s  %s %4d of %4d right, %s%s" % (
            number, len(runs), time.monotonic() - begin, run.title(), right, counted,
            ", ".join("%s %d" % pair for pair in classes if pair[1]), "; FAULTS" if tally.faults else ""),
            flush=True)
        for fault in tally.faults[:3]:
            print("        " + fault, flush=True)
        for gap in tally.wrong[:3]:
            print("        " + judge.describe(gap), flush=True)
    return tallies


def show(tallies):
    """The matrices of all scenarios and clients; returns the tallies by client."""
    by_client = {}
    print()
    for (name, client), tally in tallies.items():
        judge.show_matrix("%s, %s" % (name, client), tally)
        judge.show_errors("errors", tally)
        by_client.setdefault(client, judge.Tally()).add(tally)
    total = judge.Tally()
    print()
    for client, tally in by_client.items():
        judge.show_matrix("client " + client, tally)
        judge.show_errors("errors", tally)
        total.add(tally)
    print()
    judge.show_matrix("all of %d runs" % total.runs, total)
    judge.show_errors("errors", total)
    return by_client


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--scenario", action="append", choices=sorted(scenarios()))
    parser.add_argument("--client", action="append", choices=CLIENTS)
    parser.add_argument("--python", action="append", help="a name of scripts/interpreters; repeatable")
    parser.add_argument("--transport", action="append", choices=("plain", "tls"))
    parser.add_argument("--busy", action="store_true", help="a competitor computes on every core")
    parser.add_argument("--short", action="store_true", help="the scenarios that stand for the four classes")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--without", action="append", default=[], help="a kernel feature not to use; repeatable")
    parser.add_argument("--keep", metavar="FOLDER", help="where the logs of the runs are kept")
    args = parser.parse_args()
    args.whole = not (args.scenario or args.client or args.python or args.transport or args.short)
    if args.short and not args.scenario:
        args.scenario = list(SHORT)
    return args


def main():
    args = parse_options()
    begin = time.monotonic()
    runs = planned(args)
    if not runs:
        raise SystemExit("no such run: the scenario has no such client")
    by_client = show(run_all(args, runs))
    broken = judge.broken_rules(by_client, judge.ENOUGH if args.whole else 0)
    for rule in broken:
        print("BROKEN " + rule)
    print("%d runs, %d rules broken, %.0f s" % (len(runs), len(broken), time.monotonic() - begin))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
