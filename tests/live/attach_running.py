# SPDX-License-Identifier: Apache-2.0
"""Attach while 50 streams run: each is reported from its next chunk on, and nothing that was not there.

The client reads 50 streams, and behind each a second one on the same connection. gcause is attached in the
midst of the first 50. Of each of these it has to report every chunk that was sent after it said that it records, in
a row up to the last, and none that the client had before gcause was started; and all of the second 50. Whose chunks
a reported stream has follows from the times: each was sent before its delivery, and the client had it after that
(tests/clients/stream_judge.py). Plain and TLS, with one event loop and with a thread for each stream; there
the chunk that a call of the TLS library waits for at the attach may be missing, as a probe sees no call that it did
not see begin.

Needs root and a kernel with BTF.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import truth

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "clients"))
from stream_judge import LateJudge, by_tag, sends_of  # noqa: E402

STREAMS, CHUNKS, INTERVAL_MS = 50, 100, 50
ATTACH_AFTER = 2  # seconds; the first streams take five
ROWS = [(mode, tls) for mode in ("asyncio", "threads") for tls in (False, True)]


class LateRun(truth.Run):
    """The lab client, which reads before gcause comes."""

    def client_options(self):
        return ["--streams", str(STREAMS), "--keep-alive", "2", "--scenario", "plain", "--stagger-ms", "7"]

    def query(self):
        return "chunks=%d&interval_ms=%d&jitter_ms=40&named=1" % (CHUNKS, INTERVAL_MS)

    def go(self):
        self.begin()
        self.release()
        time.sleep(ATTACH_AFTER)
        self.started = time.monotonic_ns()
        gcause = self.attach()
        self.active = time.monotonic_ns()
        self.finish(gcause)


def one(args, mode, tls):
    with tempfile.TemporaryDirectory() as folder:
        if tls:
            subprocess.run([os.path.join(truth.LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
        run = LateRun(args, args.python, mode, "plain", tls, folder)
        run.go()
    mine = by_tag(run.client)
    judge = LateJudge(run.seen, mine, sends_of(run.origin), run.started, run.active,
                      unseen=int(tls and mode == "threads"))
    judge.judge()
    running = sum(1 for times in mine.values() if times[0] < run.started and times[-1] > run.active)
    judge.faults.expect(len(mine) == 2 * STREAMS and running == STREAMS, "run", "%d of %d streams ran at the attach",
                        running, len(mine))
    print("%-4s %-8s %-5s attach took %3.0f ms; %s" % (
        "FAIL" if judge.faults else "ok", mode, "tls" if tls else "plain", (run.active - run.started) / truth.MS,
        judge.summary()), flush=True)
    for line in judge.faults.lines():
        print("       " + line, flush=True)
    return not judge.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", required=True)
    args = parser.parse_args()
    args.without = []
    held = [one(args, *row) for row in ROWS]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
