"""Whatever comes over HTTP: an answer that fits, and a server that is none the worse for it.

Asserted of every request: no 500 and nothing in the log; a Status where something is refused, and then nothing has
changed; what is created is a new revision. Afterwards everything that was accepted can be read, shown as a table,
watched, patched with nothing and deleted: an object that no client can get rid of would be worse than a refusal.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import requests as http
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from kubesim.kinds import custom_resources
from kubesim.registry.registry import ResourceRegistry
from pumice import crds
from tests.kubesim.http import raw_client
from tests.kubesim.http.bad_requests import BadRequest, Schemas, bad_request, odd_requests
from tests.kubesim.http.bad_values import BOMB
from tests.kubesim.http.raw_client import Loop, RawClient, RawResponse, RunningServer
from tests.kubesim.http.request_places import DEFINITION, MERGE_PATCH, NAME, PLACES, REVISION, Place

AT_ONCE = 40  # requests of one example
LONG_EXAMPLES = 2500  # of 40 requests each: 100,000
STEP = 48  # of the documented operations, one in so many is tried
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_JSON = {"Content-Type": "application/json"}
GATEWAY_TIMEOUT = 504  # to who asks for a revision that is not there yet

book: dict[str, Counter[int]] = {}


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    thread = Loop()
    yield thread
    thread.stop()


def _schema_of(group: str, version: str, plural: str) -> dict[str, Any] | None:
    """The schema of a kind: of a built-in one, or of one that a definition of ours brings."""
    if not _catalogues:
        registry = ResourceRegistry(raw_client._resources())
        for definition in [*crds.definitions(), DEFINITION]:
            custom_resources.install(registry, definition)
        _catalogues.append(registry)
    resource = _catalogues[0].find(group, version, plural)
    return resource.schema.openapi if resource else None


_catalogues: list[ResourceRegistry] = []
SCHEMAS = Schemas(_schema_of)
chances = st.randoms(use_true_random=True)  # a seed, and everything follows from it


class Session:
    """Asks one server, and judges its answers."""

    def __init__(self, served: RunningServer, log: list[str], *, alone: bool = True) -> None:
        self.served = served
        self._alone = alone  # nobody else writes, so that revisions can be counted
        self._log = log
        self._client: RawClient | None = None
        self._before = ""
        self.touched: set[str] = set()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client:
            self._client.close()

    def furnish(self) -> None:
        """One object of every kind."""
        for place in sorted(PLACES, key=lambda place: place.label != "definitions"):
            if place.kept:
                said = self.ask(
                    BadRequest("furnish", "POST", place.collection, "", _JSON, json.dumps(place.object()).encode())
                )
                assert said.code == 201, (place.label, said.body)
        self.touched.clear()

    def ask(self, asked: BadRequest) -> RawResponse:
        """One request, and what always holds."""
        asked.body = self._filled(asked)
        before = self.served.revision
        said = self._exchange(asked)
        grown = self.served.revision - before
        book.setdefault(asked.label, Counter())[said.code] += 1
        about = f"{self._before}{asked.wire()[:4000]!r}\n  -> {said.code} {said.body[:600]!r}, revision +{grown}"
        self._before = f"after {asked.wire()[:600]!r} -> {said.code}\n"
        assert not self._log, f"{about}\n{self._log[0]}"
        assert said.code < 500 or said.code == GATEWAY_TIMEOUT, about
        if not self._alone:
            grown = 0
        if said.code >= 400:
            assert grown == 0, about
            if asked.method != "HEAD" and said.headers["content-type"] == "application/json":
                status = json.loads(said.body)
                assert (status["kind"], status["code"]) == ("Status", said.code) and status["message"], about
        elif asked.method in {"GET", "HEAD", "OPTIONS"} or asked.dry:
            assert grown == 0 or b"dryRun" in asked.body, about
        elif said.headers["content-type"] == "application/json":
            self._judge_write(asked, said, grown, about)
        return said

    def _judge_write(self, asked: BadRequest, said: RawResponse, grown: int, about: str) -> None:
        found = json.loads(said.body)
        revision = found.get("metadata", {}).get("resourceVersion")
        if said.code == 201 and found["kind"] != "Status" and "reviews" not in asked.path:
            assert grown == 1 or not self._alone, about
        if grown == 1 and revision and not found["kind"].endswith(("List", "Table")):
            assert revision == str(self.served.revision), about
        if grown or not self._alone:
            self.touched.add(asked.path)

    def _filled(self, asked: BadRequest) -> bytes:
        """The body, with the object's revision where a client would have put it."""
        if REVISION.encode() not in asked.body:
            return asked.body
        place = next((place for place in PLACES if asked.path.startswith(place.collection)), PLACES[0])
        record = self.served.api.store.get(place.key)
        return asked.body.replace(REVISION.encode(), str(record.revision if record else 1).encode())

    def _exchange(self, asked: BadRequest) -> RawResponse:
        client = self._client or RawClient(self.served.port)
        self._client = None
        client.send(asked.wire())
        said = client.read(head_only=asked.method == "HEAD")
        assert said is not None, f"it hung up: {asked.wire()[:4000]!r}"
        if said.stays:
            self._client = client
        else:
            client.close()
        return said

    def aftermath(self) -> None:
        """Everything that was accepted can be handled."""
        for place in PLACES:
            if place.kept and any(path.startswith(place.collection) for path in self.touched):
                self._survey(place)

    def survey_all(self) -> None:
        """Everything there is can be shown."""
        for place in PLACES:
            if place.kept:
                for accept in ("application/json", TABLE):
                    self.ask(BadRequest(f"show {place.label}", "GET", place.collection, "", {"Accept": accept}))

    def _survey(self, place: Place) -> None:
        listed = self.ask(BadRequest(f"list after {place.label}", "GET", place.collection))
        if listed.code == 404:  # its definition is gone, and it with it
            return
        for accept in (TABLE, "application/yaml", f"{TABLE.replace('Table', 'PartialObjectMetadataList')}"):
            said = self.ask(
                BadRequest(f"show {place.label}", "GET", place.collection, "includeObject=Object", {"Accept": accept})
            )
            assert said.code == 200, (accept, said.body)
        for accept in ("application/json", TABLE):
            self._watch(place, accept, bool(json.loads(listed.body)["items"]))
        for found in json.loads(listed.body)["items"]:
            self._handle(place, found["metadata"])

    def _watch(self, place: Place, accept: str, expecting: bool) -> None:
        client = RawClient(self.served.port)
        asked = BadRequest(
            f"watch after {place.label}", "GET", place.collection, "watch=1&resourceVersion=0", {"Accept": accept}
        )
        client.send(asked.wire())
        said = client.read()
        assert said is not None and said.code == 200, (asked.wire(), said)
        if expecting:
            for line in (client.chunk() or b"").splitlines():
                assert json.loads(line)["type"] == "ADDED"
        client.close()

    def _handle(self, place: Place, about: dict[str, Any]) -> None:
        one = f"{place.collection}/{about['name']}"
        found = self.ask(BadRequest(f"get after {place.label}", "GET", one))
        assert found.code == 200, one
        nothing = BadRequest(f"empty patch {place.label}", "PATCH", one, "", {"Content-Type": MERGE_PATCH}, b"{}")
        if place.label == "definitions":  # a status that says too little is put right with the next write
            found = self.ask(nothing)
        if (
            found.code == 422
        ):  # only the status can be set right, by who knows where the objects are, as on a real server
            assert place.label == "definitions" and b"storedVersions" in found.body, found.body
        said = self.ask(nothing)
        assert (said.code, said.body) == (found.code, found.body), f"{one}\n{found.body!r}\n{said.body!r}"
        if about["name"] not in KEPT.get(place.label, ()):
            said = self.ask(BadRequest(f"delete after {place.label}", "DELETE", one))
            refused = place.label == "queues" and said.code == 403  # one that others hang on
            assert said.code == 200 or refused, (one, said.body)


