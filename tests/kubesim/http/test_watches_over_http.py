"""A client that lists and watches over HTTP, is cut off and restarted at random, and must still be right: on both.

The model is what the writer was told: the state after each of its writes, with the revision of that write. A deletion
is answered without one, so it is somewhere between the write before it and a list after it. Every event takes the
client to a later revision, and what it believes then is what there was; in the end it knows exactly what there is.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import kubernetes
from benchmarks.kubernetes import Endpoint
from tests.support.api_servers import plain_server

Object = dict[str, Any]
NAMES = ("a", "b", "c")
COLOURS = ("red", "blue")
EXAMPLES = 12
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(COLOURS)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(st.just("elsewhere")),  # revisions pass that concern nobody here
        st.tuples(st.just("read"), st.integers(1, 3)),  # events that the client waits for, if there are as many
        st.tuples(st.just("cut"), st.integers(0, 400)),  # the connection breaks after so many bytes of the next event
        st.tuples(st.just("restart")),  # the client forgets everything
    ),
    max_size=40,
)
_numbers = count()


@pytest.fixture(scope="module", params=["embedded", pytest.param("kubernetes", marks=pytest.mark.kube)])
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    embedded = request.param == "embedded"
    with plain_server("known-to-nobody-else") if embedded else kubernetes.running(fsync=False) as found:
        yield found


class Api:
    """Objects of the namespace ``default`` over HTTP."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection = self.connect()

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(urlsplit(self._endpoint.url).netloc, timeout=20, context=context)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, rest: str = "", body: Object | None = None, kind: str = "configmaps") -> Object:
        response = self.send(self._connection, method, rest, body, kind)
        said: Object = json.loads(response.read())
        assert response.status < 300, said
        return said

    def send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        rest: str,
        body: Object | None = None,
        kind: str = "",
    ) -> http.client.HTTPResponse:
        path = f"/api/v1/namespaces/default/{kind or 'configmaps'}{rest}"
        headers = {"Authorization": f"Bearer {self._endpoint.token}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body).encode() if body else None, headers)
        return connection.getresponse()


class Model:
    """The states there were: until which revision the one before may have lasted, since which it surely is."""

    def __init__(self) -> None:
        self.states: list[tuple[int, int, dict[str, Object]]] = [(0, 0, {})]

    @property
    def now(self) -> dict[str, Object]:
        return self.states[-1][2]

    def note(self, name: str, found: Object | None, surely: int) -> None:
        state = {key: value for key, value in self.now.items() if key != name}
        after = self.states[-1][1] if found is None else surely - 1
        self.states.append((after, surely, state if found is None else {**state, name: found}))

    def at(self, revision: int) -> list[dict[str, Object]]:
        """What there may have been at a revision."""
        last = max(i for i, (after, _, _) in enumerate(self.states) if after < revision or not i)
        first = max(i for i, (_, surely, _) in enumerate(self.states) if surely <= revision)
        return [state for _, _, state in self.states[first : last + 1]]


class Client:
    """Keeps a copy of what it has chosen, by list and watch, and checks itself against the model."""

    def __init__(self, api: Api, model: Model, wanted: dict[str, str]) -> None:
        self._api, self._model, self._wanted = api, model, wanted
        self._selector = "labelSelector=" + quote(",".join(f"{name}={value}" for name, value in wanted.items()))
        self._connection: http.client.HTTPSConnection | None = None
        self.restart()

    def restart(self) -> None:
        self.cut()
        self.known: dict[str, Object] = {}
        self.revision = 0

    def cut(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def right(self, revision: int) -> None:
        states = [self._chosen(state) for state in self._model.at(revision)]
        assert self.known in states, f"not what was there at {revision}"

    def _chosen(self, state: dict[str, Object]) -> dict[str, Object]:
        return {
            name: found for name, found in state.items() if self._wanted.items() <= found["metadata"]["labels"].items()
        }

    @property
    def complete(self) -> bool:
        return bool(self.revision) and self.known == self._chosen(self._model.now)

    def read(self, bytes_left: int | None = None) -> None:
        """Take one event, or what of it arrives before the connection breaks."""
        if not self.revision:
            found = self._api.ask("GET", f"?{self._selector}")
            self.revision = int(found["metadata"]["resourceVersion"])
            head = {"apiVersion": "v1", "kind": "ConfigMap"}
            self.known = {item["metadata"]["name"]: {**head, **item} for item in found["items"]}
            self.right(self.revision)
        if self.complete:
            return  # nothing will come
        if self._connection is None:
            self._connection = self._api.connect()
            query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={self.revision}&{self._selector}"
            self._response = self._api.send(self._connection, "GET", query)
            assert self._response.status == 200
        line = self._response.readline() if bytes_left is None else self._response.read1(bytes_left)
        if line.endswith(b"\n"):
            for whole in line.splitlines():
                self._take(json.loads(whole))
        if bytes_left is not None:
            self.cut()

    def _take(self, event: Object) -> None:
        found = event["object"]
        at, name = int(found["metadata"]["resourceVersion"]), found["metadata"].get("name")
        assert at > self.revision or (event["type"] == "BOOKMARK" and at == self.revision), "time went backwards"
        self.revision = at
        match event["type"]:
            case "ADDED":
                assert name not in self.known
                self.known[name] = found
            case "MODIFIED":
                assert name in self.known
                self.known[name] = found
            case "DELETED":
                assert self.known.pop(name)
            case other:
                assert other == "BOOKMARK", event
        self.right(at)


def live(endpoint: Endpoint, script: list[Any], selector: dict[str, str]) -> None:
    """Live through a script, with objects of its own."""
    run = f"r{next(_numbers)}"
    model = Model()
    with contextlib.closing(Api(endpoint)) as api:
        client = Client(api, model, {**selector, "run": run})
        try:
            for number, step in enumerate(script):
                _do(api, model, client, step, run, str(number))
            while not client.complete:
                client.read()
        finally:
            client.cut()


def _do(api: Api, model: Model, client: Client, step: Any, run: str, number: str) -> None:
    match step:
        case ("write", short, colour):
            name = f"{short}-{run}"
            new = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"n": number}}
            new["metadata"] = {"name": name, "labels": {"colour": colour, "run": run}}
            found = api.ask("PUT", f"/{name}", new) if name in model.now else api.ask("POST", "", new)
            model.note(name, found, int(found["metadata"]["resourceVersion"]))
        case ("delete", short):
            if (name := f"{short}-{run}") in model.now:
                api.ask("DELETE", f"/{name}")
                model.note(name, None, int(api.ask("GET", "?limit=1")["metadata"]["resourceVersion"]))
        case ("elsewhere",):
            about = {"involvedObject": {"namespace": "default"}, "metadata": {"name": f"e{next(_numbers)}"}}
            api.ask("POST", "", {"apiVersion": "v1", "kind": "Event", **about}, "events")
        case ("read", events):
            for _ in range(events):
                client.read()
        case ("cut", size):
            client.read(size)
        case ("restart",):
            client.restart()


FEW = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@FEW
@given(script=steps)
def test_watch_resumes_without_missing_events(endpoint: Endpoint, script: list[Any]) -> None:
    live(endpoint, script, {})


@FEW
@given(script=steps)
def test_watch_with_selector_resumes_without_missing_events(endpoint: Endpoint, script: list[Any]) -> None:
    live(endpoint, script, {"colour": "red"})
