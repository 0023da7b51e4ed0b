# SPDX-License-Identifier: Apache-2.0
"""The servers that people stream with, each with gcause on it, not on its clients.

A server writes 20 streams of 200 chunks (--short: 10 of 60), five at a time, to a client that keeps its connections: the lab's, of the
standard library alone, or httpx for HTTP/2. It logs when it handed each chunk to its framework, and the client when
it had it. gcause has to have every written stream and every chunk, none delivered before it was handed over, every
gap, the ends and names; of the gateway also every chunk that it read, and for each written one that from which it
comes (stream_judge.py).

    servers.py --gcause build/gcause [--short] [--suite sid|trixie] [--only TEXT]...

A row for each server, plain and over TLS. What the suite lacks is a skip. Needs root and a kernel with BTF.
"""
import argparse
import collections
import os
import sys
import tempfile

from place import AT_ONCE, FULL, SHORT, TESTS, Place, Program, Skip, check, make_root, run_table
from stream_judge import Faults, Judge, Names, Want, by_tag, judge_links, of_type, quantile, sends_of

from attach_tools import Gcause  # place.py knows where it is

QUERY = "chunks=%d&interval_ms=8&jitter_ms=6&first_delay_ms=20&named=1"
TRANSPORTS = ("plain", "tls")

Server = collections.namedtuple("Server", "name program flags modules client", defaults=("lab",))
FASTAPI = ("fastapi", "uvicorn", "httpx")

SERVERS = [
    Server("uvicorn fastapi", "asgi_server.py", (), FASTAPI),
    Server("uvicorn uvloop httptools", "asgi_server.py", ("--loop", "uvloop", "--http", "httptools"),
           FASTAPI + ("uvloop", "httptools")),
    Server("uvicorn sse-starlette", "asgi_server.py", ("--app", "sse"), FASTAPI + ("sse_starlette",)),
    Server("uvicorn, clients leave", "asgi_server.py", (), FASTAPI, "leave"),
    Server("hypercorn http/1.1", "asgi_server.py", ("--server", "hypercorn"), ("fastapi", "httpx", "hypercorn")),
    Server("hypercorn http/2", "asgi_server.py", ("--server", "hypercorn"),
           ("fastapi", "httpx", "hypercorn", "httpx_sse", "h2"), "http2"),
    Server("aiohttp.web", "aiohttp_server.py", (), ("aiohttp",)),
    Server("aiohttp.web uvloop", "aiohttp_server.py", ("--loop", "uvloop"), ("aiohttp", "uvloop")),
    Server("gateway", "asgi_server.py", ("--app", "gateway"), FASTAPI),
]


