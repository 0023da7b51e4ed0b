# SPDX-License-Identifier: Apache-2.0
"""The judge on a recording made by hand: it accepts what is right, and catches each kind of wrong. Needs nothing."""
import copy
import unittest

from stream_judge import MS, Judge, LateJudge, Names, Want, judge_first_chunks, judge_links

PEER = "127.0.0.1:80"
TAGS = ("a", "b")
CHUNKS = 4
NAMES = Names(PEER, PEER, "http/1.1", False, "read")


def times(tag, index):
    """(sent, arrival, read, delivery, had) of a chunk, ns."""
    at = (1000 + 20 * index + 7 * TAGS.index(tag)) * MS
    return at, at + MS, at + 2 * MS, at + 3 * MS, at + 4 * MS


def recording(tags=TAGS, direction="read", first_id=1, skip=0):
    """What gcause says of these streams, from chunk `skip` on."""
    seen = []
    for stream, tag in enumerate(tags, first_id):
        for index in range(skip, CHUNKS):
            _, arrival, read, delivery, _ = times(tag, index)
            seen.append({"type": "chunk", "stream": stream, "index": index - skip, "arrival_ns": arrival,
                         "read_ns": read, "delivery_ns": delivery, "source": None})
            if index > skip:
                before = times(tag, index - 1)[3]
                seen.append({"type": "gap", "stream": stream, "index": index - skip, "from_ns": before,
                             "to_ns": delivery, "gap_ns": delivery - before})
        seen.append({"type": "stream", "id": stream, "direction": direction, "model": tag, "host": PEER, "peer": PEER,
                     "protocol": "http/1.1", "tls": False, "end": "done", "chunks": CHUNKS - skip,
                     "first_chunk_ns": times(tag, 0)[3] - 990 * MS})
    return seen


TRUTH = {tag: [times(tag, index)[4] for index in range(CHUNKS)] for tag in TAGS}
SENDS = {(tag, index): times(tag, index)[0] for tag in TAGS for index in range(CHUNKS)}
WANTS = [Want(tag, CHUNKS, frozenset(("done",)), True) for tag in TAGS]


def judged(seen, wants=WANTS, truth=TRUTH, sends=SENDS, names=NAMES):
    judge = Judge(seen, wants, names, truth, sends)
    return judge, judge.judge()


class Right(unittest.TestCase):
    def test_all_of_it(self):
        judge, pairs = judged(recording())
        self.assertFalse(judge.faults, list(judge.faults.lines()))
        self.assertEqual({tag: stream["id"] for tag, stream in pairs.items()}, {"a": 1, "b": 2})
        judge_first_chunks(judge, pairs, {tag: 991 * MS for tag in TAGS}, {tag: 980 * MS for tag in TAGS})
        self.assertFalse(judge.faults, list(judge.faults.lines()))

    def test_more_may_be_seen_of_a_stream_that_the_program_left(self):
        truth = dict(TRUTH, b=TRUTH["b"][:2])
        wants = [WANTS[0], Want("b", 2, frozenset(("done",)), False)]
        self.assertFalse(judged(recording(), wants, truth)[0].faults)

    def test_an_arrival_that_is_not_known(self):
        seen = recording()
        seen[0]["arrival_ns"] = None
        self.assertFalse(judged(seen)[0].faults)


def change(kind, number=0, **fields):
    def apply(seen):
        [record for record in seen if record["type"] == kind][number].update(fields)

    return apply


def remove(kind):
    def apply(seen):
        seen.remove(next(record for record in seen if record["type"] == kind))

    return apply


