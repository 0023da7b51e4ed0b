# SPDX-License-Identifier: Apache-2.0
"""Reads through the anthropic SDK; with --asyncio through its async client."""
import anthropic

from reading import parse_options, read_in_tasks, read_in_threads

MESSAGES = [{"role": "user", "content": "why does the stream stutter?"}]


def request(client, stream):
    """What starts the stream: a call, or an awaitable."""
    return client.messages.create(model=stream.tag, max_tokens=1000, messages=MESSAGES, stream=True,
                                  extra_query=stream.query)


def main():
    options = parse_options(__doc__, "--asyncio")
    common = {"api_key": "none", "base_url": options.url, "max_retries": 0}
    if not options.asyncio:
        client = anthropic.Anthropic(**common)

        def read(stream):
            with request(client, stream) as events:
                for event in events:
                    if event.type == "content_block_delta":
                        stream.chunk()

        read_in_threads(options, ["anthropic", "httpx"], lambda: read)
        return

    async def run(read_all):
        async with anthropic.AsyncAnthropic(**common) as client:
            async def read(stream):
                async with await request(client, stream) as events:
                    async for event in events:
                        if event.type == "content_block_delta":
                            stream.chunk()

            await read_all(read)

    read_in_tasks(options, ["anthropic", "httpx"], run)


if __name__ == "__main__":
    main()
