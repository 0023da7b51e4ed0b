# SPDX-License-Identifier: Apache-2.0
"""Serves event streams with aiohttp.web; with --loop uvloop on that loop."""
import asyncio
import signal
import ssl

from aiohttp import web

import serving


async def serve(options, log):
    async def stream(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for event in serving.events(dict(request.query), log):
            await response.write(event)
        await response.write_eof()
        return response

    context = None
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*options.tls)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    app = web.Application()
    app.router.add_get("/stream", stream)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    sock = serving.listen()
    await web.SockSite(runner, sock, ssl_context=context).start()
    serving.announce(sock, "aiohttp")
    await stop.wait()
    await runner.cleanup()


def main():
    options = serving.parse_options(__doc__, loop=["asyncio", "uvloop"])
    log = serving.Log()
    if options.loop == "uvloop":
        import uvloop

        uvloop.run(serve(options, log))
    else:
        asyncio.run(serve(options, log))
    log.write(options.log)


if __name__ == "__main__":
    main()
