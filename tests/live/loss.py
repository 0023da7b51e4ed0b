# SPDX-License-Identifier: Apache-2.0
"""What is lost is told, and nothing is concluded from it.

20 streams of 25 chunks a second, and gcause with a ring buffer of 64 KiB. The first run loses nothing and sees
every chunk. In the others gcause is stopped for three seconds, so that the buffer overflows. Then the losses are
counted and lie around the stop; all chunks before and behind it are seen, but for responses that were cut; a gap that
touches a loss has no verdict and is in no distribution; no other gap hides a chunk; and the summary and the text
report say how many there are. A response with a length goes on behind the stop, with a gap that is not judged; one
in chunks of HTTP has lost its place, ends as truncated, and the next one is seen.

Needs root and a kernel with BTF.
"""
import argparse
import bisect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import truth

RING_KIB = 64
BEFORE, STOPPED = 3, 3  # seconds
STREAMS, INTERVAL = 20, 40 * truth.MS
NEAR = 15 * truth.MS  # how far gcause and the client may be apart on a delivery


class LossRun(truth.Run):
    """Streams that go on behind the stop, and gcause with a small buffer."""

    def outputs(self):
        return ["-o", self.path("gcause.jsonl"), "-o", self.path("gcause.txt"), "--ring-size", str(RING_KIB)]

    def client_options(self):
        return ["--streams", str(STREAMS), "--keep-alive", str(self.turns()), "--scenario", "plain"]

    def turns(self):
        """Responses on a connection. One with a length lasts as long as four in chunks."""
        return 1 if self.args.framing == "length" else 4

    def chunks(self):
        """Of a response."""
        return 300 // self.turns()

    def query(self):
        return "chunks=%d&interval_ms=%d&framing=%s" % (self.chunks(), INTERVAL / truth.MS, self.args.framing)

    def beside(self, gcause):
        """Stops gcause in the midst of the streams, if this run is to lose something."""
        self.stop = None
        if not self.args.stop:
            return
        time.sleep(BEFORE)
        begin = time.monotonic_ns()
        gcause.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED)
        self.stop = begin, time.monotonic_ns()
        gcause.send_signal(signal.SIGCONT)


def touches(gap, losses):
    return any(lost["from_ns"] <= gap["to_ns"] and gap["from_ns"] <= lost["to_ns"] for lost in losses)


def of_type(records, kind):
    return [record for record in records if record["type"] == kind]


def judge_losses(run, judge):
    """Losses are there, and where they belong. Returns them."""
    losses = of_type(run.seen, "lost")
    if run.stop is None:
        judge.expect(not losses, "lost without a stop: %s", losses)
        return losses
    judge.expect({lost["where"] for lost in losses} == {"ring-buffer"}, "lost in %s", losses)
    judge.expect(all(lost["to_ns"] >= run.stop[0] for lost in losses), "lost before the stop: %s", losses)
    covered = [lost for lost in losses if lost["from_ns"] <= run.stop[0] + 100 * truth.MS
               and lost["to_ns"] >= run.stop[1]]
    judge.expect(len(covered) >= 1, "no loss covers the stop %s: %s", run.stop, losses)
    return losses


def judge_chunks(run, judge, losses):
    """Seen and lost chunks make up those of the client."""
    mine, seen = of_type(run.client, "chunk"), of_type(run.seen, "chunk")
    missing = len(mine) - len(seen)
    lost = sum(record["count"] for record in losses)
    if run.stop is None:
        judge.expect(missing == 0, "%d chunks are missing", missing)
        return missing, lost
    judge.expect(0 < missing, "nothing is missing, though %d records were lost", lost)
    # Of each chunk at least one record was lost, or its response was cut by the loss of another.
    cut = sum(run.chunks() for stream in of_type(run.seen, "stream") if stream["end"] == "truncated")
    judge.expect(missing <= lost + cut, "%d chunks are missing, but only %d records and %d cut chunks", missing, lost,
                 cut)
    judge.expect((cut > 0) == (run.args.framing == "chunked"), "%d chunks of responses were cut", cut)
    ahead, behind = [[sum(1 for chunk in chunks if lies(chunk[key])) for chunks, key in
                      ((mine, "ns"), (seen, "delivery_ns"))]
                     for lies in (lambda ns: ns < run.stop[0] - NEAR, lambda ns: ns > run.stop[1] + 4 * 10**9)]
    judge.expect(abs(ahead[0] - ahead[1]) <= STREAMS, "before the stop: %d chunks, %d seen", *ahead)
    judge.expect(abs(behind[0] - behind[1]) <= STREAMS, "long behind the stop: %d chunks, %d seen", *behind)
    return missing, lost


