# SPDX-License-Identifier: Apache-2.0
"""Collections of interpreters that one thread made and others run: each is seen, and told of the right interpreter.

CPython 3.12 runs such an interpreter with the thread state of its maker, which names another thread than the one
that collects. USDT probes do not say whose collection it is, so there the interpreter is not compared.

Exits with 0 only if all holds. Needs root and a kernel with BTF.
"""
import argparse
import collections
import os
import sys
import tempfile

import followed
import forms

INTERPRETERS = 3
ROUNDS = 4  # manual collections of each generation and interpreter


def check(gcause, interpreter):
    with tempfile.TemporaryDirectory() as folder:
        launch = forms.Launch(interpreter, "as-is", folder)
        with followed.Followed(launch, "lent_state_target.py", str(INTERPRETERS), str(ROUNDS)) as run:
            run.record(gcause, os.path.join(folder, "gcause.jsonl"))
            run.tell("go")
            run.expect("done")
            run.end_recording()
            run.end_target()
            seen = run.seen()
    manual = [pause for pause in followed.pauses(seen) if pause["reason"] == "manual"]
    by_usdt = followed.method(seen) == "usdt"
    counted = collections.Counter((None if by_usdt else pause["interpreter"], pause["generation"])
                                  for pause in manual)
    wanted = collections.Counter()
    for number in range(1, INTERPRETERS + 1):
        for generation in range(3):
            wanted[None if by_usdt else number, generation] += ROUNDS
    holds = counted == wanted
    print("%-4s %-11s %-8s %-6s %d manual collections%s" % (
        "ok" if holds else "FAIL", interpreter.name, interpreter.version, followed.method(seen), len(manual),
        "" if holds else ": %s, not %s" % (sorted(counted.items(), key=str), sorted(wanted.items(), key=str))))
    sys.stdout.flush()
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--interpreter", action="append", help="name, as scripts/interpreters lists it")
    args = parser.parse_args()
    found = [each for each in forms.chosen(args.interpreter)
             if tuple(map(int, each.version.split(".")[:2])) >= (3, 12)]
    results = [check(args.gcause, interpreter) for interpreter in found]
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
