"""Starts one server inside sandlock and waits for it. A program of its own: see `backends._sandlock`."""

import json
import os
import sys
import warnings

import sandlock


def main() -> int:
    request = json.loads(sys.argv[1])
    # sandlock must be given both ids and then warns that it derives the group from the user namespace itself.
    warnings.filterwarnings("ignore", message="Policy field 'gid'")
    try:
        process = sandlock.Sandbox(**request["policy"]).popen(request["command"])
    except Exception as error:
        os.write(0, f"{type(error).__name__}: {error}".encode()[:1000])  # the control socket: the host shows it
        return 1
    return process.wait().exit_code


if __name__ == "__main__":
    sys.exit(main())
