# SPDX-License-Identifier: Apache-2.0
"""Reads through httpx and httpx-sse: HTTP/1.1, or HTTP/2 with --http2; with --asyncio its async client, with --uvloop
on that loop."""
import httpx
import httpx_sse

from reading import parse_options, read_in_tasks, read_in_threads, tls_context


def main():
    options = parse_options(__doc__, "--http2", "--asyncio", "--uvloop")
    common = {"verify": tls_context(options) or False, "timeout": 60, "trust_env": False,
              "http1": not options.http2, "http2": options.http2}
    url, libraries = options.url + "/stream", ["httpx", "httpx-sse"] + ["h2"] * options.http2
    if not options.asyncio:
        client = httpx.Client(**common)

        def read(stream):
            with httpx_sse.connect_sse(client, "GET", url, params=stream.query) as source:
                for event in source.iter_sse():
                    if event.data != "[DONE]":
                        stream.chunk()

        read_in_threads(options, libraries, lambda: read)
        return

    async def run(read_all):
        async with httpx.AsyncClient(**common) as client:
            async def read(stream):
                async with httpx_sse.aconnect_sse(client, "GET", url, params=stream.query) as source:
                    async for event in source.aiter_sse():
                        if event.data != "[DONE]":
                            stream.chunk()

            await read_all(read)

    if options.uvloop:
        import uvloop

        read_in_tasks(options, libraries + ["uvloop"], run, uvloop.run)
    else:
        read_in_tasks(options, libraries, run)


if __name__ == "__main__":
    main()
