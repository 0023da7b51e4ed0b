# SPDX-License-Identifier: Apache-2.0
"""Serves event streams with FastAPI, on uvicorn or hypercorn: by its own response, by sse-starlette, or as a gateway.

``--app streaming`` hands bytes to a StreamingResponse, ``--app sse`` events to sse-starlette, whose lines end in
CR LF and which sends comments. ``--app gateway`` reads the stream of the same query from ``--upstream`` with httpx,
and passes each event on as it comes.
"""
import asyncio
import contextlib
import signal
import ssl

import fastapi
import httpx
from fastapi.responses import StreamingResponse

import serving

PING_S = 1  # seconds between sse-starlette's comments


def streaming(log, _):
    async def answer(query):
        return StreamingResponse(serving.events(query, log), media_type="text/event-stream")

    return answer


def sse(log, _):
    from sse_starlette.sse import EventSourceResponse

    async def events(query):
        async for event in serving.events(query, log):
            yield {"data": serving.data_of(event)}

    async def answer(query):
        return EventSourceResponse(events(query), ping=PING_S)

    return answer


def gateway(log, options):
    context = ssl.create_default_context() if options.upstream.startswith("https") else False
    client = httpx.AsyncClient(verify=context, timeout=60, trust_env=False)

    async def relay(query):
        index = 0
        async with client.stream("GET", options.upstream + "/stream", params=query) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if not line.startswith("data:"):
                    continue
                if line != "data: [DONE]":
                    log.chunk(query["tag"], index)
                    log.send(query["tag"], index)
                    index += 1
                yield line + "\n\n"

    async def answer(query):
        return StreamingResponse(relay(query), media_type="text/event-stream")

    return answer


APPS = {"streaming": streaming, "sse": sse, "gateway": gateway}


def make_app(options, log):
    app = fastapi.FastAPI()
    answer = APPS[options.app](log, options)

    @app.get("/stream")
    async def stream(request: fastapi.Request):
        return await answer(dict(request.query_params))

    return app


async def serve_uvicorn(app, options, sock, stop):
    import uvicorn

    class Server(uvicorn.Server):
        """Its end is ours to say: its own handler would raise the signal again."""

        def capture_signals(self):
            return contextlib.nullcontext()

    cert, key = options.tls or (None, None)
    server = Server(uvicorn.Config(app, http=options.http, ssl_certfile=cert, ssl_keyfile=key, log_level="warning"))
    serving.announce(sock, "uvicorn", "fastapi", "starlette")
    task = asyncio.ensure_future(server.serve(sockets=[sock]))
    await stop.wait()
    server.should_exit = True
    await task


async def serve_hypercorn(app, options, sock, stop):
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = ["fd://%d" % sock.fileno()]
    if options.tls:
        config.certfile, config.keyfile = options.tls
    serving.announce(sock, "hypercorn", "fastapi", "starlette", "h2")
    await serve(app, config, shutdown_trigger=stop.wait)


async def serve(options, log):
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    sock = serving.listen()
    app = make_app(options, log)
    await (serve_uvicorn if options.server == "uvicorn" else serve_hypercorn)(app, options, sock, stop)


def main():
    options = serving.parse_options(__doc__, server=["uvicorn", "hypercorn"], app=list(APPS),
                                    loop=["asyncio", "uvloop"], http=["h11", "httptools"])
    log = serving.Log()
    if options.loop == "uvloop":
        import uvloop

        uvloop.run(serve(options, log))
    else:
        asyncio.run(serve(options, log))
    log.write(options.log)


if __name__ == "__main__":
    main()
