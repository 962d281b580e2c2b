"""A proxy on loopback: the fetcher reaches the declared servers through it, and nothing else.

It resolves each name itself and connects to the very address that it has checked, so neither a redirect nor a name
server that changes its mind leads elsewhere. It sees TLS from outside, and no secret.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
import os
import socket
from contextlib import suppress
from typing import Any, List, Set, Tuple

MOST_HEAD = 1 << 16  # bytes of a request's head
CONNECT_SECONDS = 10.0
BLOCK = 1 << 16
END = b"\r\n\r\n"

Address = Tuple[str, int]


class RefusedError(Exception):
    """Why a connection is not made, after an HTTP status."""


def allowed(address: str, private: bool) -> bool:
    """Return whether an address may be reached; link-local ones never, those of private networks where declared.

    Link-local addresses give clouds' credentials to whoever asks.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_link_local or found.is_multicast or found.is_unspecified or _leads_anywhere(found):
        return False
    return found.is_global or (private and (found.is_private or found.is_loopback))


def _leads_anywhere(found: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an address is nobody's, or embeds another one (NAT64, Teredo, 6to4)."""
    if found.version == 4:
        return found.is_reserved
    return any(
        found in ipaddress.ip_network(network) for network in ("64:ff9b::/96", "2001::/32", "2002::/16")
    )


class Gate:
    """Serves the fetcher.

    Args:
        endpoints: host, port and whether a private address is allowed, of each server.
        token: what the fetcher shows, because every process of this host reaches the port.
    """

    def __init__(self, endpoints: List[Tuple[str, int, bool]], token: str) -> None:
        self._endpoints = {(host, port): private for host, port, private in endpoints}
        self._shown = b"Basic " + base64.b64encode(b"gate:" + token.encode())
        # why the last connection was not made, for whoever asks with the token
        self._reason = ""
        # what waits for a server is held by nothing else once the fetcher has sent its end
        self._serving: Set[Any] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: CONNECT, a request with a whole address, or a question for the last reason."""
        this = asyncio.current_task()
        self._serving.add(this)
        try:
            await self._serve(reader, writer)
        finally:
            self._serving.discard(this)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            try:
                head = await reader.readuntil(END)
                lines = head[: -len(END)].split(b"\r\n")
                self._require_token(lines[1:])
                method, target, _ = lines[0].decode("ascii").split(" ")
                if target == "/":
                    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + self._reason.encode())
                else:
                    await self._pass_on(method, target, lines, reader, writer)
            except RefusedError as err:
                self._reason = str(err.args[1])
                writer.write(
                    b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % err.args[0]
                )
            await writer.drain()
        with suppress(OSError):
            writer.close()

    def _require_token(self, lines: List[bytes]) -> None:
        shown = next((line for line in lines if line.lower().startswith(b"proxy-authorization:")), b"")
        if not hmac.compare_digest(shown.partition(b":")[2].strip(), self._shown):
            raise RefusedError(407, "the gate was asked without its token")

    async def _pass_on(
        self,
        method: str,
        target: str,
        lines: List[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if method == "CONNECT":
            place, path = target, ""
        else:
            scheme, _, rest = target.partition("://")
            place, slash, path = rest.partition("/")
            if scheme != "http" or not slash:
                raise RefusedError(400, "the fetcher asked for what is no address of HTTP")
        their_reader, their_writer = await self._connected(place)
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                their_writer.write(_as_origin(method, path, lines[1:]))
            sending = asyncio.ensure_future(_copy(reader, their_writer))
            try:  # until the server has said all
                await _copy(their_reader, writer)
            finally:
                sending.cancel()
        finally:
            their_writer.close()

    async def _connected(self, place: str) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, colon, port = place.rpartition(":")
        if not colon or "]" in port:
            host, port = place, "80"
        host = host.strip("[]").lower()
        key = (host, int(port) if port.isdigit() else 0)
        if key not in self._endpoints:
            raise RefusedError(421, "it leads to %s:%s, which is no declared server" % key)
        address = await _checked(key, self._endpoints[key])
        try:
            return await asyncio.wait_for(asyncio.open_connection(*address), CONNECT_SECONDS)
        except (OSError, asyncio.TimeoutError) as err:
            why = "%s:%s cannot be reached: %s" % (*key, str(err) or "no answer")
            raise RefusedError(502, why) from err


async def _checked(key: Address, private: bool) -> Address:
    """Return an address of a host to which a connection may be made."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(*key, type=socket.SOCK_STREAM)
    except OSError as err:
        raise RefusedError(502, "the name %s is not known: %s" % (key[0], err.strerror)) from err
    addresses = [str(one[4][0]) for one in found]
    good = [address for address in addresses if allowed(address, private)]
    if not good:
        why = "%s has the address %s, which only a store that is declared private may have" % (
            key[0],
            ", ".join(addresses),
        )
        raise RefusedError(421, why)
    return good[0], key[1]


def _as_origin(method: str, path: str, lines: List[bytes]) -> bytes:
    """Return a request's head as its server wants it: one request a connection, nothing for the proxy."""
    own = (b"proxy-", b"connection:", b"keep-alive:")
    kept = [line for line in lines if not line.lower().startswith(own)]
    return b"\r\n".join(
        [b"%s /%s HTTP/1.1" % (method.encode(), path.encode()), *kept, b"Connection: close", b"", b""]
    )


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while True:
            block = await reader.read(BLOCK)
            if not block:
                break
            writer.write(block)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def be_gate(
    listener: socket.socket, lifeline: int, endpoints: List[Tuple[str, int, bool]], token: str
) -> None:
    """Serve until the lifeline, of which the fetcher has the other end, closes."""
    asyncio.run(_serve(listener, lifeline, Gate(endpoints, token)))


async def _serve(listener: socket.socket, lifeline: int, gate: Gate) -> None:
    server = await asyncio.start_server(gate.serve, sock=listener, limit=MOST_HEAD)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(lifeline, ended.set)
    async with server:
        await ended.wait()
    os._exit(0)