class Wrong(unittest.TestCase):
    CASES = {
        "a chunk is missing": (remove("chunk"), "chunks"),
        "a gap is missing": (remove("gap"), "gaps"),
        "a stream is missing": (remove("stream"), "streams"),
        "the stream counts otherwise": (change("stream", chunks=CHUNKS + 1), "chunks"),
        "a chunk has another number": (change("chunk", index=9), "chunks"),
        "a gap of another length": (change("gap", gap_ns=1), "gaps"),
        "a gap between other moments": (change("gap", from_ns=1), "gaps"),
        "another end": (change("stream", end="truncated"), "ends"),
        "another model": (change("stream", model="c"), "model"),
        "no model": (change("stream", model=None), "model"),
        "the model of another": (change("stream", model="b"), "model"),
        "another host": (change("stream", host="elsewhere"), "host"),
        "another peer": (change("stream", peer=None), "peer"),
        "another protocol": (change("stream", protocol="h2"), "protocol"),
        "TLS where there is none": (change("stream", tls=True), "tls"),
        "an arrival before the send": (change("chunk", arrival_ns=times("a", 0)[0] - MS), "times"),
        "a read before the arrival": (change("chunk", read_ns=times("a", 0)[1] - MS), "times"),
        "a delivery behind the program's own time": (change("chunk", delivery_ns=times("a", 0)[4] + MS), "times"),
        "records were lost": (lambda seen: seen.append({"type": "lost", "count": 1}), "lost"),
        "a stream that was not": (lambda seen: seen.extend(recording(("b",), first_id=9)), "streams"),
    }

    def test_each_is_caught(self):
        for name, (apply, about) in self.CASES.items():
            with self.subTest(name):
                seen = copy.deepcopy(recording())
                apply(seen)
                self.assertIn(about, judged(seen)[0].faults.texts)

    def test_gaps_that_are_off(self):
        seen = recording()
        for record in seen:
            if record["type"] == "chunk" and record["index"] % 2:
                for field in ("read_ns", "delivery_ns"):
                    record[field] -= 2.5 * MS
                record["arrival_ns"] = None
        sends = {key: ns - 5 * MS for key, ns in SENDS.items()}
        self.assertIn("durations", judged(seen, sends=sends)[0].faults.texts)

    def test_a_first_chunk_that_took_too_long_or_too_short(self):
        for took in (1 * MS, 500 * MS, None):
            seen = recording()
            change("stream", first_chunk_ns=took)(seen)
            judge, pairs = judged(seen)
            judge_first_chunks(judge, pairs, {tag: 991 * MS for tag in TAGS}, {tag: 980 * MS for tag in TAGS})
            self.assertIn("first chunk", judge.faults.texts)


class Gateway(unittest.TestCase):
    def links(self, source_of):
        seen = recording() + recording(direction="write", first_id=3)
        for record in seen:
            if record["type"] == "chunk" and record["stream"] > 2:
                record["source"] = source_of(record)
        read, read_pairs = judged(seen)
        written, written_pairs = judged(seen, names=NAMES._replace(direction="write"))
        self.assertFalse(read.faults or written.faults)
        return judge_links(written, read_pairs, written_pairs), written.faults

    def test_right(self):
        figures, faults = self.links(lambda record: {"stream": record["stream"] - 2, "index": record["index"]})
        self.assertEqual(figures, (2 * CHUNKS, 0, 0))
        self.assertFalse(faults)

    def test_missing_and_wrong(self):
        for source_of in (lambda record: None, lambda record: {"stream": 1, "index": record["index"]},
                          lambda record: {"stream": record["stream"] - 2, "index": 0}):
            self.assertIn("links", self.links(source_of)[1].texts)


class Late(unittest.TestCase):
    """gcause came between the first and the second chunk."""

    def judged(self, seen, started=1010 * MS, active=1015 * MS):
        judge = LateJudge(seen, TRUTH, SENDS, started, active)
        judge.judge()
        return judge

    def test_from_the_next_chunk_on(self):
        judge = self.judged(recording(skip=1))
        self.assertFalse(judge.faults, list(judge.faults.lines()))
        self.assertEqual((judge.met, judge.whole), (2, 0))

    def test_models_may_be_unknown(self):
        seen = recording(skip=1)
        for record in seen:
            if record["type"] == "stream":
                record["model"] = None
        self.assertFalse(self.judged(seen).faults)

    def test_later_than_the_next(self):
        self.assertIn("chunks", self.judged(recording(skip=2)).faults.texts)

    def test_a_chunk_from_before(self):
        self.assertIn("chunks", self.judged(recording(), started=1016 * MS, active=1017 * MS).faults.texts)

    def test_a_hole(self):
        seen = recording(skip=1)
        seen.remove(next(record for record in seen if record["type"] == "chunk" and record["index"] == 1))
        self.assertIn("streams", self.judged(seen).faults.texts)

    def test_one_is_missing_or_invented(self):
        self.assertIn("streams", self.judged(recording(("a",), skip=1)).faults.texts)
        self.assertIn("streams", self.judged(recording(skip=1) + recording(("a",), first_id=9, skip=1)).faults.texts)


if __name__ == "__main__":
    unittest.main()