def judge_gaps(run, judge, losses):
    """Gaps that touch a loss are not judged; the others are gaps of the client."""
    gaps = of_type(run.seen, "gap")
    summary = of_type(run.seen, "summary")[0]
    hit = [gap for gap in gaps if touches(gap, losses)]
    above = [gap for gap in gaps if gap["over_budget"]]
    unjudged = [gap for gap in hit if gap["over_budget"]]
    judge.expect(all(gap["verdict"] is None for gap in hit), "a gap with a loss has a verdict")
    judge.expect(all((gap["verdict"] is None) == touches(gap, losses) for gap in above),
                 "a gap above the budget has no verdict and no loss")
    judge.expect(summary["gaps_with_loss"] == len(hit), "gaps_with_loss %d, but %d gaps touch a loss",
                 summary["gaps_with_loss"], len(hit))
    judge.expect(summary["unjudged"] == len(unjudged), "unjudged %d, not %d", summary["unjudged"], len(unjudged))
    judge.expect(summary["gap"]["count"] == len(gaps) - len(hit), "%d gaps in the distribution, not %d",
                 summary["gap"]["count"], len(gaps) - len(hit))
    judge.expect(summary["lost"] == sum(lost["count"] for lost in losses), "lost %d", summary["lost"])
    share = round(len(unjudged) / len(above), 6) if above else None
    judge.expect(summary["unjudged_share"] == share, "unjudged_share %s, not %s", summary["unjudged_share"], share)
    judge_text(run, judge, len(unjudged), len(above))
    if run.stop is not None and run.args.framing == "length":
        judge.expect(len(unjudged) >= STREAMS // 2, "only %d gaps span the stop", len(unjudged))
    judge_reality(run, judge, [gap for gap in gaps if not touches(gap, losses)])
    return len(hit), len(unjudged), len(gaps)


def judge_text(run, judge, unjudged, above):
    with open(run.path("gcause.txt")) as text:
        said = re.search(r"unjudged: (\d+) of (\d+) gaps? above the budget spans? lost records: no verdict",
                         text.read())
    figures = tuple(map(int, said.groups())) if said else (0, None)
    judge.expect(figures[0] == unjudged and (not unjudged or figures[1] == above),
                 "the report says %s of %s, not %d of %d", *figures, unjudged, above)


def judge_reality(run, judge, gaps):
    """Where one of these gaps is long enough to hide a chunk, it is one of the client's, too."""
    times = {}
    for chunk in of_type(run.client, "chunk"):
        times.setdefault(chunk["stream"], []).append(chunk["ns"])

    def is_real(gap):
        for mine in times.values():
            at = bisect.bisect_left(mine, gap["from_ns"] - NEAR)
            for place in range(at, min(at + 3, len(mine) - 1)):
                if abs(mine[place] - gap["from_ns"]) <= NEAR and abs(mine[place + 1] - gap["to_ns"]) <= NEAR:
                    return True
        return False

    long = [gap for gap in gaps if gap["gap_ns"] > 1.7 * INTERVAL]
    made_up = [gap for gap in long if not is_real(gap)]
    # A loss that is not told makes one in each stream. A busy machine may make some, where it keeps the client off its
    # CPU between the read and its next line.
    judge.expect(len(made_up) < STREAMS // 2, "%d of %d long gaps are none of the client's: %s", len(made_up),
                 len(long), made_up[:1])


def one(args, framing, stop):
    args.stop, args.framing = stop, framing
    with tempfile.TemporaryDirectory() as folder:
        run, judge = LossRun(args, args.python, "asyncio", "plain", False, folder), truth.Judge()
        run.go()
        losses = judge_losses(run, judge)
        missing, lost = judge_chunks(run, judge, losses)
        hit, unjudged, gaps = judge_gaps(run, judge, losses)
    print("%-4s %-8s %-12s %d records lost, %d chunks missing; %d of %d gaps touch a loss, %d above the budget" % (
        "FAIL" if judge.faults else "ok", framing, "stopped" if stop else "not stopped", lost, missing, hit, gaps, unjudged),
        flush=True)
    for fault in judge.faults[:5]:
        print("       " + fault, flush=True)
    return not judge.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", required=True)
    args = parser.parse_args()
    args.without = []
    held = [one(args, *case) for case in (("chunked", False), ("chunked", True), ("length", True))]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
