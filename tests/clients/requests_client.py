# SPDX-License-Identifier: Apache-2.0
"""Reads through requests: a session for each thread, line by line."""
import requests

from reading import parse_options, read_in_threads


def main():
    options = parse_options(__doc__)
    url = options.url + "/stream"

    def make():
        session = requests.Session()
        session.trust_env = False
        session.verify = options.cafile or True

        def read(stream):
            with session.get(url, params=stream.query, stream=True, timeout=60) as response:
                response.raise_for_status()
                # Of a body that is not chunked it reads until it has so many bytes.
                for line in response.iter_lines(chunk_size=1 if "framing" in stream.query else 512):
                    if line.startswith(b"data:") and line != b"data: [DONE]":
                        stream.chunk()

        return read

    read_in_threads(options, ["requests", "urllib3"], make)


if __name__ == "__main__":
    main()
