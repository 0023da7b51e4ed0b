# SPDX-License-Identifier: Apache-2.0
"""The clients that people read streams with, each with gcause outside of it.

A client reads 20 streams of 200 chunks (--short: 10 of 60), five at a time, over connections that it keeps, and then a few that end
otherwise: with the connection, by a length, cut off, reset, left by the client. It logs when it had each chunk, and
the origin when it sent it. gcause has to have every stream and every chunk, each between the two, every gap, the
right ends and names; nothing else, and nothing lost (stream_judge.py). Some are met in the midst of their streams, too:
then every chunk that is sent after the attach.

    run.py --gcause build/gcause [--short] [--suite sid|trixie] [--only TEXT]...

A row for each client, plain and over TLS. What the suite lacks is a skip. Needs root and a kernel with BTF.
"""
import argparse
import collections
import tempfile
import time

from place import AT_ONCE, FULL, SHORT, Place, Skip, check, make_root, run_table
from stream_judge import Judge, LateJudge, Names, Want, judge_first_chunks, of_type, quantile, sends_of, by_tag

from attach_tools import Gcause  # place.py knows where it is

LATE, LATE_CHUNKS, LATE_CLIENTS = 20, 120, ("httpx async", "httpx http/2 async")
SCHEDULE = {"interval_ms": 8, "jitter_ms": 6, "first_delay_ms": 20, "size": 48}
TRANSPORTS = ("plain", "tls")

Client = collections.namedtuple("Client", "name program flags modules keeps http2 coding",
                                defaults=((), (), True, False, None))

CLIENTS = [
    # Of a chat the SDK reads no further than to its [DONE], and then closes the connection.
    Client("openai sync", "openai_client.py", (), ("openai",), keeps=False),
    Client("openai async", "openai_client.py", ("--asyncio",), ("openai",), keeps=False),
    Client("openai responses sync", "openai_client.py", ("--responses",), ("openai",)),
    Client("openai responses async", "openai_client.py", ("--responses", "--asyncio"), ("openai",)),
    Client("anthropic sync", "anthropic_client.py", (), ("anthropic",)),
    Client("anthropic async", "anthropic_client.py", ("--asyncio",), ("anthropic",)),
    Client("httpx sync", "httpx_client.py", (), ("httpx", "httpx_sse")),
    Client("httpx async", "httpx_client.py", ("--asyncio",), ("httpx", "httpx_sse")),
    Client("httpx http/2 sync", "httpx_client.py", ("--http2",), ("httpx", "httpx_sse", "h2"), http2=True),
    Client("httpx http/2 async", "httpx_client.py", ("--http2", "--asyncio"), ("httpx", "httpx_sse", "h2"), http2=True),
    Client("aiohttp", "aiohttp_client.py", (), ("aiohttp",)),
    Client("requests", "requests_client.py", (), ("requests",)),
    Client("urllib", "urllib_client.py", keeps=False),
    Client("uvloop httpx", "httpx_client.py", ("--asyncio", "--uvloop"), ("httpx", "httpx_sse", "uvloop")),
    Client("uvloop aiohttp", "aiohttp_client.py", ("--uvloop",), ("aiohttp", "uvloop")),
    Client("httpx gzip", "httpx_client.py", ("--asyncio",), ("httpx", "httpx_sse"), coding="gzip"),
    Client("httpx deflate", "httpx_client.py", ("--asyncio",), ("httpx", "httpx_sse"), coding="deflate"),
    Client("httpx br", "httpx_client.py", ("--asyncio",), ("httpx", "httpx_sse", "brotli"), coding="br"),
    Client("requests gzip", "requests_client.py", (), ("requests",), coding="gzip"),
    Client("httpx http/2 gzip", "httpx_client.py", ("--http2", "--asyncio"), ("httpx", "httpx_sse", "h2"), http2=True,
           coding="gzip"),
]


def orders_of(client, load):
    """The phases for a client, and the Want of each stream."""
    phases, wants = [[]], []

    def order(tag, query, chunks, *ends, leave=None):
        query = dict(SCHEDULE, chunks=load.chunks, **query)
        if client.coding:
            query["coding"] = client.coding
        phases[-1].append({"tag": tag, "query": query, "leave": leave})
        wants.append(Want(tag, chunks, frozenset(ends), leave is None))

    for number in range(load.streams):
        query = {"pad": 7} if client.http2 and number % 4 == 3 else {}
        order("whole-%d" % number, query, load.chunks, "done")
    phases.append([])
    cut = {"cut": "%d:reset" % load.part}
    order("reset", cut, load.part, "reset")
    # Before HTTP/2 a client that goes away closes the connection. Over HTTP/2 it may reset its stream, or just let
    # the rest come in.
    order("left", {}, load.part, *(("reset", "truncated", "done") if client.http2 else ("truncated",)), leave=load.part)
    if client.http2:
        # These end with their connection, which the others must not share.
        for how in ("close", "goaway"):
            phases.append([])
            order(how, {"cut": "%d:%s" % (load.part, how)}, load.part, "truncated")
    else:
        order("cut", {"cut": "%d:close" % load.part}, load.part, "truncated")
        order("until-close", {"framing": "close", "done": 0}, load.chunks, "eof")
        if not client.coding:
            order("length", {"framing": "length", "done": 0}, load.chunks, "done")
    return phases, wants


