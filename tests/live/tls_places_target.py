# SPDX-License-Identifier: Apache-2.0
"""The target of tls_places.py: reads event streams by the TLS library that it is told to. Standard library only,
Python 3.8 or later. It takes one JSON object a line on standard input, {"do": NAME, ...}, and answers each with
one. TLS is not loaded before it is asked for.
"""
import ctypes
import json
import mmap
import os
import socket
import sys
import time

REQUEST = "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nUser-Agent: tls-places\r\n\r\n"
kept = {}


def split(url):
    scheme, rest = url.split("://")
    place, path = rest.split("/", 1)
    host, port = place.split(":")
    return scheme, host, int(port), "/" + path


def request_of(url):
    return (REQUEST % split(url)[3]).encode()


def events_in(body):
    return body.count(b"data: {")


def connected(url):
    _, host, port, _ = split(url)
    link = socket.create_connection((host, port))
    return link


def import_ssl():
    try:
        import ssl
    except ImportError:
        return {"ns": time.monotonic_ns(), "version": None}
    return {"ns": time.monotonic_ns(), "version": ssl.OPENSSL_VERSION}


def by_ssl(url, cafile, proxy=None):
    """The way of http.client: a blocking socket, which the library itself reads. `proxy`: its port."""
    import http.client
    import ssl

    _, host, port, path = split(url)
    context = ssl.create_default_context(cafile=cafile)
    link = http.client.HTTPSConnection(host, proxy or port, context=context)
    if proxy:
        link.set_tunnel(host, port)
    link.request("GET", path)
    body = link.getresponse()
    events = 0
    try:
        while True:
            piece = body.read1(65536)
            if not piece:
                break
            events += events_in(piece)
    except (ssl.SSLError, http.client.IncompleteRead):
        pass
    link.close()
    return {"events": events, "version": ssl.OPENSSL_VERSION}


def library_of(path):
    """That library, or for no path the program itself; the one that was loaded first keeps its path."""
    if path not in kept:
        kept[path] = ctypes.CDLL(path)
    return kept[path]


def by_fetch(lib, url):
    """A function of C with its own TLS library behind it."""
    library = library_of(lib)
    _, host, port, _ = split(url)
    fd = ctypes.c_int(-1)
    events = library.fetch(host.encode(), port, request_of(url), ctypes.byref(fd))
    return {"events": events, "fd": fd.value}


def load(lib):
    library_of(lib)
    return {"ns": time.monotonic_ns()}


def by_ctypes(lib, url, ex=False):
    """OpenSSL's interface, or BoringSSL's, by hand; `ex`: the calls that name their length apart."""
    library = library_of(lib)
    for name in ("TLS_method", "SSL_CTX_new", "SSL_new"):
        getattr(library, name).restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_method())))
    tls = ctypes.c_void_p(library.SSL_new(context))
    link = connected(url)
    assert library.SSL_set_fd(tls, link.fileno()) == 1
    assert library.SSL_connect(tls) == 1, "no handshake"
    request, buffer, done = request_of(url), ctypes.create_string_buffer(65536), ctypes.c_size_t()
    if ex:
        assert library.SSL_write_ex(tls, request, ctypes.c_size_t(len(request)), ctypes.byref(done)) == 1
    else:
        assert library.SSL_write(tls, request, len(request)) == len(request)
    events = 0
    while True:
        if ex:
            good = library.SSL_read_ex(tls, buffer, ctypes.c_size_t(65536), ctypes.byref(done)) == 1
            count = done.value if good else 0
        else:
            count = library.SSL_read(tls, buffer, 65536)
        if count <= 0:
            break
        events += events_in(buffer.raw[:count])
    library.SSL_free(tls)
    link.close()
    return {"events": events}


