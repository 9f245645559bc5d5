"""Confines itself with sandlock and becomes a server. A program of its own: see `backends._sandlock`."""

import json
import os
import sys

import sandlock


def main() -> None:
    request = json.loads(sys.argv[1])
    try:
        sandlock.confine(sandlock.Sandbox(**request["policy"]))
        os.execv(request["command"][0], request["command"])
    except Exception as error:
        os.write(0, f"{type(error).__name__}: {error}".encode()[:1000])  # the control socket: the host shows it
        sys.exit(1)


if __name__ == "__main__":
    main()
