"""Certificates of webhooks: made once for all replicas, renewed in time, and never shown before they are trusted."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubebase.certificates import VALID, Certificate, issue, renewed, serves, signer
from kubesim.server import RunningCluster
from pumice.admission.webhooks.ca_bundle import MUTATING, VALIDATING, CaBundlePublisher
from pumice.admission.webhooks.certificate_source import SECRETS, FileCertificate, SecretCertificate
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from tests.support.live_cluster import live

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
HOSTS = ["pumice-webhooks.pumice-system.svc", "127.0.0.1"]


# ---- certificates -------------------------------------------------------------------------------------------------


def test_a_certificate_serves_its_names_for_its_time():
    made = issue(HOSTS, NOON)
    assert serves(made, HOSTS, NOON + VALID - timedelta(seconds=1))
    assert not serves(made, HOSTS, NOON + VALID)
    assert not serves(made, [*HOSTS, "elsewhere.svc"], NOON)


def test_certificate_not_yet_valid_is_not_served():
    """As a replica makes it whose clock is far ahead; an hour is nothing."""
    assert not serves(issue(HOSTS, NOON + timedelta(days=2)), HOSTS, NOON)
    assert serves(issue(HOSTS, NOON + timedelta(minutes=59)), HOSTS, NOON)


def test_a_key_of_an_unknown_kind_does_not_serve():
    # PKCS 8 of 32 bytes for the algorithm 1.3.101.114, which nobody has defined
    content = base64.b64encode(bytes.fromhex("302e020100300506032b657204220420") + bytes(32))
    key = b"-----BEGIN PRIVATE KEY-----\n" + content + b"\n-----END PRIVATE KEY-----\n"
    assert not serves(replace(issue(HOSTS, NOON), key=key), HOSTS, NOON)


def test_a_renewed_one_is_trusted_beside_the_old():
    old = issue(HOSTS, NOON)
    new = renewed(old, HOSTS, NOON + timedelta(days=300))
    assert serves(new, HOSTS, NOON + timedelta(days=600))
    assert new.authorities == signer(new) + b"\n" + old.authorities
    last = renewed(new, HOSTS, NOON + timedelta(days=600))
    assert old.authorities not in last.authorities and signer(new) in last.authorities, "what has run out is forgotten"


def test_renewed_certificate_keeps_only_four_previous_authorities():
    many = [issue(HOSTS, NOON)]
    while len(many) < 9:
        many.append(renewed(many[-1], HOSTS, NOON))
    assert many[-1].authorities == b"".join(signer(one) + b"\n" for one in many[:-6:-1]), "the newest, and 4 before"


def test_names_add_up():
    old = issue(["a.svc", "127.0.0.1"], NOON)
    assert serves(renewed(old, ["b.svc", "::1"], NOON), ["a.svc", "127.0.0.1", "b.svc", "::1"], NOON)


@pytest.mark.parametrize("part", ["authorities", "certificate", "key"])
@pytest.mark.parametrize("content", [b"", b"-----BEGIN NONSENSE-----", "other"])
def test_certificate_with_mismatched_part_is_not_served(part, content):
    other = getattr(issue(HOSTS, NOON), part) if content == "other" else content
    assert not serves(replace(issue(HOSTS, NOON), **{part: other}), HOSTS, NOON)


# ---- the Secret ---------------------------------------------------------------------------------------------------


def with_api(tmp_path: Any, check: Any) -> None:
    async def run(running: RunningCluster) -> None:
        async with Session(Access(running.server)) as session:
            await check(Api(session))

    live(tmp_path, run, count=0)


def test_replicas_agree_on_one(tmp_path):
    async def check(api: Api) -> None:
        moment = [NOON]
        replicas = [SecretCertificate(api, "default", "kept", HOSTS, now=lambda: moment[0]) for _ in range(5)]
        first = set(await asyncio.gather(*(replica.current() for replica in replicas)))
        assert len(first) == 1
        moment[0] += VALID - timedelta(days=31)
        assert set(await asyncio.gather(*(replica.current() for replica in replicas))) == first, "it is not time yet"
        moment[0] += timedelta(days=2)
        second = set(await asyncio.gather(*(replica.current() for replica in replicas)))
        assert len(second) == 1 and second != first
        (old,), (new,) = first, second
        assert signer(old) in new.authorities

    with_api(tmp_path, check)


def test_a_secret_that_was_spoilt_is_made_good(tmp_path):
    async def check(api: Api) -> None:
        source = SecretCertificate(api, "default", "kept", HOSTS, now=lambda: NOON)
        await source.current()
        await api.patch(SECRETS, "kept", {"data": {"tls.key": "bm9uc2Vuc2U=", "mine": "aA=="}}, "default")
        made = await source.current()
        assert serves(made, HOSTS, NOON) and made == await source.current()
        assert (await api.get(SECRETS, "kept", "default"))["data"]["mine"] == "aA==", "what others keep there stays"

    with_api(tmp_path, check)


def test_recreated_secret_still_trusts_authority_of_lost_secret(tmp_path):
    async def check(api: Api) -> None:
        replicas = [SecretCertificate(api, "default", "kept", HOSTS, now=lambda: NOON) for _ in range(2)]
        old = {await replica.current() for replica in replicas}
        await api.delete(SECRETS, "kept", "default")
        new = {await replica.current() for replica in replicas}
        assert len(old) == len(new) == 1 and new != old
        assert signer(*old) in new.pop().authorities, "which the others show until they have looked"

    with_api(tmp_path, check)


def test_a_certificate_from_the_future_is_replaced(tmp_path):
    async def check(api: Api) -> None:
        ahead = SecretCertificate(api, "default", "kept", HOSTS, now=lambda: NOON + timedelta(days=2))
        early = await ahead.current()
        made = await SecretCertificate(api, "default", "kept", HOSTS, now=lambda: NOON).current()
        assert made != early and serves(made, HOSTS, NOON)
        assert await ahead.current() == made, "both can use it, so nobody makes another"

    with_api(tmp_path, check)


def test_files_are_read_again(tmp_path):
    source = FileCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    for content in (b"1", b"2"):
        for path in (source.certificate, source.key):
            path.write_bytes(content)
        assert asyncio.run(source.current()) == Certificate(b"", content, content)


# ---- trust --------------------------------------------------------------------------------------------------------


class Configurations:
    """An API with the two configurations, and nothing else."""

    def __init__(self) -> None:
        self.bundles: dict[str, str | None] = {MUTATING.name: "", VALIDATING.name: ""}  # None: it is not there
        self.written = 0

    async def get(self, resource: Any, name: str) -> dict[str, Any]:
        bundle = self.bundles[resource.name]
        if bundle is None:
            raise ApiError(404, "NotFound", "not there")
        return {"webhooks": [{"name": "one", "clientConfig": {"caBundle": bundle}}]}

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], *, how: Any) -> None:
        (webhook,) = patch["webhooks"]
        self.bundles[resource.name] = webhook["clientConfig"]["caBundle"]
        self.written += 1

    def trusted(self) -> set[bytes]:
        return {base64.b64decode(bundle or "") for bundle in self.bundles.values()}


class Given:
    """A source that has what a test gives it."""

    def __init__(self) -> None:
        self.certificate = issue(HOSTS, NOON)

    async def current(self) -> Certificate:
        return self.certificate


class Scene:
    """Configurations, a source, and what is shown."""

    def __init__(self) -> None:
        self.api, self.source = Configurations(), Given()
        self.shown: list[Certificate] = []
        self.now = 0.0
        self.trust = CaBundlePublisher(
            self.api,  # type: ignore[arg-type]  # as much of an API as it asks for
            self.source,
            "pumice",
            self.shown.append,
            settle=30.0,
            clock=lambda: self.now,
        )

    def look(self, now: float) -> list[Certificate]:
        self.now = now
        asyncio.run(self.trust.look())
        return self.shown


def test_the_first_is_shown_as_soon_as_it_is_published():
    scene = Scene()
    assert scene.look(0) == [scene.source.certificate]
    assert scene.api.trusted() == {scene.source.certificate.authorities}
    assert scene.look(1) == [scene.source.certificate] and scene.api.written == 2, "nothing is written twice"


def test_another_is_shown_when_all_must_have_heard_of_it():
    scene = Scene()
    scene.look(0)
    old = scene.source.certificate
    new = scene.source.certificate = renewed(old, HOSTS, NOON)
    assert scene.look(10) == [old] and scene.api.trusted() == {new.authorities}
    assert scene.look(39) == [old]
    assert scene.look(40) == [old, new]


def test_overwritten_ca_bundle_is_restored_and_trust_delay_restarts():
    scene = Scene()
    scene.look(0)
    old = scene.source.certificate
    new = scene.source.certificate = renewed(old, HOSTS, NOON)
    scene.look(10)
    scene.api.bundles[VALIDATING.name] = ""
    assert scene.look(39) == [old] and scene.api.trusted() == {new.authorities}
    assert scene.look(68) == [old]
    assert scene.look(69) == [old, new]


def test_untrusted_certificate_is_replaced_without_delay():
    scene = Scene()
    scene.look(0)
    new = scene.source.certificate = issue(HOSTS, NOON)
    assert scene.look(1)[-1] == new


def test_a_configuration_that_is_not_there_asks_nobody():
    scene = Scene()
    scene.api.bundles = dict.fromkeys(scene.api.bundles)
    assert scene.look(0) == [scene.source.certificate] and scene.api.written == 0


def test_a_certificate_that_somebody_else_sees_to_is_not_published():
    scene = Scene()
    scene.source.certificate = replace(scene.source.certificate, authorities=b"")
    assert scene.look(0) == [scene.source.certificate] and scene.api.written == 0
    other = scene.source.certificate = replace(issue(HOSTS, NOON), authorities=b"")
    assert scene.look(1)[-1] == other
