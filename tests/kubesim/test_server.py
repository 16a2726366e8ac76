"""A server as a whole: what is there at the start, who may come, and what is left after the end."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import stat
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubebase.field_error import FieldError
from kubesim.api.client import InProcessClient
from kubesim.api.request_context import ADMIN, RequestContext
from kubesim.api.requests import DeleteOptions, Target
from kubesim.api.status import ApiError, forbidden
from kubesim.http.auth import is_loopback, load_tls
from kubesim.http.listen import bind_sockets
from kubesim.http.tls import load_or_issue_certificates
from kubesim.kubeconfig import require_own_kubeconfig, write_kubeconfig
from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.private_file import write_private
from kubesim.registry.registry import Object, Resource
from kubesim.server import ServerSettings, running_cluster
from kubesim.storage import DataInUse


def settings(place: Path, **more: Any) -> ServerSettings:
    given: dict[str, Any] = {
        "data": None,
        "kubeconfig": place / "kubeconfig",
        "nodes": make_nodes(2, parse_capacity("cpu=4,memory=8Gi")),
    }
    return ServerSettings(**{**given, **more})


def written(place: Path) -> Any:
    return yaml.safe_load((place / "kubeconfig").read_text())


def token_of(place: Path) -> str:
    return str(written(place)["users"][0]["user"]["token"])


def trust(place: Path) -> ssl.SSLContext:
    authority = base64.b64decode(written(place)["clusters"][0]["cluster"]["certificate-authority-data"])
    return ssl.create_default_context(cadata=authority.decode())


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
        async with running_cluster(settings(tmp_path)) as running:
            names = {
                path: [item["metadata"]["name"] for item in found["items"]]
                for path, found in await _lists(running.server)
            }
        assert names["/api/v1/nodes"] == ["node-000", "node-001"]
        assert names["/api/v1/namespaces"] == ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert names["/apis/scheduling.k8s.io/v1/priorityclasses"] == [
            "system-cluster-critical",
            "system-node-critical",
        ]

    async def _lists(server: str) -> list[tuple[str, Any]]:
        paths = (
            "/api/v1/nodes",
            "/api/v1/namespaces",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
        )
        return [(path, (await ask(server + path))[1]) for path in paths]

    asyncio.run(look())


def test_server_restart_restores_objects_and_nodes(tmp_path: Path) -> None:
    async def live() -> None:
        kept = settings(tmp_path, data=tmp_path / "data")
        async with running_cluster(kept) as running:
            made = await running.api.create("configmaps", "default", {"metadata": {"name": "a"}, "data": {"k": "v"}})
            before = running.api.store.revision
        async with running_cluster(kept) as running:
            assert running.api.read("configmaps", "default", "a") == made
            assert running.api.store.revision >= before
            assert [node["metadata"]["name"] for node in running.api.list("nodes")] == ["node-000", "node-001"]

    asyncio.run(live())


def test_a_hook_admits_and_what_is_handed_in_is_there_before_the_first_request(tmp_path: Path) -> None:
    class Hook:
        """Marks what is created, refuses secrets, and keeps what is marked."""

        def admit(
            self, resource: Resource, new: Object, old: Object | None, call: RequestContext, *, dry_run: bool
        ) -> Object:
            if resource.qualified == "secrets":
                raise forbidden(resource.plural, resource.group, new["metadata"]["name"], "no secrets here")
            new["metadata"].setdefault("labels", {})["marked"] = "yes"
            return new

        def admit_deletion(self, resource: Resource, old: Object, call: RequestContext, *, dry_run: bool) -> None:
            if "marked" in old["metadata"].get("labels", {}) and call.user == ADMIN:
                raise forbidden(resource.plural, resource.group, old["metadata"]["name"], "is marked")

    async def prepare(api: InProcessClient) -> None:
        await api.create("configmaps", "default", {"metadata": {"name": "handed-in"}})

    async def look() -> None:
        async with running_cluster(settings(tmp_path, admission=lambda _: Hook(), prepare=prepare)) as running:
            code, found = await ask(f"{running.server}/api/v1/namespaces/default/configmaps/handed-in")
            assert code == 200 and found["metadata"]["labels"] == {"marked": "yes"}
            with pytest.raises(ApiError, match="no secrets here"):
                await running.api.create("secrets", "default", {"metadata": {"name": "s"}})
            maps = running.api.registry.stored("configmaps")
            assert maps is not None
            aim = Target(maps, "default", "handed-in")
            with pytest.raises(ApiError, match="is marked"):
                await running.api.writes.delete(aim, DeleteOptions(), running.api.new_context(ADMIN))

    asyncio.run(look())


def test_a_second_start_on_the_same_data_says_who_holds_it(tmp_path: Path) -> None:
    async def twice() -> None:
        kept = settings(tmp_path, data=tmp_path / "data")
        async with running_cluster(kept) as running:
            with pytest.raises(DataInUse) as held:
                async with running_cluster(kept):
                    pass
            assert running.server in str(held.value) and "process" in str(held.value)

    asyncio.run(twice())


def test_cross_origin_requests_are_refused_without_token(tmp_path: Path) -> None:
    async def knock() -> None:
        async with running_cluster(settings(tmp_path)) as running:
            url = f"{running.server}/api/v1/namespaces/default"

            def code(**headers: str) -> int:
                try:
                    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
                        return int(answer.status)
                except urllib.error.HTTPError as error:
                    return error.code

            for headers, expected in (
                ({}, 200),
                ({"Host": "localhost:1"}, 200),
                ({"Host": "[::1]:80"}, 200),
                ({"Host": "evil.example"}, 403),
                ({"Origin": "http://evil.example"}, 403),
            ):
                assert await asyncio.to_thread(code, **headers) == expected, headers

    asyncio.run(knock())


def test_a_token_brings_tls_with_it(tmp_path: Path) -> None:
    async def knock() -> None:
        async with running_cluster(settings(tmp_path, token="s3cret")) as running:
            assert running.server.startswith("https://127.0.0.1:")
            known = trust(tmp_path)
            url = f"{running.server}/api/v1/namespaces/default"
            assert (await ask(url, token="s3cret", context=known))[0] == 200
            for wrong in ("", "s3cre", "s3crets"):
                code, found = await ask(url, token=wrong, context=known)
                assert (code, found["reason"]) == (401, "Unauthorized")
        assert token_of(tmp_path) == "s3cret"

    asyncio.run(knock())


def test_beyond_loopback_a_token_is_made_if_none_is_given(tmp_path: Path) -> None:
    async def knock() -> None:
        async with running_cluster(settings(tmp_path, host="0.0.0.0")) as running:
            assert running.server.startswith("https://127.0.0.1:")
            assert running.outside == running.server.replace("127.0.0.1", socket.gethostname())
            known, token = trust(tmp_path), token_of(tmp_path)
            assert len(token) >= 32
            url = f"{running.server}/api/v1/namespaces/default"
            assert (await ask(url, context=known))[0] == 401
            assert (await ask(url, token=token, context=known))[0] == 200

    asyncio.run(knock())
    assert [entry.name for entry in tmp_path.iterdir()] == ["kubeconfig"]  # nothing else outlives it


def test_a_certificate_brings_a_token_with_it(tmp_path: Path) -> None:
    made = load_or_issue_certificates(tmp_path / "mine", "127.0.0.1")

    async def knock() -> None:
        async with running_cluster(settings(tmp_path, own_certificate=(made.certificate, made.key))) as running:
            assert running.server.startswith("https://127.0.0.1:") and running.outside == ""
            url, known = f"{running.server}/api/v1/namespaces/default", trust(tmp_path)
            known.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is what is trusted
            assert (await ask(url, context=known))[0] == 401
            assert (await ask(url, token=token_of(tmp_path), context=known))[0] == 200

    asyncio.run(knock())


def test_a_token_that_was_made_is_kept_with_the_data(tmp_path: Path) -> None:
    async def token(**more: Any) -> str:
        async with running_cluster(settings(tmp_path, host="0.0.0.0", **more)):
            return token_of(tmp_path)

    data = tmp_path / "data"
    first = asyncio.run(token(data=data))
    assert asyncio.run(token(data=data, token="another")) == "another"
    assert asyncio.run(token(data=data)) == first
    assert stat.S_IMODE((data / "token").stat().st_mode) == 0o600
    assert asyncio.run(token()) != asyncio.run(token())


def test_invalid_certificates_are_refused(tmp_path: Path) -> None:
    one, other = (load_or_issue_certificates(tmp_path / name, "127.0.0.1") for name in ("one", "other"))
    (tmp_path / "text").write_text("nonsense")
    for certificate, key, words in (
        (tmp_path / "text", one.key, f"--tls-cert {tmp_path / 'text'}: is not a certificate in PEM"),
        (one.certificate, one.certificate, f"--tls-key {one.certificate}: is not an unencrypted private key in PEM"),
        (one.certificate, other.key, f"--tls-key {other.key}: does not belong to the certificate in {one.certificate}"),
    ):
        with pytest.raises(FieldError) as refused:
            load_tls(certificate, key)
        assert str(refused.value) == words


def test_failed_server_start_leaves_no_files(tmp_path: Path) -> None:
    async def fail(**more: Any) -> None:
        async with running_cluster(settings(tmp_path, data=tmp_path / "data", **more)):
            pass

    (tmp_path / "text").write_text("nonsense: [")
    text = tmp_path / "text"
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(OSError, match="in use"):
        asyncio.run(fail(port=other.getsockname()[1]))
    with pytest.raises(FieldError, match="is not a certificate"):
        asyncio.run(fail(own_certificate=(text, text)))
    with pytest.raises(FieldError, match="is no kubeconfig"):
        asyncio.run(fail(kubeconfig=text))
    assert [entry.name for entry in tmp_path.iterdir()] == ["text"]


def test_a_kubeconfig_of_other_clusters_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config"
    require_own_kubeconfig(path, "kubesim")  # not there
    path.write_text("")
    require_own_kubeconfig(path, "kubesim")
    write_kubeconfig(path, "http://127.0.0.1:1", name="kubesim")
    require_own_kubeconfig(path, "kubesim")
    ours = path.read_text()
    for theirs in (
        "clusters: [{name: prod, cluster: {server: https://prod}}]",
        "contexts: [{name: kubesim, context: {cluster: prod}}]",
        "users: [{name: kubesim}, {name: prod, user: {token: x}}]",
    ):
        path.write_text(theirs)
        with pytest.raises(FieldError) as refused:
            require_own_kubeconfig(path, "kubesim")
        assert str(refused.value).startswith(f"{path}: is a kubeconfig of other clusters (prod), ")
    for text in ("- a list", "clusters: 7", "clusters: [kubesim]", "contexts: [{name: x}]", "a: b: c"):
        path.write_text(text)
        with pytest.raises(FieldError, match="is no kubeconfig, and would be replaced"):
            require_own_kubeconfig(path, "kubesim")
    path.write_text(ours.replace("current-context: kubesim", "current-context: ''"))
    require_own_kubeconfig(path, "kubesim")


def test_data_files_are_readable_by_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)

    async def live() -> None:
        async with running_cluster(settings(tmp_path, data=data)) as running:
            await running.api.create("configmaps", "default", {"metadata": {"name": "a"}})
            for name in ("kubesim.db", "kubesim.db-wal", "kubesim.db-shm"):
                assert stat.S_IMODE((data / name).stat().st_mode) == 0o600

    asyncio.run(live())


def test_nodes_that_are_there_keep_their_capacity_unless_another_is_asked_for(tmp_path: Path) -> None:
    async def capacities(wanted: list[Any]) -> list[str]:
        async with running_cluster(settings(tmp_path, data=tmp_path / "data", nodes=wanted)) as running:
            return [node["status"]["capacity"]["cpu"] for node in running.api.list("nodes")]

    assert asyncio.run(capacities(make_nodes(2, parse_capacity("cpu=4,memory=8Gi")))) == ["4", "4"]
    assert asyncio.run(capacities(make_nodes(3))) == ["4", "4", "32"]  # the new one gets the default
    assert asyncio.run(capacities(make_nodes(1, parse_capacity("cpu=6,memory=8Gi")))) == ["6", "4", "32"]


def test_loopback_is_what_only_this_machine_can_reach() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.com")))


def test_a_port_is_taken_at_every_address_of_a_host() -> None:
    with bind_sockets("localhost") as sockets:
        assert len({one.getsockname()[1] for one in sockets}) == 1
        port = sockets[0].getsockname()[1]
        with pytest.raises(OSError, match="in use"), bind_sockets("localhost", port):
            pass
    with bind_sockets("127.0.0.1", port):
        pass


def test_certificates_are_made_once_and_anew_for_another_host(tmp_path: Path) -> None:
    first = load_or_issue_certificates(tmp_path, "127.0.0.1")
    made = first.certificate.read_bytes()
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600
    assert load_or_issue_certificates(tmp_path, "127.0.0.1").certificate.read_bytes() == made
    assert load_or_issue_certificates(tmp_path, "192.0.2.1").certificate.read_bytes() != made
    first.certificate.write_text("nonsense")
    load_or_issue_certificates(tmp_path, "127.0.0.1").context()


def test_private_file_mode_is_0600(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    write_kubeconfig(path, "http://127.0.0.1:1", name="kubesim")
    write_private(path, b"once more")
    assert path.read_bytes() == b"once more"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["kubeconfig"]
