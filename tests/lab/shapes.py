# SPDX-License-Identifier: Apache-2.0
"""The events of the APIs that the lab origin serves: what a response begins with, its chunks, and how it ends.

A shape gives bytes and knows no time. ``opening()`` and ``ending()`` are events around the chunks, none of which
counts as one. Standard library only, Python 3.9 or later.
"""
import json
import time

DONE = b"data: [DONE]\n\n"
WORDS = (
    "the collector walks every list and dictionary that lives long and a reader of the stream waits "
    "until it has finished so nothing of what arrived meanwhile can be shown on time"
).split()


class BadRequest(Exception):
    """The request cannot be served; the text says why."""


def event(data, name=None):
    """One event of a JSON value, with a name of its own where the API gives it one."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


class Shape:
    """What all of them share. `plan` is the response's Plan, `request` the JSON body of its request."""

    def __init__(self, plan, request):
        self.plan = plan
        self.model = plan.tag if plan.named else str(request.get("model", "lab"))
        self.id = "lab-" + (plan.tag or "lab")

    def opening(self):
        return b""

    def ending(self):
        return DONE

    def text(self, index):
        """About ``size`` bytes of words, the same for the same index; every fourth chunk ends a sentence."""
        if self.plan.text:
            return self.plan.text
        words, length, at = [], 0, index * 7
        while length < self.plan.size:
            word = WORDS[at % len(WORDS)]
            words.append(word)
            length += len(word) + 1
            at += 1
        return " ".join(words) + (". " if index % 4 == 0 else " ")


class Plain(Shape):
    """``/stream``: events ``data: {"i":K,"p":"xxx"}`` of exactly ``size`` bytes, with a model where named=1."""

    def __init__(self, plan, request):
        super().__init__(plan, request)
        self.named = b'"model":%s,' % json.dumps(self.model).encode() if plan.named else b""

    def chunk(self, index):
        head = b'{"i":%d,%s"p":"' % (index, self.named)
        fill = self.plan.text.encode() or b"x" * (self.plan.size - len(head) - 2)
        return b"data: " + head + fill + b'"}\n\n'


class Chat(Shape):
    """OpenAI's ``/v1/chat/completions``: the role in front, text, then the finish reason, and the usage where the
    request asks for it."""

    def __init__(self, plan, request):
        super().__init__(plan, request)
        head = {
            "id": "chatcmpl-" + (plan.tag or "lab"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self.model,
        }
        self.head = json.dumps(head)[:-1].encode()
        self.usage = bool((request.get("stream_options") or {}).get("include_usage"))

    def event(self, delta, finish=b"null"):
        return b'data: %s, "choices":[{"index":0,"delta":%s,"finish_reason":%s}]}\n\n' % (self.head, delta, finish)

    def opening(self):
        return self.event(b'{"role":"assistant","content":""}')

    def chunk(self, index):
        return self.event(b'{"content":"%s"}' % self.text(index).encode())

    def ending(self):
        finish = self.event(b"{}", b'"stop"')
        if not self.usage:
            return finish + DONE
        usage = b'{"prompt_tokens":1,"completion_tokens":%d,"total_tokens":%d}' % (
            self.plan.chunks,
            self.plan.chunks + 1,
        )
        return finish + b'data: %s, "choices":[], "usage":%s}\n\n' % (self.head, usage) + DONE


class Responses(Shape):
    """OpenAI's ``/v1/responses``: typed events, no ``[DONE]``, and a last event that repeats the whole answer."""

    OPENING = 4  # events in front of the first chunk

    def event(self, name, number, **fields):
        return event(dict({"type": name, "sequence_number": number}, **fields), name)

    def response(self, status, output):
        return {"id": "resp_" + self.id, "object": "response", "created_at": int(time.time()),
                "status": status, "model": self.model, "output": output, "parallel_tool_calls": True,
                "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
                "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0}

    def item(self, status, content):
        return {"id": "msg_" + self.id, "type": "message", "role": "assistant", "status": status,
                "content": content}

    def part(self, text):
        return {"type": "output_text", "text": text, "annotations": []}

    def opening(self):
        at = {"item_id": "msg_" + self.id, "output_index": 0, "content_index": 0}
        return b"".join((
            self.event("response.created", 0, response=self.response("in_progress", [])),
            self.event("response.in_progress", 1, response=self.response("in_progress", [])),
            self.event("response.output_item.added", 2, output_index=0, item=self.item("in_progress", [])),
            self.event("response.content_part.added", 3, part=self.part(""), **at),
        ))

    def chunk(self, index):
        return self.event("response.output_text.delta", self.OPENING + index, item_id="msg_" + self.id,
                          output_index=0, content_index=0, delta=self.text(index), logprobs=[])

    def ending(self):
        at = {"item_id": "msg_" + self.id, "output_index": 0, "content_index": 0}
        text = "".join(self.text(index) for index in range(self.plan.chunks))
        item = self.item("completed", [self.part(text)])
        number = self.OPENING + self.plan.chunks
        return b"".join((
            self.event("response.output_text.done", number, text=text, logprobs=[], **at),
            self.event("response.content_part.done", number + 1, part=self.part(text), **at),
            self.event("response.output_item.done", number + 2, output_index=0, item=item),
            self.event("response.completed", number + 3, response=self.response("completed", [item])),
        ))


class Messages(Shape):
    """Anthropic's ``/v1/messages``: named events, a ping among the first, no ``[DONE]``."""

    def event(self, name, **fields):
        return event(dict({"type": name}, **fields), name)

    def opening(self):
        message = {"id": "msg_" + self.id, "type": "message", "role": "assistant", "model": self.model,
                   "content": [], "stop_reason": None, "stop_sequence": None,
                   "usage": {"input_tokens": 1, "output_tokens": 1}}
        return b"".join((
            self.event("message_start", message=message),
            self.event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            self.event("ping"),
        ))

    def chunk(self, index):
        return self.event("content_block_delta", index=0,
                          delta={"type": "text_delta", "text": self.text(index)})

    def ending(self):
        return b"".join((
            self.event("content_block_stop", index=0),
            self.event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None},
                       usage={"output_tokens": self.plan.chunks}),
            self.event("message_stop"),
        ))


RESOURCES = {
    "/stream": Plain,
    "/v1/chat/completions": Chat,
    "/v1/responses": Responses,
    "/v1/messages": Messages,
}


def shape_of(path, plan, body):
    """The shape of a resource for one response; BadRequest where there is none, or the body does not fit."""
    if path not in RESOURCES:
        raise BadRequest("no such resource")
    request = {}
    if path != "/stream":
        try:
            request = json.loads(body or b"{}")
        except ValueError as error:
            raise BadRequest("the body is not JSON") from error
        if not isinstance(request, dict) or not request.get("stream", True):
            raise BadRequest("only streamed answers are served")
    return RESOURCES[path](plan, request)
