# SPDX-License-Identifier: Apache-2.0
"""Holds what gcause says of streams against both ends: what one end sent, and what the other end had when.

All clocks are CLOCK_MONOTONIC of one machine, so most of it needs no tolerance. Of a stream that the target reads

    send of the chunk <= arrival <= read <= delivery <= the program has it

holds for each chunk, and of one that it writes

    the program hands it over <= delivery

The model of each stream is its tag, which pairs the sides. Counts are exact.
"""
import collections

MS = 1_000_000
SLACK = 200_000  # ns by which an order of two times may be missed: a clock is read in two places
# A thread that finds more to read without waiting sleeps for the interpreter lock in the same place as one that has just
# read: such a chunk is taken to be delivered when it woke, that is late, by a switch interval or two.
BEHIND_SHARE, BEHIND_MOST = 0.005, 15 * MS
NEAR_P50, NEAR_P95 = 2 * MS, 12 * MS  # of the differences between two measurements of one gap

Want = collections.namedtuple("Want", "tag chunks end exact")
Want.__doc__ = """What has to be said of a stream. `chunks` that the program took; where it is not `exact`, as the
program went away, gcause may have seen more, as far as they were sent. `end` is a set of the words that are right."""

Names = collections.namedtuple("Names", "host peer protocol tls direction")


class Faults:
    """What does not hold, by what it is about."""

    def __init__(self):
        self.texts = collections.OrderedDict()

    def expect(self, holds, about, text, *values):
        if not holds:
            self.texts.setdefault(about, []).append(text % values if values else text)
        return holds

    def __bool__(self):
        return bool(self.texts)

    def lines(self, each=2):
        """Some of each kind, with the number of the rest."""
        for about, texts in self.texts.items():
            for text in texts[:each]:
                yield "%s: %s" % (about, text)
            if len(texts) > each:
                yield "%s: %d more" % (about, len(texts) - each)


def of_type(objects, kind):
    return [each for each in objects if each["type"] == kind]


def by_tag(records, field="ns"):
    """{tag: times} of the chunks in a program's log."""
    times = {}
    for record in of_type(records, "chunk"):
        times.setdefault(record["stream"], []).append(record[field])
    return times


def sends_of(records, field="from_ns"):
    """{(tag, index): time} of what a side says that it sent."""
    return {(record["stream"], record["index"]): record[field] for record in of_type(records, "send")}


def quantile(values, share):
    values = sorted(values)
    return values[int(share * (len(values) - 1))] if values else 0


