"""Scripts of requests to an API server, and what of the answers is compared.

A script (one entry of a YAML file in ``tests/kubesim/parity/exchanges``) runs in a namespace of its own, named like
the script. Every step asks one thing and carries the answer that a real kube-apiserver gave:

    ask:     METHOD PATH; ``${word}`` stands for something kept, ``${ns}`` for the script's namespace
    object:  which of the ``objects`` of the file is the body; ``with`` sets or (null) removes fields of it
    body:    or the body itself; ``raw``: as text; ``bytes``: so many of them, all spaces
    headers: beside Authorization, Accept and Content-Type, which have the usual values; null leaves one out
    keep:    what later steps may name, as ``word: path``
    see:     which fields of the answer are compared, as paths (``items[*].metadata.name``); ``*``: all there is
    seen:    which headers of the answer are compared
    until:   ask again for up to ten seconds until the code is this
    take:    of a watch: how many events to read; then it is cut
    answer:  what came back: code, and for a failure reason, message and details
    ours:    where our answer differs on purpose: ``why``, and ``answer`` with what we say instead, or ``free`` with
             the fields that are not compared

What differs from run to run is replaced by a word in angle brackets before comparing: uids, times, revisions, tokens.
"""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import re
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.case_files import read_yaml

ABSENT = "<absent>"
SHIPPED = Path(__file__).parent.parent.parent / "src" / "pumice" / "crds"
_IGNORED = {"managedFields", "storageVersionHash"}
_TIMES = {  # which Go writes as null if they are not set
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "eventTime",
    "firstTimestamp",
    "lastHeartbeatTime",
    "lastProbeTime",
    "lastTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
}
_BY_TIME = {"manager", "operation", "fieldsV1", "subresource"}  # of managedFields, which stand in the order of seconds
_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_REVISION = re.compile(r'(\\?"resourceVersion\\?":\\?")\d+')  # in an object that a message holds
_AGE = re.compile(r"^(<invalid>|(\d+[smhdy])+)$")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\*)\]")
_TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # one for all requests; it does not read the system's authorities
_TRUSTING.check_hostname = False
_TRUSTING.verify_mode = ssl.CERT_NONE


@dataclass
class Script:
    """One story: its steps in order."""

    name: str
    about: str
    steps: list[dict[str, Any]]
    objects: dict[str, Any]


def load(path: Path) -> list[Script]:
    """The scripts of a file."""
    document = read_yaml(path)
    objects = document.get("objects", {})
    return [Script(s["name"], s["about"], s["steps"], objects) for s in document["scripts"]]


def paths_of(path: str) -> list[str | int]:
    """``spec.containers[0].name`` in its steps; a dot inside a name is written ``\\.``."""
    guarded = path.replace("\\.", "\0")
    return [
        name.replace("\0", ".") if name else (-1 if index == "*" else int(index))
        for name, index in _STEP.findall(guarded)
    ]


def look_up(value: Any, steps: list[str | int]) -> Any:
    """The value at a path; a list of values where the path has a star."""
    for position, step in enumerate(steps):
        if step == -1:
            if not isinstance(value, list):
                return ABSENT
            return [look_up(item, steps[position + 1 :]) for item in value]
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return value


def put(value: Any, path: str, new: Any) -> None:
    """Set the field at a path; None removes it, and where there is none stands as null."""
    *front, last = paths_of(path)
    for position, step in enumerate(front):
        follower = front[position + 1] if position + 1 < len(front) else last
        if isinstance(value, dict) and step not in value:
            value[step] = [] if isinstance(follower, int) else {}
        value = value[step]
    if new is None and last in value:
        del value[last]
    elif isinstance(value, list) and last == len(value):
        value.append(new)
    else:
        value[last] = new


