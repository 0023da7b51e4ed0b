# SPDX-License-Identifier: Apache-2.0
"""Recordings of every scenario of the laboratory, and what `gcause report` says about them, byte by byte.

    python3 tests/lab/golden.py --gcause build/gcause              compares; needs no rights
    python3 tests/lab/golden.py --gcause build/gcause --update     writes the reports anew, after a change of them
    python3 tests/lab/golden.py --gcause build/gcause --record     makes the recordings anew, as root

A recording is kept only if the judge agrees with every verdict of its run, so the verdicts in the reports are true
ones; the true verdicts are kept beside them (truth.json: gaps of each class and scenario), and a report whose
verdicts are other than those fails, also after --update. Recordings hold no payload.
"""
import argparse
import collections
import copy
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "golden")
TRUTH = os.path.join(FOLDER, "truth.json")
PRIVATE = (b"/root/", b"/tmp/", b"/home/")
ATTEMPTS = 6


def recordings():
    return sorted(name[: -len(".gcause")] for name in os.listdir(FOLDER) if name.endswith(".gcause"))


def path(name, ending):
    return os.path.join(FOLDER, name + ending)


def reported(gcause, name):
    """What gcause says about a recording, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.jsonl")
        subprocess.run([gcause, "report", path(name, ".gcause"), "-o", out], check=True)
        with open(out, "rb") as lines:
            return lines.read()


def verdicts(text):
    """{verdict: gaps} of a report."""
    records = [json.loads(line) for line in text.splitlines()]
    return collections.Counter(r["verdict"] for r in records if r["type"] == "gap" and r["over_budget"])


def read(file):
    with open(file, "rb") as contents:
        return contents.read()


def compare(gcause, name, true):
    """What is wrong with the report of one recording; empty if it is right."""
    found, golden = reported(gcause, name), read(path(name, ".jsonl"))
    wrong = []
    if found != golden:
        lines = zip(found.splitlines() + [b"(no line)"], golden.splitlines() + [b"(no line)"])
        number, pair = next((n, pair) for n, pair in enumerate(lines, 1) if pair[0] != pair[1])
        wrong.append("line %d differs:\n  says %s\n  was  %s" % (number, *(part[:300].decode() for part in pair)))
    if dict(verdicts(found)) != true:
        wrong.append("verdicts %s, in truth %s" % (dict(verdicts(found)), true))
    if any(word in read(path(name, ".gcause")) + found for word in PRIVATE):
        wrong.append("it holds a path of the machine that it was made on")
    return wrong


def check(gcause):
    """Compares all; the exit code."""
    import run
    true = json.loads(read(TRUTH))
    names = recordings()
    failures = 0
    for name in names:
        wrong = compare(gcause, name, true.get(name))
        failures += bool(wrong)
        print("%-4s %s" % ("FAIL" if wrong else "ok", name))
        for text in wrong:
            print("     " + text)
    missing = set(run.scenarios()) - {name.partition("_")[0] for name in names}
    for name in sorted(missing):
        print("FAIL no recording of scenario " + name)
    print("%d recordings, %d wrong" % (len(names), failures + len(missing)))
    return 1 if failures or missing or set(true) != set(names) else 0


def update(gcause):
    for name in recordings():
        with open(path(name, ".jsonl"), "wb") as golden:
            golden.write(reported(gcause, name))


def shorter(scenario):
    """The scenario with a third of the chunks, and of the gaps that they have to bring."""
    scenario = copy.deepcopy(scenario)
    if scenario["origin"]["chunks"] > 20:
        scenario["origin"]["chunks"] //= 3
    for kind in scenario["clients"].values():
        kind["keep_alive"] = min(kind["keep_alive"], 2)
        if "expect" in kind:
            kind["expect"] = {true: 1 for true in kind["expect"]}
    scenario["expect"] = {true: 1 for true in scenario.get("expect", ())}
    return scenario


def recorded_run(name, scenario, client, tls):
    """A run whose target sees its files in /mnt, so that no folder of this machine gets into the recording."""
    import run

    class Mounted(run.forms.Launch):
        """A launch with the folder mounted at /mnt, in a mount namespace of its own."""

        def path(self, program):
            return os.path.join("/mnt", program)

        def command(self, program, *arguments):
            mount = 'mount --bind "$1" /mnt && shift && exec "$@"'
            return ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh", self.programs,
                    *super().command(program, *arguments)]

    class MountedRun(run.LabRun):
        """A run that is launched so."""

        def launch(self, folder):
            return Mounted(self.interpreter, "as-is", folder, folder)

    return MountedRun(name, scenario, client, run.forms.chosen(["system"])[0], tls)


def record_one(args, name, scenario, client, tls):
    """Records until a run has no verdict on the border and none that is wrong; the true verdicts."""
    import judge
    wanted = recorded_run(name, shorter(scenario), client, tls)
    target = path("%s_%s_%s" % (name, client, "tls" if tls else "plain"), ".gcause")
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            wanted.go(args, folder, target)
            tally = judge.judge_run(judge.load_logs(folder))
        enough = all(tally.of_class(true)[0] or true == "first-chunk" and tally.held_first_chunks
                     for true in wanted.expected())
        unsure = sum(count for cell, count in tally.border.items() if cell != ("within", "within"))
        if enough and not (tally.wrong or unsure or tally.faults):
            counts = {true: tally.of_class(true)[0] for true in judge.CLASSES}
            return os.path.basename(target)[: -len(".gcause")], {t: n for t, n in counts.items() if n}
        print("again: %s %s %s" % (wanted.title(), tally.faults, [judge.describe(gap) for gap in tally.wrong[:2]]))
    raise SystemExit("no run of %s without a doubt" % wanted.title())


def record(args):
    """Makes all recordings anew; the clients and the transports in turn."""
    import run
    os.makedirs(FOLDER, exist_ok=True)
    for name in recordings():
        os.remove(path(name, ".gcause"))
        os.remove(path(name, ".jsonl"))
    true = {}
    for at, (name, scenario) in enumerate(sorted(run.scenarios().items())):
        clients = sorted(scenario["clients"])
        made, counts = record_one(args, name, scenario, clients[at % len(clients)], at % 2 == 1)
        true[made] = counts
        print(made, counts, flush=True)
    with open(TRUTH, "w", encoding="ascii") as out:
        out.write(json.dumps(true, indent=1, sort_keys=True) + "\n")
    update(args.gcause)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    args.without, args.busy = [], False
    if args.record:
        record(args)
    elif args.update:
        update(args.gcause)
    return check(args.gcause)


if __name__ == "__main__":
    sys.exit(main())