class Judge:
    """One recording. `truth` is {tag: times} of the reading program, `sends` {(tag, index): time} of the sender.
    `passed_on`: threads share a connection, and the one that reads a chunk gives it to the one that waits for it. A
    delivery is to the former, `truth` is of the latter, and the two go on at different times. `shared`: streams share a
    connection, so that one read brings chunks of several, and the program is long at work on one before it has the next:
    its gaps say little of the gaps between deliveries."""

    def __init__(self, seen, wants, names, truth, sends, shared=False, passed_on=False):
        self.shared, self.passed_on = shared, passed_on
        self.seen, self.wants, self.names = seen, wants, names
        self.truth, self.sends = truth, sends
        self.faults = Faults()
        self.behind = []  # texts: deliveries behind the program's own time
        self.off = []  # differences between two measurements of one gap, ns
        self.streams = [each for each in of_type(seen, "stream") if each["direction"] == names.direction]
        self.chunks, self.gaps = {}, {}
        for record in seen:
            if record["type"] in ("chunk", "gap"):
                kind = self.chunks if record["type"] == "chunk" else self.gaps
                kind.setdefault(record["stream"], []).append(record)

    def judge(self):
        """Fills `faults`. Gives {tag: stream} of what could be paired."""
        pairs = self.pair()
        for want in self.wants:
            if want.tag in pairs:
                self.judge_stream(want, pairs[want.tag])
        total = sum(len(self.chunks.get(each["id"], ())) for each in self.streams)
        self.faults.expect(not of_type(self.seen, "lost"), "lost", "%s", of_type(self.seen, "lost"))
        if len(pairs) < len(self.wants):
            self.faults.expect(False, "chunks", "%d seen in all, %d are the truth", total,
                               sum(want.chunks for want in self.wants))
        if len(self.behind) > BEHIND_SHARE * total:
            self.faults.texts.setdefault("times", []).extend(self.behind)
        p50, p95 = quantile(self.off, 0.5), quantile(self.off, 0.95)
        near = self.shared or (p50 <= NEAR_P50 and p95 <= NEAR_P95)
        self.faults.expect(near, "durations",
                           "gaps are off by %.2f ms at p50 and %.2f ms at p95", p50 / MS, p95 / MS)
        return pairs

    def pair(self):
        pairs, tags = {}, {want.tag for want in self.wants}
        self.faults.expect(len(self.streams) == len(self.wants), "streams", "%d seen, %d are the truth",
                           len(self.streams), len(self.wants))
        for stream in self.streams:
            model = stream["model"]
            if not self.faults.expect(model in tags, "model", "stream %d has model %r", stream["id"], model):
                continue
            if self.faults.expect(model not in pairs, "model", "two streams have model %r", model):
                pairs[model] = stream
        return pairs

    def judge_stream(self, want, stream):
        expect = self.faults.expect
        chunks = sorted(self.chunks.get(stream["id"], ()), key=lambda each: each["index"])
        count = len(chunks)
        sent = sum(1 for tag, _ in self.sends if tag == want.tag)
        exact = count == want.chunks if want.exact else want.chunks <= count <= sent
        expect(exact and stream["chunks"] == count, "chunks", "%s: %d chunks, %d records; the truth is %d%s", want.tag,
               stream["chunks"], count, want.chunks, "" if want.exact else " to %d" % sent)
        expect([each["index"] for each in chunks] == list(range(count)), "chunks", "%s: not numbered from 0", want.tag)
        expect(stream["end"] in want.end, "ends", "%s ended as %s, not %s", want.tag, stream["end"],
               " or ".join(sorted(want.end)))
        for field in ("host", "peer", "protocol", "tls"):
            right = getattr(self.names, field)
            expect(right is None or stream[field] == right, field, "%s has %r, not %r", want.tag, stream[field], right)
        self.judge_times(want.tag, chunks)
        self.judge_gaps(want.tag, stream, chunks)

    def judge_times(self, tag, chunks):
        """The order of what happened to each chunk, and its gap as the program measured it."""
        times, reading = self.truth.get(tag, ()), self.names.direction == "read"
        before = None
        for chunk, had in zip(chunks, times):
            sent = self.sends.get((tag, chunk["index"]))
            steps = [("send", sent), ("delivery", chunk["delivery_ns"])]
            if reading:
                steps[1:1] = [("arrival", chunk["arrival_ns"]), ("read", chunk["read_ns"])]
                steps.append(("the program", had))
            if self.passed_on:
                del steps[-2]
            known = [step for step in steps if step[1] is not None]
            for (first, a), (second, b) in zip(known, known[1:]):
                text = "%s, chunk %d: %s %.2f ms before %s" % (tag, chunk["index"], second, (a - b) / MS, first)
                if first == "delivery" and SLACK < a - b <= BEHIND_MOST:
                    self.behind.append(text)
                else:
                    self.faults.expect(a <= b + SLACK, "times", "%s", text)
            if before is not None and not self.passed_on:
                self.off.append(abs((chunk["delivery_ns"] - before[0]) - (had - before[1])))
            before = chunk["delivery_ns"], had

    def judge_gaps(self, tag, stream, chunks):
        """A gap between each two chunks, as long as their deliveries are apart."""
        gaps = {gap["index"]: gap for gap in self.gaps.get(stream["id"], ())}
        self.faults.expect(len(gaps) == max(0, len(chunks) - 1), "gaps", "%s: %d gaps of %d chunks", tag, len(gaps),
                           len(chunks))
        for first, second in zip(chunks, chunks[1:]):
            gap = gaps.get(second["index"])
            right = (first["delivery_ns"], second["delivery_ns"])
            self.faults.expect(gap is not None and (gap["from_ns"], gap["to_ns"]) == right
                               and gap["gap_ns"] == right[1] - right[0], "gaps", "%s: gap %d is %s, not %s", tag,
                               second["index"], gap and (gap["from_ns"], gap["to_ns"]), right)


def judge_first_chunks(judge, pairs, requests, begins):
    """Time to first chunk: at least from the moment at which the server had read the request to the sending, at
    most what the program waited. `requests` is {tag: time}, `begins` {tag: time at which the program asked}."""
    for tag, stream in pairs.items():
        took, times = stream["first_chunk_ns"], judge.truth.get(tag)
        if not times:
            continue
        sent = judge.sends[tag, 0]
        if not judge.faults.expect(took is not None, "first chunk", "%s: not known", tag):
            continue
        least, most = sent - requests[tag], times[0] - begins[tag]
        if judge.passed_on:
            most = max(most, took)
        judge.faults.expect(least - SLACK <= took <= most + SLACK, "first chunk", "%s: %.2f ms, not %.2f to %.2f", tag,
                            took / MS, least / MS, most / MS)


