"""The request handler: authenticates a request, finds verb and target, and builds the response.

A bearer token authenticates clients where one is required; over a Unix socket the kernel says who they are. Where an
access policy is given it judges what each of them may do. Every error is a Status, including internal errors (500, and
an entry in the log); no traceback is ever sent.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from kubesim.api import requests, scale, status, subresources
from kubesim.api.access import AccessPolicy, Principal
from kubesim.api.client import InProcessClient
from kubesim.api.get_list import ListResult, ObjectReader
from kubesim.api.request_context import ADMIN, RequestContext
from kubesim.api.requests import Target, WriteOptions
from kubesim.api.side_thread import LARGE
from kubesim.api.store_view import StoreView
from kubesim.api.watch import Watch
from kubesim.api.writes import Edit, replace
from kubesim.apply import UPDATE, ApplyRequest, FieldManager, FieldManagers, UpdateOwnership
from kubesim.http import content_negotiation
from kubesim.http.auth import is_loopback
from kubesim.http.connection import Request, Response
from kubesim.http.content_negotiation import PLAIN, YAML, ResponseFormat, negotiate_format
from kubesim.kubelet.logs import pod_log
from kubesim.kubelet.node_logs import open_node_log, real_node
from kubesim.registry.registry import Object
from kubesim.registry.version_endpoints import VersionEndpoints
from kubesim.storage import Record, StorageFailed

if TYPE_CHECKING:
    from kubesim.api.usage_metrics import UsageReader

WATCH_SECONDS = (1800.0, 3600.0)  # without a timeout of its own a watch ends somewhere in here, as on a real server
MOST_WARNING_LETTERS = 4096  # of all warnings of an answer together, as on a real server
LONGEST_WARNING = 256  # if there are more than that
LARGE_YAML = 8 * 1024  # bytes from which YAML takes milliseconds to read or write
LARGE_LIST = 256 * 1024  # bytes from which a list takes milliseconds to decode, to show it as a table
LARGEST_OPTIONS = 64 * 1024  # of a deletion
OPENAPI = "/openapi/"  # documents that take a tenth of a second to build
HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
OWNER = -1
"""Whoever has the server's own token, or is on loopback where none is needed."""
SUPERUSER = Principal(ADMIN, privileged=True, administrator=True)

Query = dict[str, str]
T = TypeVar("T")

log = logging.getLogger(__name__)


