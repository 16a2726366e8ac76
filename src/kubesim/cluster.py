"""``Cluster``: an API server with controllers and simulated nodes, in a thread of this process.

The server has an event loop and a thread of its own, so that the code under test may block, use threads or run another
event loop. Its methods may be called from any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, TypeVar

from kubesim.api.admission import AdmissionHook
from kubesim.api.client import InProcessClient
from kubesim.api.status import not_found
from kubesim.bootstrap import apply_definitions
from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.registry.registry import Object, Resource
from kubesim.server import RunningCluster, ServerSettings, running_cluster

START_SECONDS = 60.0
DEFAULT_CAPACITY = "cpu=8,memory=32Gi"

T = TypeVar("T")


class Cluster:
    """A Kubernetes cluster for tests: ``with Cluster() as cluster: ...``.

    ``nodes``: how many simulated nodes of ``node_capacity`` there are, or Node objects. ``crds``:
    CustomResourceDefinitions, as objects or as paths of YAML files. ``admission``: a hook that modifies or rejects
    objects before they are stored. ``data``: a folder that keeps everything for the next start (None: in memory).
    ``kubeconfig``: where to write the kubeconfig; None: to a temporary folder. ``port``: 0 takes any free port of the
    loopback interface. ``speed``: how many seconds of a pod's run time pass in a second.
    """

    def __init__(
        self,
        *,
        nodes: int | Sequence[Object] = 1,
        node_capacity: str = DEFAULT_CAPACITY,
        crds: Iterable[Object | str | Path] = (),
        admission: AdmissionHook | None = None,
        data: Path | None = None,
        kubeconfig: Path | None = None,
        port: int = 0,
        speed: float = 1.0,
    ) -> None:
        capacity = parse_capacity(node_capacity, "node_capacity")
        self._nodes = make_nodes(nodes, capacity) if isinstance(nodes, int) else [*nodes]
        self._definitions = [definition for given in crds for definition in _documents(given)]
        self._admission = admission
        self._data = data
        self._kubeconfig = kubeconfig
        self._port = port
        self._speed = speed
        self._thread: threading.Thread | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._running: RunningCluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ended: Future[None] = Future()

    # ---- start and stop -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server, and return when it answers. Raises what keeps it from starting."""
        if self._thread:
            raise RuntimeError("the cluster is running already")
        self._folder = TemporaryDirectory(prefix="kubesim-")
        kubeconfig = self._kubeconfig or Path(self._folder.name) / "kubeconfig"
        hook = self._admission
        settings = ServerSettings(
            data=self._data,
            kubeconfig=kubeconfig,
            nodes=self._nodes,
            port=self._port,
            speed=self._speed,
            admission=(lambda _: hook) if hook else None,
            prepare=self._prepare,
        )
        started: Future[RunningCluster] = Future()
        self._ended = Future()
        self._thread = threading.Thread(target=self._run, args=(settings, started), name="kubesim", daemon=True)
        self._thread.start()
        try:
            self._running = started.result(START_SECONDS)
        except BaseException:
            self._join()
            raise
        self._kubeconfig_path = kubeconfig

    def stop(self) -> None:
        """Stop the server, and return when everything is on disk. Raises the error that ended a controller, if any."""
        if self._loop and self._stop and not self._ended.done():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._join()
        if self._ended.done():
            self._ended.result()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _join(self) -> None:
        if self._thread:
            self._thread.join()
        if self._folder:
            self._folder.cleanup()
        self._thread = self._folder = self._running = self._loop = self._stop = None

    def _run(self, settings: ServerSettings, started: Future[RunningCluster]) -> None:
        try:
            asyncio.run(self._serve(settings, started))
        except BaseException as error:
            if started.done():
                self._ended.set_exception(error)
            else:
                started.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self, settings: ServerSettings, started: Future[RunningCluster]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with running_cluster(settings) as running:
            started.set_result(running)
            waiting = asyncio.ensure_future(self._stop.wait())
            ends: set[asyncio.Future[Any]] = {waiting, running.broken}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if running.broken.done():
                running.broken.result()

    async def _prepare(self, api: InProcessClient) -> None:
        await apply_definitions(api, self._definitions)

    # ---- where it is --------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address of the API server: ``http://127.0.0.1:PORT``, without TLS and without a token."""
        return self._up().server

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig that leads kubectl and other clients to this cluster."""
        self._up()
        return self._kubeconfig_path

    # ---- objects ------------------------------------------------------------------------------------------

    def create(self, manifest: str | Object, namespace: str = "default") -> list[Object]:
        """Create the objects of a manifest: YAML text, or one object. Raises ``ApiError`` if one is rejected."""

        async def create() -> list[Object]:
            api = self._up().api
            made = []
            for wanted in _documents(manifest):
                resource = _resource(api, wanted)
                where = wanted.get("metadata", {}).get("namespace", namespace) if resource.namespaced else ""
                made.append(await api.create(resource.qualified, where, wanted))
            return made

        return self._call(create())

    def get(self, resource: str, name: str, namespace: str = "default") -> Object | None:
        """The object of a resource (``pods``, ``jobs.batch``), or None."""
        return self._ask(lambda api: api.read(resource, _namespace(api, resource, namespace), name))

    def list(self, resource: str, namespace: str = "") -> Sequence[Object]:
        """All objects of a resource, in a namespace or everywhere."""
        return self._ask(lambda api: api.list(resource, namespace))

    def delete(self, resource: str, name: str, namespace: str = "default") -> None:
        """Delete an object. Nothing happens if there is none."""

        async def delete() -> None:
            api = self._up().api
            await api.delete(resource, _namespace(api, resource, namespace), name)

        self._call(delete())

    def _ask(self, question: Callable[[InProcessClient], T]) -> T:
        async def answer() -> T:
            return question(self._up().api)

        return self._call(answer())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._loop:
            work.close()
        self._up()
        assert self._loop
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _up(self) -> RunningCluster:
        if not self._running:
            raise RuntimeError("the cluster is not running; use it in a with block, or call start()")
        if self._ended.done():
            self._ended.result()
        return self._running


def _documents(given: str | Path | Object) -> Sequence[Object]:
    if isinstance(given, dict):
        return [given]
    import yaml

    text = given.read_bytes() if isinstance(given, Path) else given
    return [found for found in yaml.safe_load_all(text) if found is not None]


def _resource(api: InProcessClient, wanted: Object) -> Resource:
    """The resource of an object, by its apiVersion and kind."""
    version, kind = wanted.get("apiVersion", ""), wanted.get("kind", "")
    for resource in api.registry:
        if (resource.api_version, resource.kind) == (version, kind) and "create" in resource.verbs:
            return resource
    raise not_found("kinds", "", f"{version} {kind}")


def _namespace(api: InProcessClient, resource: str, namespace: str) -> str:
    known = api.registry.stored(resource)
    return namespace if known is None or known.namespaced else ""