@dataclass
class Player:
    """Asks one server what the scripts say."""

    url: str
    token: str
    kept: dict[str, str] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        """A namespace for the script, and nothing kept yet."""
        self.kept = {"ns": name, "token": self.token}
        body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
        code, _, said = self._exchange("POST", "/api/v1/namespaces", self._headers({}), body, 0)
        if code != 201:
            raise RuntimeError(f"namespace {name}: {code} {said!r}")

    def ship(self, folder: Path) -> None:
        """Make the definitions of a folder known to a server that does not come with them."""
        for path in sorted(folder.glob("*.json")):  # the YAML beside it has tags of its own
            (definition,) = json.loads(path.read_text())
            collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            code, _, said = self._exchange("POST", collection, self._headers({}), json.dumps(definition).encode(), 0)
            if code != 201:
                raise RuntimeError(f"{path.name}: {code} {said!r}")
            spec = definition["spec"]
            place = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            while self._exchange("GET", place, self._headers({}), None, 0)[0] != 200:
                time.sleep(0.05)

    def play(self, script: Script, step: dict[str, Any]) -> dict[str, Any]:
        """What the server answers to a step, made comparable."""
        method, path = self._filled(step["ask"]).split(" ", 1)
        given, body = self._headers(step.get("headers", {})), self._body(script, step)
        for _ in range(100):
            code, headers, text = self._exchange(method, path, given, body, step.get("take", 0))
            if step.get("until", code) == code:
                break
            time.sleep(0.1)
        answer: dict[str, Any] = {"code": code}
        if "watch=" in path and code == 200:
            events = [json.loads(line) for line in text.splitlines()]
            self._keep(step, {"events": events})
            answer["events"] = [
                {"type": e["type"], **self._of_interest(step, e["object"])} for e in self._chosen(step, events)
            ]
        else:
            document = _decoded(text)
            self._keep(step, document)
            answer |= self._of_interest(step, document)
        if "seen" in step:
            answer["headers"] = {name: self._steady(headers.get_all(name) or ABSENT, "header") for name in step["seen"]}
        return answer

    def _chosen(self, step: dict[str, Any], events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The events to compare: bookmarks that come by the clock are left out unless the step asks for them."""
        chosen = [e for e in events if step.get("bookmarks") or e["type"] != "BOOKMARK"]
        return chosen[: step["take"]] if "take" in step else chosen

    def _of_interest(self, step: dict[str, Any], document: Any) -> dict[str, Any]:
        asked = step.get("see")
        if isinstance(document, str):
            return {"text": self._steady(document, "")} if asked is None else {}
        failed = isinstance(document, dict) and document.get("kind") == "Status"
        if failed and asked is None:
            names = ("status", "reason", "message", "details", "code")
            said = {name: document[name] for name in names if document.get(name)}
            if said.get("status") == "Failure":
                del said["status"], said["code"]
            _order_causes(said)
            return dict(self._steady(said, ""))
        if asked == "*":
            return {"body": self._steady(document, "")}
        return {path: self._steady(look_up(document, paths_of(path)), path.rpartition(".")[2]) for path in asked or ()}

    def _steady(self, value: Any, name: str) -> Any:
        """A value without what differs between runs."""
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if k not in _IGNORED and (v is not None or k not in _TIMES)}
            return {k: self._steady(v, k) for k, v in kept.items()}
        if isinstance(value, list) and name == "verbs":
            return sorted(value)
        if isinstance(value, list) and name in _BY_TIME:
            return sorted((self._steady(item, "") for item in value), key=json.dumps)
        if isinstance(value, list):
            return [self._steady(item, name) for item in value]
        if not isinstance(value, str) or value == ABSENT:
            return value
        if name == "resourceVersion":
            return "<revision>" if value.isdigit() and value != "0" else value
        if name == "continue":
            return "<token>" if value else value
        if name == "cells" and _AGE.match(value):
            return "<age>"
        for word, known in self.kept.items():
            if known and word != "ns":
                # not inside a word or a time: a revision may be the number of the minute
                value = re.sub(rf"(?<![\w:-]){re.escape(known)}(?![\w:-])", f"<{word}>", value)
        value = _TIME.sub("<time>", _UID.sub("<uid>", value))
        value = _REVISION.sub(r"\1<revision>", value)
        return re.sub(r"(current: |too old resource version: \d+ \()\d+", r"\1<revision>", value)

    def _keep(self, step: dict[str, Any], document: Any) -> None:
        for word, path in step.get("keep", {}).items():
            self.kept[word] = str(look_up(document, paths_of(path)))

    def _filled(self, value: Any) -> Any:
        """With what was kept in place of ``${word}``; ``${word+5}`` adds, ``${word|token}`` makes a continue token."""
        if isinstance(value, dict):
            return {self._filled(k): self._filled(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if not isinstance(value, str):
            return value

        def known(match: re.Match[str]) -> str:
            word, more = match["word"], match["more"]
            return str(int(self.kept[word]) + int(more)) if more else self.kept[word]

        return re.sub(r"\$\{(?P<word>\w+)(?P<more>[+-]\d+)?\}", known, value)

    def _body(self, script: Script, step: dict[str, Any]) -> bytes | None:
        if "raw" in step:
            return str(self._filled(step["raw"])).encode()
        if "bytes" in step:
            return b" " * int(step["bytes"])
        if "object" in step:
            document = copy.deepcopy(script.objects[step["object"]])
            for path, value in step.get("with", {}).items():
                put(document, path, value)
            return json.dumps(self._filled(document)).encode()
        return json.dumps(self._filled(step["body"])).encode() if "body" in step else None

    def _headers(self, given: dict[str, str | None]) -> dict[str, str]:
        usual: dict[str, str | None] = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
        return {k: str(self._filled(v)) for k, v in {**usual, **given}.items() if v is not None}

    def _exchange(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, take: int
    ) -> tuple[int, http.client.HTTPMessage, str]:
        """One request on a connection of its own. ``take`` cuts a watch after so many events."""
        place = urlsplit(self.url)
        connection: http.client.HTTPConnection
        if place.scheme == "https":
            connection = http.client.HTTPSConnection(place.hostname or "", place.port, timeout=30, context=_TRUSTING)
        else:
            connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        try:
            # a server may answer before it has read a body that is too large
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path.replace(" ", "%20"), body, headers)
            response = connection.getresponse()
            if take and response.status == 200:
                lines = [response.readline() for _ in range(take)]
                return response.status, response.headers, b"".join(lines).decode()
            return response.status, response.headers, response.read().decode(errors="replace")
        finally:
            connection.close()


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _order_causes(said: dict[str, Any]) -> None:
    """Several problems stand once each and by field: the real server repeats some, and orders others at random."""
    causes = said.get("details", {}).get("causes", [])
    opening, found, _ = said.get("message", "").partition(" is invalid: [")
    if found and all("field" in cause for cause in causes):
        texts = sorted(f"{cause['field']}: {cause['message']}" for cause in causes)
        if len(", ".join(texts)) + len(opening) + len(found) + 1 == len(said["message"]):
            said["message"] = f"{opening}{found}{', '.join(texts)}]"
        causes.sort(key=lambda cause: (cause["field"], cause["message"]))
    causes[:] = [cause for number, cause in enumerate(causes) if cause not in causes[:number]]


def expected_of_us(step: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
    """What we are to answer: as the real server, but for what the step says under ``ours``."""
    ours = step.get("ours", {})
    expected = copy.deepcopy({**step["answer"], **ours.get("answer", {})})
    for path in ours.get("free", ()):
        if path in expected or path in got:
            expected.pop(path, None)
            got.pop(path, None)
        else:
            *front, last = paths_of(path)
            for side in (expected, got):
                around = look_up(side, front)
                if isinstance(around, dict):
                    around.pop(last, None)
    return expected


def differences(expected: Any, got: Any, where: str = "") -> Iterator[str]:
    """Where two answers differ, one line each."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in [*expected, *(k for k in got if k not in expected)]:
            inner = f"{where}.{key}" if where else str(key)
            yield from differences(expected.get(key, ABSENT), got.get(key, ABSENT), inner)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for position, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from differences(one, other, f"{where}[{position}]")
    elif expected != got:
        yield f"{where}: expected {json.dumps(expected)}, got {json.dumps(got)}"
