#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo's target: a chat backend that streams answers through the openai SDK, as it comes.

It holds what such a backend holds: a retrieval index (an inverted index of plain dicts, lists and strings),
and the history of its conversations. For every chunk it parses the answer so far into a tree whose nodes
know their parents, and compares that with the previous tree, to send the browser what changed. Those trees
are cycles: only the collector can free them.

Nothing here collects, times or measures. The collector is set as an operator would set it:

--gc default    left alone
--gc A,B,C      gc.set_threshold(A, B, C)
--gc off        gc.disable() while answers stream

The size of the index decides how long a full collection takes; the trees decide how often one is due. That
is at most once in (A + 1) * (B + 1) * (C + 1) net new containers, and only when the containers that survived
the middle generation since the last one are a quarter of all old ones. The index has few containers and
millions of references, so that rule holds it back seldom and each full collection is dear.

It prints ``ready PID`` and waits for a line on standard input, streams, prints ``done ANSWERS CHUNKS`` and
waits for another line before it ends. The base URL comes from OPENAI_BASE_URL, the trusted authority from
SSL_CERT_FILE; both are read by the SDK and its HTTP library.
"""

import argparse
import asyncio
import gc
import itertools
import os
import random
import sys

import openai

TERMS = 20000  # distinct terms of the retrieval index
TERMS_OF_A_PASSAGE = 32


class Node:
    """A document, sentence or word of an answer; knows its parent."""

    def __init__(self, kind, parent, text=""):
        self.kind = kind
        self.parent = parent
        self.text = text
        self.children = []
        if parent is not None:
            parent.children.append(self)


def build_index(passages):
    """An inverted index over so many passages: term -> the passages that hold it."""
    index = {"term-%d" % term: [] for term in range(TERMS)}
    postings = list(index.values())
    dice = random.Random(passages)
    for number in range(passages):
        passage = "passage-%08d" % number
        start = dice.randrange(TERMS)
        step = dice.randrange(1, TERMS, 2)
        for turn in range(TERMS_OF_A_PASSAGE):
            postings[(start + turn * step) % TERMS].append(passage)
    return index


def parse(text):
    """The answer so far as document -> sentences -> words, linked to their parents."""
    document = Node("document", None)
    for sentence in text.split(". "):
        parent = Node("sentence", document)
        for word in sentence.split():
            Node("word", parent, word)
    return document


def changed(old, new):
    """The sentences of ``new`` that ``old`` does not have: what the browser is sent."""
    patch = []
    pairs = itertools.zip_longest(old.children if old else [], new.children)
    for position, (before, after) in enumerate(pairs):
        if after is not None and (before is None or len(before.children) != len(after.children)):
            patch.append((position, " ".join(word.text for word in after.children)))
    return patch


class Backend:
    """The service: its SDK client, its index and its conversations."""

    def __init__(self, index, model):
        self.client = openai.AsyncOpenAI(api_key="demo", max_retries=0)
        self.index = index
        self.model = model
        self.history = {}
        self.answers = 0
        self.chunks = 0

    def prompt(self, conversation, question):
        """The messages to send: the conversation so far and what the index has about the question."""
        messages = self.history.setdefault(conversation, [])
        found = self.index["term-%d" % (hash(question) % TERMS)][:3]
        messages.append({"role": "user", "content": question, "context": {"passages": found}})
        return [{"role": m["role"], "content": m["content"]} for m in messages[-4:]]

    async def answer(self, conversation, question):
        """Streams one answer and keeps it, with its chunks, in the conversation."""
        messages = self.prompt(conversation, question)
        stream = await self.client.chat.completions.create(
            model=self.model, messages=messages, stream=True
        )
        text, tree, chunks, sent = "", None, [], 0
        async for chunk in stream:
            chunks.append(chunk)
            self.chunks += 1
            if not chunk.choices:
                continue
            text += chunk.choices[0].delta.content or ""
            fresh = parse(text)
            sent += len(changed(tree, fresh))
            tree = fresh
        usage = {"chunks": len(chunks), "patches": sent, "id": chunks[0].id if chunks else None}
        self.history[conversation].append(
            {"role": "assistant", "content": text, "raw": chunks, "usage": usage}
        )
        del self.history[conversation][:-8]
        self.answers += 1

    async def user(self, number, answers):
        """One user: asks, reads the answer, asks again."""
        for turn in range(answers):
            await self.answer("conversation-%d" % number, "question %d of %d" % (turn, number))

    async def run(self, users, answers):
        """All users at once, until each has had that many answers."""
        await asyncio.gather(*(self.user(number, answers) for number in range(users)))


async def serve(options):
    """Warms up as a service does before it takes traffic, waits for its signal, and streams."""
    backend = Backend(build_index(options.passages), options.model)
    await backend.user(-1, 1)
    backend.answers = backend.chunks = 0
    loop = asyncio.get_running_loop()
    print("ready", os.getpid(), flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    if options.gc == "off":
        gc.disable()
    elif options.gc != "default":
        gc.set_threshold(*(int(part) for part in options.gc.split(",")))
    await backend.run(options.users, options.answers)
    print("done", backend.answers, backend.chunks, flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    gc.enable()
    await backend.client.close()


def main():
    """Reads the options and runs the service."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gc", default="default", metavar="default|A,B,C|off")
    parser.add_argument("--passages", type=int, default=400000, help="size of the retrieval index")
    parser.add_argument("--users", type=int, default=10, help="streams at once")
    parser.add_argument("--answers", type=int, default=6, help="answers to each user")
    parser.add_argument("--model", default="demo-chat")
    asyncio.run(serve(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