class RequestHandler:
    """Answers requests."""

    def __init__(self, api: InProcessClient, *, token: str = "", access: AccessPolicy | None = None) -> None:
        self._api = api
        self._token = token
        self._access = access
        self._side_thread = api.writes.side_thread
        self._documents = VersionEndpoints(api.registry, api.identity)
        self._verbs: dict[str, Callable[[Request, Target, Query, RequestContext], Awaitable[Response]]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def handle(self, request: Request) -> Response:
        """One request."""
        try:
            return await self._answer(request)
        except status.ApiError as error:
            return _refusal(error)
        except StorageFailed as error:
            return _refusal(status.internal(str(error)))
        except Exception:  # the promise of this module: a Status, whatever happens
            log.exception("%s %s", request.method, request.path)
            return _refusal(status.internal(f"internal error in {self._api.identity.title}; see its log"))

    async def _answer(self, request: Request) -> Response:
        if request.fault:
            raise _refused_unread(request.fault)
        if request.path in HEALTH or request.path.rpartition("/")[0] in HEALTH:
            return Response(b"ok", content_type="text/plain; charset=utf-8")
        user = self._authenticate(request)
        who = SUPERUSER if self._access is None or user == OWNER else await self._access.principal(user)
        target = requests.parse_target(request.path, self._api.registry)
        if target is None:
            if (answer := self._policy_answer(request, who)) is not None:
                return answer
            if request.path.startswith(OPENAPI):
                return await self._side_thread.run(lambda: self._document(request))
            return self._document(request)
        query = request.query if request.raw_query else {}
        verb = requests.request_verb(request.method, target, requests.parse_bool(query, "watch"))
        if verb not in target.resource.verbs and not target.subresource:
            raise status.method_not_allowed()
        self._api.requests += 1
        call = self._api.new_context(who.name)
        call.body_bytes = len(request.body)
        if self._access is not None:
            call.principal, call.policy = who, self._access
            if not self._access.judge(who, verb, target):
                call.view = StoreView(self._api.store, self._access.show(who))
        call.manager = query.get("fieldManager") or request.header("user-agent").partition("/")[0] or ADMIN
        if target.resource.deprecation:
            call.warnings.append(target.resource.deprecation)
        answer = await self._verbs[verb](request, target, query, call)
        if call.warnings:
            answer.warnings = [_warning(text) for text in shorten_warnings(call.warnings)]
        return answer

    def judge_headers(self, request: Request) -> int:
        """Judge a request before its body is read: the status code of a refusal, or 0."""
        try:
            self._authenticate(request)
        except status.ApiError as error:
            return 0 if self._access is not None and error.code == HTTPStatus.FORBIDDEN else error.code
        return 0

    def _authenticate(self, request: Request) -> int:
        """The user of a request, or ``OWNER``. Asked before the body of a request is read, and when it is there."""
        if request.user is None:
            request.user = self._identify(request)
        return request.user

    def _identify(self, request: Request) -> int:
        if self._access is not None and any(name.startswith("impersonate-") for name in request.headers):
            raise status.ApiError(403, "Forbidden", "this server lets nobody act as another user (Impersonate-User)")
        if self._access is not None and request.peer >= 0:
            return request.peer
        if not self._token:
            _refuse_web_pages(request)
            return OWNER
        import hmac

        given = request.header("authorization")
        if hmac.compare_digest(given.encode("latin-1"), f"Bearer {self._token}".encode()):
            return OWNER
        if self._access is not None and given.startswith("Bearer "):
            user = self._access.token_owner(given.removeprefix("Bearer ").strip())
            if user is not None:
                return user
        raise status.unauthorized()

    def _policy_answer(self, request: Request, who: Principal) -> Response | None:
        """The answer at a path of the access policy's own."""
        if self._access is None:
            return None
        found = self._access.answer(who, request.method, request.path, over_socket=request.peer >= 0)
        return None if found is None else _plain(dict(found))

    def _document(self, request: Request) -> Response:
        found = self._documents.find(request.path, request.header("accept"), request.header("host"))
        if found is None:
            if self._documents.knows(request.path):
                raise status.page_not_found()
            return Response(b"404 page not found\n", 404, "text/plain; charset=utf-8")
        if request.method not in {"GET", "HEAD"}:
            raise status.method_not_allowed()
        return Response(found[0], content_type=found[1])

    # ---- looking ------------------------------------------------------------------------------------------

    async def _get(self, request: Request, target: Target, query: Query, call: RequestContext) -> Response:
        if target.subresource == "log":
            return await self._log(target, query)
        if target.subresource not in {"", "status", "scale"}:
            raise status.method_not_allowed()
        form = _form(request)
        record = (await self._reader(target, call)).get(
            target, requests.parse_resource_version(query.get("resourceVersion", ""))
        )
        if target.subresource == "scale":
            scale.require_number(target.resource, record)
        if form.media == YAML and len(record.value) >= LARGE_YAML:
            return await self._side_thread.run(lambda: _one(target, record, form, query))
        return _one(target, record, form, query)

    async def _list(self, request: Request, target: Target, query: Query, call: RequestContext) -> Response:
        form = _form(request, listing=True)
        chosen = requests.parse_selection(target.resource, query)
        when = requests.parse_read_options(target, query, watch=False)
        reader = await self._reader(target, call)
        if isinstance(reader, ObjectReader) and reader.is_long(target, chosen):
            listing = await self._side_thread.run_steps(reader.list_steps(target, chosen, when))
        else:
            listing = reader.list(target, chosen, when)
        size = sum([len(record.value) for record in listing.records]) if form != PLAIN else 0
        if size >= (LARGE_YAML if form.media == YAML else LARGE_LIST):
            return await self._side_thread.run(lambda: _many(target, listing, form, query))
        return _many(target, listing, form, query)

    async def _reader(self, target: Target, call: RequestContext) -> ObjectReader | UsageReader:
        reads = self._api.reads if call.view is None else ObjectReader(call.view)
        if not target.resource.derived_from:
            return reads
        from kubesim.api.usage_metrics import UsageReader
        from kubesim.kubelet.node_usage import read_node_usage

        return UsageReader(self._api, reads, time.time(), await read_node_usage(self._api))

    async def _log(self, target: Target, query: Query) -> Response:
        pod, options = subresources.read_log(self._api, target, query)
        follow = requests.parse_bool(query, "follow")
        node = real_node(self._api, pod)
        if node is not None:
            content = await open_node_log(self._api, node, pod, options, follow=follow)
            return Response(content_type="text/plain", stream=content)
        text = pod_log(pod, options)  # errors must come before the response starts
        if not follow:
            return Response(text.encode(), content_type="text/plain")
        from kubesim.kubelet.log_follower import follow_log

        return Response(content_type="text/plain", stream=follow_log(self._api, pod, options))

    async def _watch(self, request: Request, target: Target, query: Query, call: RequestContext) -> Response:
        form = _form(request)
        when = requests.parse_read_options(target, query, watch=True)
        chosen = requests.parse_selection(target.resource, query)
        seconds = requests.parse_int(query, "timeoutSeconds") or random.uniform(*WATCH_SECONDS)
        bookmarks = requests.parse_bool(query, "allowWatchBookmarks")
        include = query.get("includeObject", "")
        watch = Watch(call.view or self._api.store, target, chosen, form, bookmarks=bookmarks, include=include)
        now = asyncio.get_running_loop().time
        watch.start(when)  # errors must come before the response starts
        return Response(
            content_type=form.media,
            stream=watch.events(now() + seconds, now),
        )

    # ---- changing -----------------------------------------------------------------------------------------

    async def _create(self, request: Request, target: Target, query: Query, call: RequestContext) -> Response:
        form = _form(request)
        options = requests.parse_write_options(query, "CreateOptions")
        body = await self._body(request, call)
        match target.subresource:
            case "":
                if target.resource.namespaced and not target.namespace:
                    raise status.method_not_allowed()
                record = await self._api.writes.create(target, requests.as_object(body), options, call)
                return _one(target, record, form, query, 201)
            case "binding":
                return _plain(await subresources.create_binding(self._api, target, body, options, call), 201)
            case "eviction":
                return _plain(await subresources.create_eviction(self._api, target, body, options, call), 201)
        raise status.method_not_allowed()

    async def _update(self, request: Request, target: Target, query: Query, call: RequestContext) -> Response:
        form = _form(request)
        options = requests.parse_write_options(query, "UpdateOptions")
        body = requests.require_same_name(await self._body(request, call), target)
        if target.subresource not in {"", "status", "finalize", "scale"}:
            raise status.method_not_allowed()
        if target.subresource == "scale":
            edit = scale.scaled(target, replace(body), replaces=True)
            return _one(target, await self._scale(target, edit, options, call), form, query)
        if target.resource.strategy.creates_on_update and self._api.store.latest(target.key) is None:
            record = await self._api.writes.create(target, body, options, call)
            return _one(target, record, form, query, 201)
        edit = subresources.finalized(body) if target.subresource == "finalize" else replace(body)
        record = await self._api.writes.update(target, edit, options, call, replaces=True)
        return _one(target, record, form, query)

    async def _patch(self, request: Request, target: Target, query: Query, call: RequestContext) -> Response:
        from kubesim.api import patch

        form = _form(request)
        media = request.header("content-type").split(";", 1)[0].strip()
        options = requests.parse_write_options(query, "PatchOptions", applies=media == patch.APPLY_PATCH)
        if media not in patch.patch_media_types(target):
            if target.resource.custom:
                raise status.unsupported_media_type(patch.patch_media_types(target))
            raise status.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        if target.subresource == "scale":
            shown = target._replace(resource=scale.SCALE, subresource="")
            if media == patch.APPLY_PATCH:
                force = requests.parse_bool(query, "force")
                said = (await self._application(request, shown, call, force=force)).applied
                application = scale.applied(target, said, call.manager, force=force)
                record = await self._scale(target, application.edit, options, call, application)
            else:
                content = await self._decoded(request, content_negotiation.read_json)
                edit = patch.parse_patch(shown, media, content)
                record = await self._scale(target, scale.scaled(target, edit, replaces=False), options, call)
            return _one(target, record, form, query)
        if target.subresource not in {"", "status"}:
            raise status.method_not_allowed()
        if media == patch.APPLY_PATCH:
            force = requests.parse_bool(query, "force")
            application = await self._application(request, target, call, force=force)
            if self._api.store.latest(target.key) is None and not target.subresource:
                requests.require_same_name(application.applied, target)
                made = await self._api.writes.create(target, application.applied, options, call, owners=application)
                return _one(target, made, form, query, 201)
            record = await self._api.writes.update(target, application.edit, options, call, owners=application)
            return _one(target, record, form, query)
        content = await self._decoded(request, content_negotiation.read_json)
        edit = patch.parse_patch(target, media, content)
        record = await self._api.writes.update(target, edit, options, call)
        return _one(target, record, form, query)

    async def _application(
        self, request: Request, target: Target, call: RequestContext, *, force: bool
    ) -> ApplyRequest:
        from kubesim.api import patch

        def parse(content: bytes) -> ApplyRequest:
            return patch.parse_apply_patch(target, content_negotiation.read_yaml(content), call.manager, force=force)

        return await self._decoded(request, parse)

    async def _body(self, request: Request, call: RequestContext) -> object:
        """The decoded body of a request that creates or replaces an object."""
        media = request.header("content-type")

        def decode(content: bytes) -> tuple[object, list[str]]:
            body = content_negotiation.decode_body(content, media)
            twice = content_negotiation.duplicate_fields(content, body) if isinstance(body, dict) else []
            return body, twice

        body, call.duplicate_fields = await self._decoded(request, decode)
        return body

    async def _decoded(self, request: Request, decode: Callable[[bytes], T]) -> T:
        """Decode a body. Large ones are decoded in a thread, one at a time, so that other requests go on."""
        content = request.body
        if len(content) < LARGE_YAML:  # most are
            return decode(content)
        if len(content) < LARGE and "yaml" not in request.header("content-type"):
            return decode(content)
        return await self._side_thread.run(lambda: decode(content))

    async def _scale(
        self,
        target: Target,
        edit: Edit,
        options: WriteOptions,
        call: RequestContext,
        owners: FieldManagers | None = None,
    ) -> Record:
        """Change how many of something are wanted: to the object itself that is an update."""
        whole, resource = target._replace(subresource=""), target.resource
        owners = owners or UpdateOwnership(
            resource.schema, FieldManager(UPDATE, call.manager, resource.api_version, "scale")
        )
        return await self._api.writes.update(whole, edit, options, call, owners=owners)

    async def _delete(self, request: Request, target: Target, query: Query, call: RequestContext) -> Response:
        form = _form(request)
        if target.subresource:
            raise status.method_not_allowed()
        how = requests.parse_delete_options(query, _options(request))
        record, gone = await self._api.writes.delete(target, how, call)
        if gone and not target.resource.strategy.returns_deleted:
            return _plain(status.success(_details(target, content_negotiation.decode(record.value))))
        return _one(target, record, form, query)

    async def _delete_collection(
        self, request: Request, target: Target, query: Query, call: RequestContext
    ) -> Response:
        form = _form(request, listing=True)
        if target.resource.namespaced and not target.namespace:
            raise status.method_not_allowed()
        how = requests.parse_delete_options(query, _options(request))
        records = await self._api.writes.delete_collection(
            target, requests.parse_selection(target.resource, query), how, call
        )
        return _many(target, ListResult(records, self._api.store.revision), form, query)


# ---- parts ------------------------------------------------------------------------------------------------


def _refuse_web_pages(request: Request) -> None:
    """Reject requests that a web page makes through a browser: without a token, only local processes may connect.

    A page sends its origin, or its own host name resolves to this machine.
    """
    host = request.header("host")
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    if request.header("origin") or (name and not is_loopback(name.strip("[]"))):
        raise _for_programs_alone()


def _for_programs_alone() -> status.ApiError:
    return status.ApiError(403, "Forbidden", "without a token this server is for programs on this machine alone")


def _form(request: Request, *, listing: bool = False) -> ResponseFormat:
    return negotiate_format(request.header("accept"), listing=listing)


def _options(request: Request) -> object:
    """The options in the body of a deletion."""
    if len(request.body) > LARGEST_OPTIONS:
        raise status.too_large(f"Request entity too large: limit is {LARGEST_OPTIONS}")
    return content_negotiation.decode_body(request.body, request.header("content-type"))


def _one(
    target: Target,
    record: Record,
    form: ResponseFormat,
    query: Query,
    code: int = 200,
    call: RequestContext | None = None,
) -> Response:
    resource = target.resource
    if target.subresource == "scale":
        resource, record = scale.SCALE, scale.as_record(resource, record)
    content = content_negotiation.encode_object(resource, record, form, query.get("includeObject", ""))
    return Response(content, code, form.media)


def _many(target: Target, listing: ListResult, form: ResponseFormat, query: Query) -> Response:
    content = content_negotiation.encode_list(target.resource, listing, form, query.get("includeObject", ""))
    return Response(content, content_type=form.media)


def _plain(found: Object, code: int = 200) -> Response:
    return Response(content_negotiation.encode(found), code)


def _refusal(error: status.ApiError) -> Response:
    return Response(content_negotiation.encode(error.status()), error.code, headers=error.headers)


def _refused_unread(fault: int) -> status.ApiError:
    if fault == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return status.too_large(f"Request entity too large: limit is {content_negotiation.LARGEST_BODY}")
    if fault == HTTPStatus.UNAUTHORIZED:
        return status.unauthorized()
    if fault == HTTPStatus.FORBIDDEN:
        return _for_programs_alone()
    return status.ApiError(fault, "", HTTPStatus(fault).phrase)


def shorten_warnings(texts: list[str]) -> list[str]:
    """Warnings that fit into the headers of an answer, which clients limit; the last one counts those left out."""
    if sum(map(len, texts)) <= MOST_WARNING_LETTERS:
        return texts
    kept: list[str] = []
    left = MOST_WARNING_LETTERS
    for number, text in enumerate(texts):
        short = text if len(text) <= LONGEST_WARNING else text[: LONGEST_WARNING - 3] + "..."
        left -= len(short)
        if left < 0:
            return [*kept, f"{len(texts) - number} more warnings are not shown"]
        kept.append(short)
    return kept


def _warning(text: str) -> str:
    """A warning as a header has it. Names of fields are the client's, so they may contain anything."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    quoted = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'


def _details(target: Target, found: Object) -> Object:
    details: Object = {"name": target.name}
    if target.resource.group:
        details["group"] = target.resource.group
    return {**details, "kind": target.resource.plural, "uid": found["metadata"]["uid"]}
