"""Namespaces that go, accounts that come, definitions that are cleared away: through the real API."""

from __future__ import annotations

from tests.support.simulated import cluster, eventually, lasting, pod, run


async def namespace(c, name="ns"):
    await c.api.create("namespaces", "", {"metadata": {"name": name}})
    await eventually(lambda: c.api.read("serviceaccounts", name, "default"))


def test_every_namespace_has_a_default_account_and_keeps_it():
    async def scenario():
        async with cluster(0) as c:
            await namespace(c)
            first = c.api.read("serviceaccounts", "ns", "default")["metadata"]["uid"]
            await c.api.delete("serviceaccounts", "ns", "default", uid=first)

            def renewed():
                found = c.api.read("serviceaccounts", "ns", "default")
                return found and found["metadata"]["uid"] != first

            await eventually(renewed)
            return [found["metadata"]["name"] for found in c.api.list("namespaces")]

    assert run(scenario()) == ["default", "kube-node-lease", "kube-public", "kube-system", "ns"]


def test_a_namespace_goes_with_everything_in_it():
    async def scenario():
        async with cluster() as c:
            await namespace(c)
            await c.api.create("configmaps", "ns", {"metadata": {"name": "m"}})
            await c.api.create("pods", "ns", pod("p", node="node-000", annotations=lasting(1e6)))
            await eventually(lambda: c.api.read("pods", "ns", "p")["status"]["phase"] == "Running")
            await c.api.delete("namespaces", "", "ns")
            await eventually(lambda: c.api.read("namespaces", "", "ns") is None)
            return [
                record.key
                for resource in c.api.registry
                if resource.namespaced
                for record in c.api.store.list(resource.prefix("ns")).records
            ]

    assert run(scenario()) == []


def test_a_namespace_waits_for_finalizers_and_says_so():
    async def scenario():
        async with cluster(0) as c:
            await namespace(c)
            held = {"metadata": {"name": "m", "finalizers": ["example.com/wait"]}}
            await c.api.create("configmaps", "ns", held)
            await c.api.delete("namespaces", "", "ns")

            def conditions():
                found = c.api.read("namespaces", "", "ns")["status"].get("conditions", ())
                return {entry["type"]: entry for entry in found}

            await eventually(
                lambda: (
                    conditions().get("NamespaceContentRemaining", {}).get("message", "")
                    == "Some resources are remaining: configmaps. has 1 resource instances"
                )
            )
            found = c.api.read("namespaces", "", "ns"), conditions()
            await c.api.modify("configmaps", "ns", "m", lambda m: m["metadata"].update(finalizers=[]))
            await eventually(lambda: c.api.read("namespaces", "", "ns") is None)
            return found

    found, conditions = run(scenario())
    assert found["status"]["phase"] == "Terminating"
    assert conditions["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances"
    )


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def test_the_objects_of_a_definition_go_before_it_does():
    async def scenario():
        async with cluster(0) as c:
            await c.api.create(CRDS, "", DEFINITION)
            await eventually(lambda: c.api.registry.stored("things.example.com"))
            thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
            await c.api.create("things.example.com", "default", thing)
            held = {**thing, "metadata": {"name": "h", "finalizers": ["example.com/wait"]}}
            await c.api.create("things.example.com", "default", held)
            await c.api.delete(CRDS, "", "things.example.com")
            await eventually(lambda: c.api.read("things.example.com", "default", "t") is None)

            def terminating():
                entries = c.api.read(CRDS, "", "things.example.com")["status"]["conditions"]
                return any(entry["type"] == "Terminating" and entry["status"] == "True" for entry in entries)

            await eventually(terminating)
            await c.api.modify(
                "things.example.com", "default", "h", lambda found: found["metadata"].update(finalizers=[])
            )
            await eventually(lambda: c.api.read(CRDS, "", "things.example.com") is None)
            return c.api.store.count("things.example.com/")

    assert run(scenario()) == 0
