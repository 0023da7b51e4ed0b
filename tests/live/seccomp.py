# SPDX-License-Identifier: Apache-2.0
"""Targets under a seccomp filter that kills at the system calls of return probes.

Each is recorded as the kernel allows it, and again as if its return probes did not survive such a filter
(--without uretprobe_seccomp). It must live, its collections and the chunks that it reads over TLS must be
all there, and in the second case gcause must have put no return probe into it. Needs root, BTF, x86-64.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys

from attach_tools import (Broken, check, CHUNKS, full_pauses, Gcause, method_of, of_type, Origin, run_rows,
                          Skip, Target)

LAB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab")
COLLECTIONS = 25


def return_probes_of(pid):
    """How many of gcause's links are return probes; each is a function's end in the target."""
    tool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    if not os.path.exists(tool):
        raise Skip("no bpftool")
    links = json.loads(subprocess.run([tool, "-j", "link"], stdout=subprocess.PIPE, check=True).stdout)
    numbers = set()
    for path in glob.glob("/proc/%d/fdinfo/*" % pid):
        with open(path) as lines:
            numbers |= {int(line.split()[1]) for line in lines if line.startswith("link_id:")}
    ours = [link for link in links if link["id"] in numbers]
    check(ours, "bpftool does not tell the links of gcause")
    return sum(1 for link in ours if link.get("retprobe") or link.get("event_type") == "uretprobe")


def record(args, python, folder, filtered, options):
    subprocess.run([os.path.join(LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
    with Origin(folder) as origin, Target([python]) as target:
        target.do("tls")
        if filtered:
            target.do("seccomp")
        with Gcause(args.gcause, target.pid, "--chunks", *options) as gcause:
            returns = return_probes_of(gcause.process.pid)
            target.do("collect", COLLECTIONS)
            target.do("stream", origin.url, os.path.join(folder, "ca.pem"))
            target.do("collect", 1)
            objects = gcause.stop()
        target.do("collect", 1)
    counts = full_pauses(objects)
    check(counts == {target.pid: COLLECTIONS + 1}, "%d collections, seen: %r", COLLECTIONS + 1, counts)
    chunks = of_type(objects, "chunk")
    check(len(chunks) == CHUNKS, "%d chunks, %d seen", CHUNKS, len(chunks))
    check(all(s["tls"] for s in of_type(objects, "stream")), "a stream that was not seen through TLS")
    wanted = bool(returns) != ("uretprobe_seccomp" in options and filtered)
    check(wanted, "%d return probes", returns)
    return "%s, %d collections, %d chunks, %d return probes" % (method_of(objects), COLLECTIONS + 1,
                                                              len(chunks), returns)


def doctor(args, python, folder, options, ends):
    with Target([python]) as target:
        target.do("seccomp")
        result = subprocess.run([args.gcause, "doctor", "-p", str(target.pid), "-f", "json", *options],
                                stdout=subprocess.PIPE)
    if result.returncode != 0:
        raise Broken("doctor ended with %d" % result.returncode)
    told = json.loads(result.stdout)["target"]["seccomp"]
    check(told == {"filtered": True, "ends": ends}, "doctor says %r", told)
    return ends


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", action="append", required=True, help="interpreter; repeatable")
    parser.add_argument("--only")
    args = parser.parse_args()
    if os.uname().machine != "x86_64":
        print("seccomp: exits are found in x86-64 code only")
        sys.exit(77)
    without = ("--without", "uretprobe_seccomp")
    events = ("--without", "uprobe_multi")
    rows = []
    for python in args.python:
        for name, filtered, options in (
                ("no filter", False, ()), ("no filter, feature switched off", False, without),
                ("filter", True, ()), ("filter, at exits", True, without),
                ("filter, at exits, perf events", True, without + events)):
            rows.append(("%s: %s" % (python, name),
                         lambda folder, p=python, f=filtered, o=options: record(args, p, folder, f, o)))
        rows.append((python + ": doctor, at exits",
                     lambda folder, p=python: doctor(args, p, folder, without, "exits")))
    run_rows(rows, args.only)


if __name__ == "__main__":
    main()
