# SPDX-License-Identifier: Apache-2.0
"""Reads a stream on the main thread while another thread collects in an interpreter of its own.

    interpreters_target.py own|shared    the lock of that interpreter

Says "ready", takes the port of the origin, reads the stream, says "done", and then when each chunk reached it.
"""
import gc
import json
import os
import socket
import sys
import threading
import time

LISTS = 2_500_000  # a collection of some 100 ms
EVERY = 0.35  # seconds
COLLECTIONS = 8
CHUNKS = 2000  # of the stream, which the target leaves when it has collected that often
CODE = """
import gc, os, time
gc.disable()
heap = [[] for _ in range(%d)]
gc.collect()
os.write(%d, b"x")
while os.read(%d, 1) == b"x":
    time.sleep(%f)
    gc.collect()
    os.write(%d, b"x")
"""


def run_in_interpreter(own, code):
    """Runs code in an interpreter that this thread makes: 3.12 runs it with the maker's thread state."""
    try:
        import _interpreters as module
        module.exec(module.create("isolated" if own else "legacy"), code)
    except ImportError:
        import _xxsubinterpreters as module
        module.run_string(module.create(isolated=own), code)


def main():
    gc.disable()
    from_worker, to_main = os.pipe()
    from_main, to_worker = os.pipe()
    code = CODE % (LISTS, to_main, from_main, EVERY, to_main)
    worker = threading.Thread(target=run_in_interpreter, args=(sys.argv[1] == "own", code))
    worker.start()
    os.read(from_worker, 1)
    print("ready", flush=True)
    port = int(sys.stdin.readline())
    chunks = []
    with socket.create_connection(("127.0.0.1", port)) as link:
        path = "/stream?chunks=%d&interval_ms=20" % CHUNKS
        link.sendall(("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path).encode())
        os.set_blocking(from_worker, False)
        os.write(to_worker, b"x")
        collections = 0
        while collections < COLLECTIONS and len(chunks) < CHUNKS:
            body = link.recv(65536)
            now = time.monotonic_ns()
            chunks += [now] * body.count(b"data: {")
            try:
                os.read(from_worker, 1)
                collections += 1
                os.write(to_worker, b"x")
            except BlockingIOError:
                pass
    os.close(to_worker)
    worker.join()
    print("done", flush=True)
    sys.stdin.readline()
    print(json.dumps(chunks), flush=True)


if __name__ == "__main__":
    main()