def by_gnutls(lib, url):
    library = library_of(lib)
    session, credentials = ctypes.c_void_p(), ctypes.c_void_p()
    link = connected(url)
    assert library.gnutls_certificate_allocate_credentials(ctypes.byref(credentials)) == 0
    assert library.gnutls_init(ctypes.byref(session), 2) == 0  # GNUTLS_CLIENT
    assert library.gnutls_set_default_priority(session) == 0
    assert library.gnutls_credentials_set(session, 1, credentials) == 0  # GNUTLS_CRD_CERTIFICATE
    library.gnutls_transport_set_int2(session, link.fileno(), link.fileno())
    assert library.gnutls_handshake(session) == 0, "no handshake"
    library.gnutls_record_recv.restype = ctypes.c_ssize_t
    request, buffer = request_of(url), ctypes.create_string_buffer(65536)
    library.gnutls_record_send(session, request, ctypes.c_size_t(len(request)))
    events = 0
    while True:
        count = library.gnutls_record_recv(session, buffer, ctypes.c_size_t(65536))
        if count in (-28, -52):  # GNUTLS_E_AGAIN, GNUTLS_E_INTERRUPTED: it took a session ticket
            continue
        if count <= 0:
            break
        events += events_in(buffer.raw[:count])
    library.gnutls_deinit(session)
    link.close()
    return {"events": events}


def map_many(count):
    """Mappings that the kernel cannot join, as a program with many libraries or a large heap has them."""
    area = mmap.mmap(-1, 2 * count * mmap.PAGESIZE)
    kept["area"] = area
    libc = ctypes.CDLL(None, use_errno=True)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for page in range(count):
        where = ctypes.c_void_p(begin + 2 * page * mmap.PAGESIZE)
        assert libc.mprotect(where, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    with open("/proc/self/maps") as lines:
        return {"maps": sum(1 for _ in lines)}


async def connected_through(proxy, host, port, context):
    """What asyncio.open_connection returns, behind the proxy at that port."""
    import asyncio

    reader, writer = await asyncio.open_connection("127.0.0.1", proxy)
    writer.write(b"CONNECT %s:%d HTTP/1.1\r\nHost: %s\r\n\r\n" % (host.encode(), port, host.encode()))
    answer = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in answer, answer
    await writer.start_tls(context, server_hostname="localhost")
    return reader, writer


async def read_asyncio(url, context, proxy):
    import asyncio

    scheme, host, port, _ = split(url)
    if proxy:
        return await read_all(url, *await connected_through(proxy, host, port, context))
    reader, writer = await asyncio.open_connection(
        host, port, ssl=context if scheme == "https" else None,
        server_hostname="localhost" if scheme == "https" else None)
    return await read_all(url, reader, writer)


async def read_all(url, reader, writer):
    writer.write(request_of(url))
    events = 0
    while True:
        try:
            piece = await reader.read(65536)
        except OSError:
            break
        if not piece:
            break
        events += events_in(piece)
    writer.close()
    return events


async def read_anyio(url, context, _):
    import anyio
    from anyio.streams.tls import TLSStream

    scheme, host, port, _ = split(url)
    stream = await anyio.connect_tcp(host, port)
    if scheme == "https":
        stream = await TLSStream.wrap(stream, hostname="localhost", ssl_context=context,
                                      standard_compatible=False)
    await stream.send(request_of(url))
    events = 0
    try:
        while True:
            events += events_in(await stream.receive())
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        pass
    await stream.aclose()
    return events


def by_loop(kind, first, then, cafile, proxy=None):
    """All of `first` at once on one event loop; when the first of them has ended, `then` as well."""
    import asyncio
    import ssl

    context = ssl.create_default_context(cafile=cafile)
    read = read_anyio if kind == "anyio" else read_asyncio

    async def run():
        tasks = [asyncio.ensure_future(read(url, context, proxy)) for url in first]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        tasks += [asyncio.ensure_future(read(url, context, proxy)) for url in then]
        return [await task for task in tasks]

    if kind == "uvloop":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    return {"events": asyncio.run(run())}


def obey(do, **words):
    names = {"import": import_ssl, "ssl": by_ssl, "fetch": by_fetch, "load": load, "ctypes": by_ctypes,
             "gnutls": by_gnutls, "maps": map_many, "loop": by_loop, "sleep": time.sleep,
             "time": lambda: {"ns": time.monotonic_ns()}}
    return names[do](**words)


def main():
    print(json.dumps({"pid": os.getpid(), "version": sys.version.split()[0]}), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
