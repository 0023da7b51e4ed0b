# SPDX-License-Identifier: Apache-2.0
"""Reads through urllib.request, line by line: a connection for each stream, as it keeps none."""
import urllib.parse
import urllib.request

from reading import parse_options, read_in_threads, tls_context


def main():
    options = parse_options(__doc__)
    context = tls_context(options)

    def read(stream):
        url = options.url + "/stream?" + urllib.parse.urlencode(stream.query)
        with urllib.request.urlopen(url, timeout=60, context=context) as response:
            for line in response:
                if line.startswith(b"data:") and line.rstrip() != b"data: [DONE]":
                    stream.chunk()

    read_in_threads(options, [], lambda: read)


if __name__ == "__main__":
    main()