def start_client(place, client, transport, port, orders, *options):
    return place.start(client.program, "--url", "%s://127.0.0.1:%d" % ("https" if transport == "tls" else "http", port),
                       "--orders", place.write("orders.json", orders), "--log", "/mnt/client.jsonl", "--cafile",
                       "/mnt/ca.pem", *client.flags, *options)


def record(args, place, client, transport):
    """One run: gives (seen, records of the client, records of the origin, port, wants)."""
    phases, wants = orders_of(client, args.load)
    origin = place.origin(transport == "tls", client.http2)
    port = origin.said["port"]
    program = start_client(place, client, transport, port, phases)
    with Gcause(args.gcause, program.pid, "--chunks", "-b", "50ms") as gcause:
        program.go()
        program.wait()
        seen = gcause.stop()
    origin.terminate()
    return seen, place.records("client.jsonl"), place.records("origin.jsonl"), port, wants


def check_client(client, mine, sent, wants, faults):
    """What the run was made for has to have happened, or it proves nothing."""
    truth = by_tag(mine)
    for want in wants:
        check(len(truth.get(want.tag, ())) == want.chunks, "the client has %d of %d chunks of %s: %s",
              len(truth.get(want.tag, ())), want.chunks, want.tag,
              [each["error"] for each in of_type(mine, "stream") if each["stream"] == want.tag])
    connections = {each["connection"] for each in of_type(sent, "request") if each["stream"].startswith("whole-")}
    streams = sum(1 for want in wants if want.tag.startswith("whole-"))
    most = (1 if client.http2 else AT_ONCE) if client.keeps else streams
    check(len(connections) <= most, "the client made %d connections for %d streams", len(connections), streams)
    return truth


def row(args, place, client, transport):
    def run():
        lacking = place.missing(client.modules) if client.modules else []
        if lacking:
            raise Skip("%s has no %s" % (args.suite, ", ".join(lacking)))
        try:
            seen, mine, sent, port, wants = record(args, place, client, transport)
        finally:
            place.end_all()
        names = Names("127.0.0.1:%d" % port, "127.0.0.1:%d" % port, "h2" if client.http2 else "http/1.1",
                      transport == "tls", "read")
        judge = Judge(seen, wants, names, {}, sends_of(sent), client.http2,
                      client.http2 and "--asyncio" not in client.flags)
        judge.truth = check_client(client, mine, sent, wants, judge.faults)
        pairs = judge.judge()
        judge_first_chunks(judge, pairs, {each["stream"]: each["ns"] for each in of_type(sent, "request")},
                           {each["stream"]: each["from_ns"] for each in of_type(mine, "stream")})
        count = sum(len(judge.chunks.get(stream["id"], ())) for stream in pairs.values())
        return judge.faults, "%d of %d streams, %d of %d chunks, gaps off by %.2f ms (p50) %.2f ms (p95)" % (
            len(pairs), len(wants), count, sum(map(len, judge.truth.values())), quantile(judge.off, 0.5) / 1e6,
            quantile(judge.off, 0.95) / 1e6)

    return "%s, %s" % (client.name, transport), run


def late_row(args, place, client, transport):
    """The client reads LATE streams at once, and gcause comes in the midst of them."""
    def run():
        lacking = place.missing(client.modules)
        if lacking:
            raise Skip("%s has no %s" % (args.suite, ", ".join(lacking)))
        query = {"chunks": LATE_CHUNKS, "interval_ms": 50, "jitter_ms": 40}
        orders = [[{"tag": "s%d" % number, "query": query, "leave": None} for number in range(LATE)]]
        try:
            origin = place.origin(transport == "tls", client.http2)
            program = start_client(place, client, transport, origin.said["port"], orders, "--at-once", LATE)
            program.go()
            time.sleep(2)  # of the six that the streams take
            started = time.monotonic_ns()
            with Gcause(args.gcause, program.pid, "--chunks") as gcause:
                active = time.monotonic_ns()
                program.wait()
                seen = gcause.stop()
            origin.terminate()
        finally:
            place.end_all()
        truth = by_tag(place.records("client.jsonl"))
        running = sum(1 for times in truth.values() if times[0] < started and times[-1] > active)
        check(running == LATE, "%d of %d streams ran at the attach", running, LATE)
        judge = LateJudge(seen, truth, sends_of(place.records("origin.jsonl")), started, active)
        judge.judge()
        return judge.faults, judge.summary()

    return "%s, attached late, %s" % (client.name, transport), run


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--suite", default="sid", choices=["sid", "trixie"])
    parser.add_argument("--transport", action="append", choices=TRANSPORTS)
    parser.add_argument("--short", action="store_const", dest="load", const=SHORT, default=FULL)
    parser.add_argument("--only", action="append", help="rows whose name has this; repeatable")
    args = parser.parse_args()
    root = make_root(args.suite)
    with tempfile.TemporaryDirectory() as folder, Place(root, folder) as place:
        rows = [row(args, place, client, transport) for client in CLIENTS
                for transport in args.transport or TRANSPORTS]
        rows += [late_row(args, place, client, transport) for client in CLIENTS if client.name in LATE_CLIENTS
                 for transport in args.transport or TRANSPORTS]
        run_table(rows, args.only)


if __name__ == "__main__":
    main()
