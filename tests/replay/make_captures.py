# SPDX-License-Identifier: Apache-2.0
"""Makes the raw captures of the replay tests anew, from live runs of the lab client and of servers.

    python3 tests/replay/make_captures.py --gcause build/gcause --python /usr/bin/python3

Afterwards run the replay tests once with GCAUSE_UPDATE_GOLDEN=1, and read what changed.
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "live"))
import truth  # noqa: E402
import written  # noqa: E402

CASES = [(mode, tls, scenario)
         for mode, tls in (("asyncio", False), ("asyncio", True), ("sync", False), ("sync", True))
         for scenario in ("guilty", "innocent")] + [("sync", False, "other-thread"),
                                                     ("asyncio", True, "busy")]


WRITTEN = [("gateway", "asyncio", "guilty", True), ("server", "threads", "innocent", False)]


def outputs_of(run, name):
    """The JSON lines, and a raw capture under this name."""
    return ["-o", run.path("gcause.jsonl"), "--raw-capture", os.path.join(HERE, "data", name + ".gcraw")]


class CaptureRun(truth.Run):
    """A short run that leaves a raw capture."""

    def outputs(self):
        return outputs_of(self, "%s_%s_%s" % (self.mode, "tls" if self.tls else "plain",
                                              self.scenario.replace("-", "_")))

    def query(self):
        return super().query().replace("chunks=150", "chunks=60").replace("chunks=100", "chunks=60")


class WrittenRun(written.Run):
    """A run of a server with few clients."""

    def outputs(self):
        return outputs_of(self, "%s_%s_%s_%s" % (self.kind, self.mode, "tls" if self.tls else "plain",
                                                 self.scenario))


def capture_written(args):
    """Two clients, one stream each."""
    written.CLIENTS, written.ROUNDS = 2, 1
    for case in WRITTEN:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.path.join(truth.LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
            WrittenRun(args, *case, folder).go()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--written", action="store_true", help="only those of servers")
    args = parser.parse_args()
    args.without = []
    capture_written(args)
    if args.written:
        return
    for mode, tls, scenario in CASES:
        with tempfile.TemporaryDirectory() as folder:
            if tls:
                subprocess.run([os.path.join(truth.LAB, "certs.sh"), folder], check=True,
                               stdout=subprocess.DEVNULL)
            CaptureRun(args, args.python, mode, scenario, tls, folder).go()


if __name__ == "__main__":
    main()