KEPT = {
    "namespaces": ("default", "kube-system", "kube-public", "kube-node-lease"),
    "priorityclasses": ("system-cluster-critical", "system-node-critical"),
    "queues": ("root", "default"),
}
"""What nobody can delete."""


def try_out(loop: Loop, chance: Random) -> None:
    """One example: a new server, the requests, and what is left of them."""
    with raw_client.logged_errors() as log, raw_client.bare_server(loop) as served, Session(served, log) as session:
        session.furnish()
        for _ in range(AT_ONCE):
            session.ask(bad_request(chance, SCHEMAS))
        session.aftermath()
        assert session.ask(BadRequest("version", "GET", "/version")).code == 200
    assert not log, log[0]


def try_with_controllers(loop: Loop, chance: Random) -> None:
    """The same with everybody at work who reads what was accepted."""
    with (
        raw_client.logged_errors() as log,
        raw_client.full_cluster(loop) as served,
        Session(served, log, alone=False) as session,
    ):
        session.furnish()
        for _ in range(AT_ONCE):
            session.ask(bad_request(chance, SCHEMAS))
        rested = 0
        while rested < 3:  # as long as they find something to do
            before = served.revision
            time.sleep(0.02)
            rested = rested + 1 if served.revision == before else 0
        assert served.broken is not None
        assert not served.broken.done(), f"a controller ended: {served.broken.exception()!r}"
        session.survey_all()
    assert not log, log[0]


