"""Requests that are nearly right, sent to both servers: what one takes the other takes, and what one refuses both do.

Everything that would write is a dry run, so that one answer does not depend on the others. What is asked is the same in
every run. Most requests have several faults, and which of them a server names is its own affair: so the codes of two
refusals need not be the same, but mostly are.
"""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from benchmarks import kubernetes
from tests.kubesim.http.bad_requests import BadRequest, bad_request
from tests.kubesim.http.raw_client import Broken, RawClient
from tests.kubesim.http.request_places import DRAWS, REVISION, Place
from tests.kubesim.http.test_bad_requests import SCHEMAS
from tests.kubesim.parity.refusals import ALLOWED, why
from tests.support.api_servers import plain_server
from tests.support.exchanges import SHIPPED, Player

MADE = {1: 1500, 2: 700}
"""How many requests are made in each draw."""
ALIKE = 0.75
"""At least so many answers have the same code."""
WRITES = {"POST", "PUT", "PATCH", "DELETE"}


class Secure(RawClient):
    """A connection over TLS, to a server whose certificate nobody has signed."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the system's authorities: slow to read
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._socket = context.wrap_socket(self._socket)


class Asker:
    """Asks one server."""

    def __init__(self, endpoint: kubernetes.Endpoint) -> None:
        self._port = int(endpoint.url.rpartition(":")[2])
        self._token = endpoint.token
        self._client: RawClient | None = None

    def furnish(self) -> None:
        """One object of every kind."""
        end = time.monotonic() + 20
        for place in sorted(
            (place for draw in DRAWS.values() for place in draw), key=lambda place: place.label != "definitions"
        ):
            if place.kept:
                body = json.dumps(place.object()).encode()
                asked = BadRequest("furnish", "POST", place.collection, "", {"Content-Type": "application/json"}, body)
                while (code := self.code(asked)) == 404 and time.monotonic() < end:
                    time.sleep(0.05)  # its definition is new
                assert code == 201, (place.label, code)

    def close(self) -> None:
        if self._client:
            self._client.close()

    def code(self, asked: BadRequest) -> int:
        """The code of the answer; 0 if the server hangs up instead."""
        client = self._client or Secure(self._port)
        self._client = None
        asked = replace(asked, headers={**asked.headers, "Authorization": f"Bearer {self._token}"})
        try:
            client.send(asked.wire())
            said = client.read(head_only=asked.method == "HEAD")
        except Broken:
            said = None
        if said is not None and said.stays:
            self._client = client
        else:
            client.close()
        return said.code if said else 0


def requests() -> Iterator[BadRequest]:
    """What is asked: nearly right, and without consequences."""
    for draw, places in DRAWS.items():
        yield from drawn_requests(random.Random(6 + draw), places, MADE[draw])


def drawn_requests(chance: random.Random, places: Sequence[Place], number: int) -> Iterator[BadRequest]:
    for _ in range(number):
        asked = bad_request(chance, SCHEMAS, places)
        asked.body = asked.body.replace(REVISION.encode(), b"")
        if asked.method in WRITES:
            if asked.dry or (asked.method == "DELETE" and asked.body):  # what a body says counts instead
                continue
            asked.query = "&".join(filter(None, [asked.query, "dryRun=All"]))
        if not asked.path.endswith("/log") and not asked.label.startswith(("watch", "odd")):
            yield asked


@pytest.fixture(scope="module")
def askers() -> Iterator[tuple[Asker, Asker]]:
    with kubernetes.running(fsync=False) as there, plain_server("known-to-nobody-else") as here:
        Player(there.url, there.token).ship(SHIPPED)
        both = Asker(there), Asker(here)
        for asker in both:
            asker.furnish()
        yield both
        for asker in both:
            asker.close()


@pytest.mark.kube
def test_bad_requests_are_accepted_or_refused_as_by_a_real_server(askers: tuple[Asker, Asker]) -> None:
    asked, same, found, used = 0, 0, [], set()
    for one in requests():
        there, here = (asker.code(one) for asker in askers)
        asked, same = asked + 1, same + (there == here)
        if (0 < there < 400) != (here < 400):
            reason = why(one, there, here)
            used.add(reason)
            if not reason:
                found.append(f"{there} there, {here} here: {one.label}, {one.wire()[:1000]!r}")
    assert not found, "\n".join(found)
    assert used == set(ALLOWED), "these do not differ any more"
    assert same / asked > ALIKE, f"{same} of {asked}"
