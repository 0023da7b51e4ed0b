# SPDX-License-Identifier: Apache-2.0
"""Makes the raw captures of the replay tests anew, from live runs of the lab client.

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

CASES = [(mode, tls, scenario)
         for mode, tls in (("asyncio", False), ("asyncio", True), ("sync", False), ("sync", True))
         for scenario in ("guilty", "innocent")] + [("sync", False, "other-thread"),
                                                     ("asyncio", True, "busy")]


class CaptureRun(truth.Run):
    """A short run that leaves a raw capture."""

    def outputs(self):
        name = "%s_%s_%s.gcraw" % (self.mode, "tls" if self.tls else "plain",
                                    self.scenario.replace("-", "_"))
        return ["-o", self.path("gcause.jsonl"), "--raw-capture", os.path.join(HERE, "data", name)]

    def query(self):
        return super().query().replace("chunks=150", "chunks=60").replace("chunks=100", "chunks=60")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", required=True)
    args = parser.parse_args()
    args.without = []
    for mode, tls, scenario in CASES:
        with tempfile.TemporaryDirectory() as folder:
            if tls:
                subprocess.run([os.path.join(truth.LAB, "certs.sh"), folder], check=True,
                               stdout=subprocess.DEVNULL)
            CaptureRun(args, args.python, mode, scenario, tls, folder).go()


if __name__ == "__main__":
    main()
