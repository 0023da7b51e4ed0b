# SPDX-License-Identifier: Apache-2.0
"""The report of a recording equals the live output, byte for byte.

Records one run of the lab client into JSON lines and into a recording at once, replays the recording, and
compares. Needs root and a kernel with BTF.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import truth


class BothRun(truth.Run):
    """A run that leaves gcause.jsonl and gcause.gcause."""

    def outputs(self):
        return ["-o", self.path("gcause.jsonl"), "-o", self.path("gcause.gcause")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", required=True)
    args = parser.parse_args()
    args.without = []
    equal = 0
    for mode, tls in (("asyncio", True), ("threads", False)):
        with tempfile.TemporaryDirectory() as folder:
            if tls:
                subprocess.run([os.path.join(truth.LAB, "certs.sh"), folder], check=True,
                               stdout=subprocess.DEVNULL)
            run = BothRun(args, args.python, mode, "guilty", tls, folder)
            run.go()
            subprocess.run([args.gcause, "report", run.path("gcause.gcause"), "--chunks", "-o",
                            run.path("replayed.jsonl")], check=True)
            with open(run.path("gcause.jsonl"), "rb") as live, open(run.path("replayed.jsonl"), "rb") as again:
                same = live.read() == again.read()
            print("%-4s %s %s: %d lines" % ("ok" if same else "FAIL", mode, "tls" if tls else "plain",
                                             len(run.seen)))
            equal += same
    sys.exit(0 if equal == 2 else 1)


if __name__ == "__main__":
    main()
