# SPDX-License-Identifier: Apache-2.0
"""Reads through the openai SDK: chat completions or, with --responses, the responses API; with --asyncio its async client."""
import openai

from reading import parse_options, read_in_tasks, read_in_threads

MESSAGES = [{"role": "user", "content": "why does the stream stutter?"}]


def request(options, client, stream):
    """What starts the stream: a call, or an awaitable."""
    if options.responses:
        return client.responses.create(model=stream.tag, input=MESSAGES, stream=True, extra_query=stream.query)
    return client.chat.completions.create(model=stream.tag, messages=MESSAGES, stream=True,
                                          stream_options={"include_usage": True}, extra_query=stream.query)


def is_chunk(options, event):
    """Whether what the SDK hands over is a chunk: those with the role, the end and the usage bring no text."""
    if options.responses:
        return event.type.endswith(".delta")
    return bool(event.choices and event.choices[0].delta.content)


def main():
    options = parse_options(__doc__, "--responses", "--asyncio")
    common = {"api_key": "none", "base_url": options.url + "/v1", "max_retries": 0}
    if not options.asyncio:
        client = openai.OpenAI(**common)

        def read(stream):
            with request(options, client, stream) as events:
                for event in events:
                    if is_chunk(options, event):
                        stream.chunk()

        read_in_threads(options, ["openai", "httpx"], lambda: read)
        return

    async def run(read_all):
        async with openai.AsyncOpenAI(**common) as client:
            async def read(stream):
                async with await request(options, client, stream) as events:
                    async for event in events:
                        if is_chunk(options, event):
                            stream.chunk()

            await read_all(read)

    read_in_tasks(options, ["openai", "httpx"], run)


if __name__ == "__main__":
    main()