def told() -> str:
    """How many answers of which code there were, by operation."""
    lines = [f"{sum(counts.total() for counts in book.values()):,} requests"]
    for label, counts in sorted(book.items()):
        lines.append(f"  {label:36} " + "  ".join(f"{code}: {n:,}" for code, n in sorted(counts.items())))
    return "\n".join(lines)


# ---- from the server's own documents ------------------------------------------------------------------------


def documented(served: RunningServer) -> Iterator[Any]:
    """The operations that the server says it has."""
    client = RawClient(served.port)

    def page(path: str) -> Any:
        client.send(BadRequest("", "GET", path).wire())
        said = client.read()
        assert said is not None and said.code == 200, path
        return json.loads(said.body)

    for path in page("/openapi/v3")["paths"]:
        for operation in schemathesis.openapi.from_dict(page(f"/openapi/v3/{path}")).get_all_operations():
            yield operation.ok()
    client.close()


def try_documented(loop: Loop, *, step: int, examples: int) -> int:
    """So many requests to every (or every so many) operation, by its schema and against it; how many it were."""
    asked = 0
    with raw_client.logged_errors() as log, raw_client.bare_server(loop) as served, Session(served, log) as session:
        session.furnish()
        for operation in list(documented(served))[::step]:
            for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
                asked += _try_operation(session, operation, mode, examples)
        session.aftermath()
    assert not log, log[0]
    return asked


def _try_operation(session: Session, operation: Any, mode: Any, examples: int) -> int:
    asked = 0

    @settings(max_examples=examples, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode), there=st.integers(0, 4))
    def ask(case: Any, there: int) -> None:
        nonlocal asked
        if there and case.path_parameters:  # a name out of nowhere says little: mostly it is one that exists
            known = {"namespace": "default", "name": NAME}
            case.path_parameters = {name: known.get(name, value) for name, value in case.path_parameters.items()}
        try:
            sent = http.Request(**case.as_transport_kwargs(base_url="http://localhost")).prepare()
        except (ValueError, http.exceptions.RequestException):  # what no HTTP client would send is made elsewhere
            return
        target = sent.url.removeprefix("http://localhost") if sent.url else "/"
        path, _, query = target.partition("?")
        headers = {name: value for name, value in sent.headers.items() if name.lower() in {"content-type", "accept"}}
        body = sent.body or b""
        label = f"{operation.method.upper()} {operation.path.rpartition('/')[2]} {mode.name.lower()}"
        asked += 1
        session.ask(
            BadRequest(
                label, sent.method or "GET", path, query, headers, body.encode() if isinstance(body, str) else body
            )
        )

    with contextlib.suppress(Unsatisfiable):  # nothing can be against a schema that allows everything
        ask()
    return asked


# ---- tests --------------------------------------------------------------------------------------------------

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]  # the request that fails is shown; the others led up to it


CONFIGS = "/api/v1/namespaces/default/configmaps"
YAML = {"Content-Type": "application/yaml"}


