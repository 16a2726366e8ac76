"""``pumice up`` as a whole: what is there at the start, who may come, and what is left after the end."""

from __future__ import annotations

import asyncio
import json
import ssl
import stat
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.apiserver.kubeconfig import write_kubeconfig
from pumice.apiserver.nodes.description import nodes, parse_capacity
from pumice.apiserver.private import write_private
from pumice.apiserver.storage import DataHeld
from pumice.apiserver.tls import certificates
from pumice.apiserver.up import Settings, cluster, is_loopback


def settings(place: Path, **more: Any) -> Settings:
    given: dict[str, Any] = {
        "data": None,
        "kubeconfig": place / "kubeconfig",
        "certificates": place / "tls",
        "nodes": nodes(2, parse_capacity("cpu=4,memory=8Gi")),
    }
    return Settings(**{**given, **more})


async def ask(url: str, *, token: str = "", context: ssl.SSLContext | None = None) -> tuple[int, Any]:
    def fetch() -> tuple[int, Any]:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    return await asyncio.to_thread(fetch)


def test_a_new_cluster_has_what_every_cluster_has(tmp_path: Path) -> None:
    async def look() -> None:
        async with cluster(settings(tmp_path)) as running:
            names = {
                path: [item["metadata"]["name"] for item in found["items"]]
                for path, found in await _lists(running.server)
            }
        assert names["/api/v1/nodes"] == ["node-000", "node-001"]
        assert names["/api/v1/namespaces"] == ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert names["/apis/scheduling.volcano.sh/v1beta1/queues"] == ["default", "root"]
        assert names["/apis/scheduling.k8s.io/v1/priorityclasses"] == [
            "system-cluster-critical",
            "system-node-critical",
        ]

    async def _lists(server: str) -> list[tuple[str, Any]]:
        paths = (
            "/api/v1/nodes",
            "/api/v1/namespaces",
            "/apis/scheduling.volcano.sh/v1beta1/queues",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
        )
        return [(path, (await ask(server + path))[1]) for path in paths]

    asyncio.run(look())


def test_everything_is_there_again_after_a_restart(tmp_path: Path) -> None:
    async def live() -> None:
        kept = settings(tmp_path, data=tmp_path / "data")
        async with cluster(kept) as running:
            made = await running.api.create("configmaps", "default", {"metadata": {"name": "a"}, "data": {"k": "v"}})
            before = running.api.store.revision
        async with cluster(kept) as running:
            assert running.api.read("configmaps", "default", "a") == made
            assert running.api.store.revision >= before
            assert [node["metadata"]["name"] for node in running.api.list("nodes")] == ["node-000", "node-001"]

    asyncio.run(live())


def test_a_second_start_on_the_same_data_says_who_holds_it(tmp_path: Path) -> None:
    async def twice() -> None:
        kept = settings(tmp_path, data=tmp_path / "data")
        async with cluster(kept) as running:
            with pytest.raises(DataHeld) as held:
                async with cluster(kept):
                    pass
            assert running.server in str(held.value) and "process" in str(held.value)

    asyncio.run(twice())


def test_a_token_brings_tls_with_it(tmp_path: Path) -> None:
    async def knock() -> None:
        async with cluster(settings(tmp_path, token="s3cret")) as running:
            assert running.server.startswith("https://127.0.0.1:")
            trust = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.crt"))
            url = f"{running.server}/api/v1/namespaces/default"
            assert (await ask(url, token="s3cret", context=trust))[0] == 200
            for wrong in ("", "s3cre", "s3crets"):
                code, found = await ask(url, token=wrong, context=trust)
                assert (code, found["reason"]) == (401, "Unauthorized")
        config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
        assert config["users"][0]["user"] == {"token": "s3cret"}
        assert config["clusters"][0]["cluster"]["certificate-authority-data"]

    asyncio.run(knock())


def test_beyond_loopback_a_token_is_made_if_none_is_given(tmp_path: Path) -> None:
    async def knock() -> None:
        async with cluster(settings(tmp_path, host="0.0.0.0")) as running:
            assert running.server.startswith("https://127.0.0.1:")
            trust = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.crt"))
            token = yaml.safe_load((tmp_path / "kubeconfig").read_text())["users"][0]["user"]["token"]
            assert len(token) >= 32
            url = f"{running.server}/api/v1/namespaces/default"
            assert (await ask(url, context=trust))[0] == 401
            assert (await ask(url, token=token, context=trust))[0] == 200

    asyncio.run(knock())


def test_loopback_is_what_only_this_machine_can_reach() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.com")))


def test_certificates_are_made_once_and_anew_for_another_host(tmp_path: Path) -> None:
    first = certificates(tmp_path, "127.0.0.1")
    made = first.certificate.read_bytes()
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600
    assert certificates(tmp_path, "127.0.0.1").certificate.read_bytes() == made
    assert certificates(tmp_path, "192.0.2.1").certificate.read_bytes() != made
    first.certificate.write_text("nonsense")
    certificates(tmp_path, "127.0.0.1").context()


def test_what_is_private_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    write_kubeconfig(path, "http://127.0.0.1:1")
    write_private(path, b"once more")
    assert path.read_bytes() == b"once more"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["kubeconfig"]
