"""horovodrun for ranks of this host alone: the server by which they find each other listens on loopback.

Horovod's listens on every address and asks nobody who he is: whoever reached it could send ranks to another address,
and take part in the training. Gloo itself takes the loopback where all hosts are this one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from dbinfer.train.hosts import LOOPBACK


def main() -> None:
    """Run horovodrun with the arguments of this program."""
    from horovod.runner.http import http_server
    from horovod.runner.launch import run_commandline

    find_port = http_server.find_port

    def here(server: Callable[[tuple[str, int]], Any]) -> Any:
        return find_port(lambda address: server((LOOPBACK, address[1])))

    http_server.find_port = here
    sys.exit(run_commandline())


if __name__ == "__main__":
    main()
