# SPDX-License-Identifier: Apache-2.0
"""Content codings of a stream, flushed at each write, so that a reader can decode all that has been sent."""
import zlib

from shapes import BadRequest


class Coder:
    """Encodes the body of one response, piece by piece. What Python lacks here is a BadRequest."""

    def __init__(self, coding):
        makers = {"gzip": self._zlib, "deflate": self._zlib, "br": self._brotli, "zstd": self._zstd}
        if coding not in makers:
            raise BadRequest("coding: " + ", ".join(makers))
        try:
            makers[coding](coding)
        except ImportError as error:
            raise BadRequest("coding %s: %s" % (coding, error)) from error

    def encode(self, body, last):
        """The bytes to send for `body`; behind the `last` the coding is complete."""
        return self._add(body) + (self._end() if last else self._flush())

    def _zlib(self, coding):
        packer = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
        self._add = packer.compress
        self._flush = lambda: packer.flush(zlib.Z_SYNC_FLUSH)
        self._end = packer.flush

    def _brotli(self, _):
        import brotli

        packer = brotli.Compressor(quality=4)
        self._add = packer.process
        self._flush, self._end = packer.flush, packer.finish

    def _zstd(self, _):
        from compression import zstd

        packer = zstd.ZstdCompressor()
        self._add = packer.compress
        self._flush = lambda: packer.flush(zstd.ZstdCompressor.FLUSH_BLOCK)
        self._end = packer.flush