def judge_links(judge, read_pairs, written_pairs):
    """Each chunk that a gateway wrote names the one that it had read: same stream, same place. Gives the number of
    links that are right, missing and wrong."""
    right = missing = wrong = 0
    for tag, written in written_pairs.items():
        source_stream = read_pairs[tag]["id"] if tag in read_pairs else None
        for chunk in judge.chunks.get(written["id"], ()):
            source = chunk["source"]
            if source is None:
                missing += 1
            elif (source["stream"], source["index"]) == (source_stream, chunk["index"]):
                right += 1
            else:
                wrong += 1
    judge.faults.expect(not missing and not wrong and right, "links", "%d right, %d missing, %d wrong", right, missing,
                        wrong)
    return right, missing, wrong


class LateJudge:
    """A recording that was begun while streams ran: gcause was started at `started` and said at `active` that it
    records. Whole streams are judged, and those that it met. `unseen`: chunks that may be missing of a stream that it
    met, as the call that brought them had begun before."""

    def __init__(self, seen, truth, sends, started, active, unseen=0):
        self.unseen = unseen
        self.seen, self.truth, self.sends = seen, truth, sends
        self.started, self.active = started, active
        self.faults = Faults()
        self.met = self.whole = 0
        self.chunks = {}
        for record in of_type(seen, "chunk"):
            self.chunks.setdefault(record["stream"], []).append(record)

    def judge(self):
        taken = {}
        for stream in of_type(self.seen, "stream"):
            tag = self.owner(stream)
            if tag is None:
                continue
            if self.faults.expect(tag not in taken, "streams", "%s is reported twice", tag):
                taken[tag] = stream
        for tag, times in self.truth.items():
            due = sum(1 for index in range(len(times)) if self.sends[tag, index] >= self.active)
            if due and self.faults.expect(tag in taken, "streams", "%s is not reported: %d chunks after the attach",
                                          tag, due):
                self.judge_stream(tag, taken[tag], due)
        self.faults.expect(not of_type(self.seen, "lost"), "lost", "%s", of_type(self.seen, "lost"))

    def owner(self, stream):
        """The tag of the one stream whose last chunks can be these."""
        deliveries = [chunk["delivery_ns"] for chunk in self.chunks.get(stream["id"], ())]
        if not self.faults.expect(deliveries, "streams", "stream %d has no chunk", stream["id"]):
            return None
        fitting = [tag for tag in self.truth if self.fits(tag, deliveries)]
        if stream["model"] is not None:
            fitting = [tag for tag in fitting if tag == stream["model"]]
        self.faults.expect(len(fitting) == 1, "streams", "stream %d (model %s) with %d chunks from %d ns on is %s",
                           stream["id"], stream["model"], len(deliveries), deliveries[0], fitting or "none of the client's")
        return fitting[0] if len(fitting) == 1 else None

    def fits(self, tag, deliveries):
        times = self.truth[tag]
        first = len(times) - len(deliveries)
        return first >= 0 and all(
            self.sends[tag, first + at] - SLACK <= delivery <= times[first + at] + SLACK
            for at, delivery in enumerate(deliveries))

    def judge_stream(self, tag, stream, due):
        """`due` chunks were sent after gcause had said that it records."""
        times, reported = self.truth[tag], len(self.chunks[stream["id"]])
        possible = sum(1 for ns in times if ns > self.started)
        least = due if times[0] > self.active else due - self.unseen
        self.faults.expect(least <= reported <= possible, "chunks", "%s: %d reported, %d to %d after the attach", tag,
                           reported, least, possible)
        self.faults.expect(stream["chunks"] == reported, "chunks", "%s: %d chunks, %d records", tag, stream["chunks"],
                           reported)
        self.faults.expect(stream["end"] == "done", "ends", "%s ended as %s", tag, stream["end"])
        if reported == len(times):
            self.whole += 1
        else:
            self.met += 1

    def summary(self):
        return "%d running streams and %d whole ones reported, %d chunks" % (
            self.met, self.whole, sum(map(len, self.chunks.values())))
