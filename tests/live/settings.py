# SPDX-License-Identifier: Apache-2.0
"""What gcause reports of the collector's settings is what the program says of them.

The target disables its collector, sets thresholds, freezes and unfreezes its objects, makes another interpreter
and enables the collector again, one step each 300 ms; within each step the lines must be the ones that the
program's own words give, to the number of frozen objects. Needs root and a kernel with BTF.
"""
import argparse
import gc
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time

STEP = 0.3
FROZEN_MORE = 1000


def other_interpreters():
    """Functions that make an interpreter, run code in it and end it; None where this Python has none."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        run = module.exec if hasattr(module, "exec") else module.run_string
        return module.create, run, module.destroy
    return None


def target():
    """Does the steps when a line comes on standard input, and says afterwards what it saw."""
    said = []
    keep = []
    made = []
    others = other_interpreters()
    per_interpreter = others is not None and sys.version_info >= (3, 9)

    def create():
        made.append(others[0]())

    steps = [
        ("disable", gc.disable),
        ("set_threshold", lambda: gc.set_threshold(1234, 7, 3)),
        ("freeze", gc.freeze),
        ("freeze more", lambda: (keep.extend([i] for i in range(FROZEN_MORE)), gc.freeze())),
        ("unfreeze", gc.unfreeze),
    ]
    if per_interpreter:
        steps += [
            ("create", create),
            ("disable other", lambda: others[1](made[0], "import gc; gc.disable()")),
            ("destroy", lambda: others[2](made.pop())),
        ]
    steps.append(("enable", gc.enable))

    # A free-threaded build keeps no list of frozen objects.
    counts_frozen = not sysconfig.get_config_var("Py_GIL_DISABLED")

    def tell(name, begin):
        frozen = gc.get_freeze_count() if counts_frozen else None
        said.append((name, begin, gc.isenabled(), gc.get_threshold(), frozen, gc.get_count()))

    print(json.dumps({"pid": os.getpid()}), flush=True)
    sys.stdin.readline()
    tell("start", 0)
    for name, action in steps:
        begin = time.monotonic_ns()
        action()
        action = None
        time.sleep(STEP / 2)
        tell(name, begin)
        time.sleep(STEP / 2)
    print(json.dumps(said), flush=True)


def record(args, python, folder):
    """What the target said, and the lines of gcause."""
    client = subprocess.Popen([python, os.path.abspath(__file__), "--target"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    pid = json.loads(client.stdout.readline())["pid"]
    lines = os.path.join(folder, "out.jsonl")
    report = os.path.join(folder, "out.txt")
    gcause = subprocess.Popen([args.gcause, "record", "-p", str(pid), "-o", lines, "-o", report],
                              stderr=subprocess.PIPE, text=True)
    gcause.stderr.readline()
    said = json.loads(client.communicate("go\n")[0])
    gcause.communicate()
    with open(lines) as text:
        records = [json.loads(line) for line in text]
    with open(report) as text:
        return said, records, text.read()


class Judge:
    """Collects what does not hold."""

    def __init__(self):
        self.wrong = []

    def equal(self, what, seen, expected):
        if seen != expected:
            self.wrong.append("%s is %r and should be %r" % (what, seen, expected))


def judge_main(judge, said, process, settings):
    """The lines of the main interpreter, one for each step that set something anew."""
    before = None
    for i, (name, begin, enabled, thresholds, frozen, counts) in enumerate(said):
        end = said[i + 1][1] if i + 1 < len(said) else float("inf")
        state = {"enabled": enabled, "thresholds": thresholds, "frozen": frozen}
        lines = [process["gc"]] if i == 0 else [s for s in settings if begin <= s["at_ns"] < end]
        expected = 1 if state != before else 0
        judge.equal("number of lines after %s" % name, len(lines), expected)
        if lines and lines[-1]:
            judge.equal("settings after %s" % name, {key: lines[-1][key] for key in state}, state)
            seen = lines[-1]["counts"]
            if not enabled and frozen is not None:
                judge.equal("old counts after %s" % name, seen[1:], counts[1:])
                judge.equal("young count after %s is near %d" % (name, counts[0]),
                            abs(seen[0] - counts[0]) <= 200, True)
        before = state


def judge_other(judge, said, settings):
    """The lines of the interpreter that was made: it begins with the collector enabled."""
    if not any(name == "create" for name, *_ in said):
        judge.equal("lines of other interpreters", settings, [])
        return
    judge.equal("other interpreter", [s["enabled"] for s in settings], [True, False])
    frozen = None if said[0][4] is None else 0
    judge.equal("frozen objects of the other", [s["frozen"] for s in settings], [frozen] * 2)


def judge(args, python):
    with tempfile.TemporaryDirectory() as folder:
        said, records, report = record(args, python, folder)
    process = next(r for r in records if r["type"] == "process")
    settings = [r for r in records if r["type"] == "settings"]
    result = Judge()
    if process["gc"] is None:
        result.wrong.append("the process record has no gc")
    else:
        judge_main(result, said, process, [s for s in settings if s["interpreter"] == 0])
        judge_other(result, said, [s for s in settings if s["interpreter"] != 0])
        result.equal("line of the report", "collector  enabled, thresholds" in report, True)
        changes = sum(1 for s in settings if s["interpreter"] == 0)
        result.equal("change in the report", "; changed %d times, now thresholds 1234/7/3" % changes in
                     " ".join(report.split()), True)
    frozen = max(s[4] or 0 for s in said)
    print("%-4s %s, CPython %s: %d settings lines, up to %d objects frozen"
          % ("FAIL" if result.wrong else "ok", python, process["python"]["version"], len(settings), frozen))
    for line in result.wrong:
        print("     " + line)
    return not result.wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause")
    parser.add_argument("--python", action="append", help="an interpreter to test; may be given again")
    parser.add_argument("--target", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.target:
        target()
        return
    results = [judge(args, python) for python in args.python or [sys.executable]]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