def lab_client(place, load, url):
    """The lab's client: connections s0 to s4, and so many streams on each."""
    log = os.path.join(place.share, "client.jsonl")
    client = Program([sys.executable, os.path.join(TESTS, "lab", "client.py"), "--mode", "asyncio", "--streams",
                      str(AT_ONCE), "--keep-alive", str(load.streams // AT_ONCE), "--stagger-ms", "3", "--url",
                      url + "/stream?" + QUERY % load.chunks, "--cafile", os.path.join(place.share, "ca.pem"), "--log", log])
    place.running.append(client)
    return client


def ordered_client(place, load, url, program, leave, *flags):
    """A client of tests/clients, with orders."""
    query = dict(part.split("=") for part in (QUERY % load.chunks).split("&"))
    orders = [[{"tag": "s%d" % number, "query": query, "leave": leave} for number in range(load.streams)]]
    return place.start(program, "--url", url, "--orders", place.write("orders.json", orders), "--log",
                       "/mnt/client.jsonl", "--cafile", "/mnt/ca.pem", *flags)


def start_client(place, load, server, url):
    """Starts what reads from the server."""
    if server.client == "lab":
        return lab_client(place, load, url)
    if server.client == "leave":
        return ordered_client(place, load, url, "urllib_client.py", load.part)
    return ordered_client(place, load, url, "httpx_client.py", None, "--http2", "--asyncio")


def record(args, place, server, tls):
    """One run: gives (seen, port of the server, port of its origin)."""
    scheme, certificate = ("https", ["--tls", "/mnt/cert.pem", "/mnt/key.pem"]) if tls else ("http", [])
    flags, origin = list(server.flags), None
    if "gateway" in server.flags:
        origin = place.origin(tls)
        flags += ["--upstream", "%s://127.0.0.1:%d" % (scheme, origin.said["port"])]
    program = place.start(server.program, "--log", "/mnt/server.jsonl", *certificate, *flags)
    port = program.said["port"]
    client = start_client(place, args.load, server, "%s://127.0.0.1:%d" % (scheme, port))
    with Gcause(args.gcause, program.pid, "--chunks", "-b", "50ms") as gcause:
        client.go()
        client.wait()
        program.terminate()
        seen = gcause.stop()
    if origin:
        origin.terminate()
    return seen, port, origin and origin.said["port"]


def wants_of(server, load, mine):
    """What has to be said of each stream that the client read."""
    truth = by_tag(mine)
    chunks = load.part if server.client == "leave" else load.chunks
    ends = frozenset(("truncated", "reset") if server.client == "leave" else ("done",))
    check(len(truth) == load.streams and all(len(times) == chunks for times in truth.values()),
          "the client has %s chunks of %d streams", sorted(set(map(len, truth.values()))), len(truth))
    errors = [each["error"] for each in of_type(mine, "stream") if each.get("error")]
    check(not errors, "the client failed: %s", errors[:1])
    return [Want(tag, chunks, ends, server.client != "leave") for tag in sorted(truth)]


def judge_server(place, load, server, tls, seen, ports):
    """Gives (faults, text)."""
    port, origin_port = ports
    mine, handed = place.records("client.jsonl"), place.records("server.jsonl")
    wants, protocol = wants_of(server, load, mine), "h2" if server.client == "http2" else "http/1.1"
    written = Judge(seen, wants, Names("127.0.0.1:%d" % port, None, protocol, tls, "write"), by_tag(mine),
                    sends_of(handed))
    pairs = written.judge()
    text = "%d of %d streams, %d of %d chunks written, gaps off by %.2f ms (p50) %.2f ms (p95)" % (
        len(pairs), len(wants), sum(len(written.chunks.get(stream["id"], ())) for stream in pairs.values()),
        sum(want.chunks for want in wants), quantile(written.off, 0.5) / 1e6, quantile(written.off, 0.95) / 1e6)
    faults = written.faults
    if origin_port:
        peer = "127.0.0.1:%d" % origin_port
        read = Judge(seen, wants, Names(peer, peer, "http/1.1", tls, "read"), by_tag(handed),
                     sends_of(place.records("origin.jsonl")))
        read_pairs = read.judge()
        links = judge_links(written, read_pairs, pairs)
        faults = joined(read=read.faults, written=written.faults)
        text += "; %d chunks read; links: %d right, %d missing, %d wrong" % (
            sum(len(read.chunks.get(stream["id"], ())) for stream in read_pairs.values()), *links)
    else:
        others = [each["id"] for each in of_type(seen, "stream") if each["direction"] != "write"]
        faults.expect(not others, "streams", "streams that are not written: %s", others)
    return faults, text


def joined(**parts):
    """One Faults of several, with the name of its part in front of each."""
    faults = Faults()
    for name, part in parts.items():
        for about, texts in part.texts.items():
            faults.texts["%s %s" % (name, about)] = texts
    return faults


def row(args, place, server, transport):
    def run():
        lacking = place.missing(server.modules)
        if lacking:
            raise Skip("%s has no %s" % (args.suite, ", ".join(lacking)))
        try:
            seen, *ports = record(args, place, server, transport == "tls")
        finally:
            place.end_all()
        return judge_server(place, args.load, server, transport == "tls", seen, ports)

    return "%s, %s" % (server.name, transport), run


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
        rows = [row(args, place, server, transport) for server in SERVERS
                for transport in args.transport or TRANSPORTS]
        run_table(rows, args.only)


if __name__ == "__main__":
    main()
