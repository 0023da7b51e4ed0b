# SPDX-License-Identifier: Apache-2.0
"""Reads through aiohttp, line by line; with --uvloop on that loop."""
import asyncio

import aiohttp

from reading import parse_options, read_in_tasks, tls_context


def main():
    options = parse_options(__doc__, "--uvloop")
    url, context = options.url + "/stream", tls_context(options)

    async def run(read_all):
        timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            async def read(stream):
                async with session.get(url, params=stream.query, ssl=context or True) as response:
                    response.raise_for_status()
                    async for line in response.content:
                        if line.startswith(b"data:") and line.rstrip() != b"data: [DONE]":
                            stream.chunk()

            await read_all(read)

    if options.uvloop:
        import uvloop

        read_in_tasks(options, ["aiohttp", "uvloop"], run, uvloop.run)
    else:
        read_in_tasks(options, ["aiohttp"], run, asyncio.run)


if __name__ == "__main__":
    main()