def _token(revision: int) -> str:
    return base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":%d,"start":"a\\u0000"}' % revision).decode()


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "body", "code"),
    [
        ("GET", CONFIGS, "resourceVersion=" + "1" * 5000, {}, b"", 400),  # more digits than int() takes
        ("GET", CONFIGS, "limit=1_0", {}, b"", 400),  # Python's digits, not Go's
        ("GET", CONFIGS, "limit=%D9%A3", {}, b"", 400),
        ("GET", CONFIGS, "continue=" + _token(0), {}, b"", 400),  # no list was ever at revision 0
        ("POST", CONFIGS, "", YAML, b"a: !!bool x", 400),
        ("POST", CONFIGS, "", YAML, b"a: !!timestamp x", 400),
        ("POST", CONFIGS, "", YAML, b"a: !!int ''", 400),
        ("POST", CONFIGS, "", YAML, BOMB, 400),  # a few hundred bytes that mean ten thousand million
        ("POST", CONFIGS, "", _JSON, b'{"metadata":{"name":"a","generation":123456789012345678901234567890}}', 400),
        ("POST", CONFIGS, "", _JSON, b'{"metadata":{"name":"a","annotations":{"a":"\\ud800"}}}', 400),
        ("POST", CONFIGS, "", _JSON, b"[" * 100_000, 400),
        ("OPTIONS", "*", "", {}, b"", 404),
        ("DELETE", "/api/v1/namespaces/default/pods", "", _JSON, b'{"preconditions":{"uid":"x"}}', 409),
        ("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses", "", {}, b"", 403),  # one of them may not be deleted
    ],
)
def test_formerly_mishandled_request_gets_expected_status_code(
    loop: Loop, method: str, path: str, query: str, headers: dict[str, str], body: bytes, code: int
) -> None:
    with raw_client.logged_errors() as log, raw_client.bare_server(loop) as served, Session(served, log) as session:
        session.furnish()
        before = served.revision
        assert session.ask(BadRequest("once", method, path, query, dict(headers), body)).code == code
        assert session.ask(BadRequest("version", "GET", "/version")).code == 200
        assert served.revision == before


def test_an_eviction_that_is_refused_costs_the_budget_nothing(loop: Loop) -> None:
    """The budget allows one; the precondition is about another pod."""
    with raw_client.logged_errors() as log, raw_client.bare_server(loop) as served, Session(served, log) as session:
        session.furnish()
        budgets, pod = (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets/it",
            "/api/v1/namespaces/default/pods/it",
        )
        patch = {"Content-Type": MERGE_PATCH}
        selector = b'{"spec":{"selector":{"matchLabels":{"app":"it"}}}}'
        assert session.ask(BadRequest("once", "PATCH", budgets, "", patch, selector)).code == 200
        counts = {"currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
        status = json.dumps({"status": {"disruptionsAllowed": 1, "observedGeneration": 2, **counts}}).encode()
        assert session.ask(BadRequest("once", "PATCH", f"{budgets}/status", "", patch, status)).code == 200
        body = b'{"metadata":{"name":"it"},"deleteOptions":{"preconditions":{"uid":"x"}}}'
        before = served.revision
        assert session.ask(BadRequest("once", "POST", f"{pod}/eviction", "", _JSON, body)).code == 409
        assert session.ask(BadRequest("version", "GET", "/version")).code == 200
        assert served.revision == before


def test_odd_requests_cause_no_server_error(loop: Loop) -> None:
    with raw_client.logged_errors() as log, raw_client.bare_server(loop) as served, Session(served, log) as session:
        session.furnish()
        asked = [session.ask(one).code for one in odd_requests()]
        session.aftermath()
    assert len(asked) > 1000 and not log


@settings(max_examples=30, phases=UNSHRUNK, suppress_health_check=QUIET)
@given(chance=chances)
def test_nothing_that_is_asked_breaks_the_server(loop: Loop, chance: Random) -> None:
    try_out(loop, chance)


@settings(max_examples=8, phases=UNSHRUNK, suppress_health_check=QUIET)
@given(chance=chances)
def test_nothing_that_is_accepted_breaks_a_controller(loop: Loop, chance: Random) -> None:
    try_with_controllers(loop, chance)


def test_requests_generated_from_openapi_cause_no_server_error(loop: Loop) -> None:
    assert try_documented(loop, step=STEP, examples=2) > 15


@pytest.mark.long
def test_a_hundred_thousand_bad_requests(loop: Loop) -> None:
    book.clear()
    asked = documented_ones = try_documented(loop, step=1, examples=20)

    @settings(max_examples=LONG_EXAMPLES, phases=UNSHRUNK, suppress_health_check=QUIET)
    @given(chance=chances)
    def ask(chance: Random) -> None:
        nonlocal asked
        (try_out if chance.random() < 0.9 else try_with_controllers)(loop, chance)
        asked += AT_ONCE

    ask()
    print(f"\n{told()}")
    print(
        f"{asked:,} of these were bad, {documented_ones:,} by the server's own documents; the others looked after them"
    )
    assert asked >= 100_000
