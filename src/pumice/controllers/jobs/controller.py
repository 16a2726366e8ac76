"""The Job controller: watches jobs, their podgroups, pods and Commands, and executes the writes of ``plan``.

The newest known state of each object counts: for a job that the controller has just written, the server's response,
until the informer has caught up. Everything else may be seen late: object names are derived from the job, so nothing is
created twice, and deletions carry the uid, so no other object is deleted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from kubebase.timestamps import stamp
from kubebase.work_queue import WorkQueue
from pumice.admission.jobs.job_arrays import ARRAY
from pumice.admission.jobs.job_order import AFTER
from pumice.controllers import COMPONENT
from pumice.controllers.commands import failure, in_order, is_for, record_failure
from pumice.controllers.jobs.job_status import PVC_ERROR
from pumice.controllers.jobs.phases import Phase
from pumice.controllers.jobs.plan import Change as ChangeWrite
from pumice.controllers.jobs.plan import Keep, Make, Plan, Remove, SetStatus, Write, plan
from pumice.controllers.jobs.plan import ObservedJob as SeenOfJob
from pumice.controllers.jobs.plugins.ssh import with_key_pair
from pumice.controllers.jobs.podgroup import group_name
from pumice.controllers.jobs.pods import CLAIMS
from pumice.controllers.jobs.spec import read_job
from pumice.controllers.jobs.state_machine import PLUGIN_ERROR, POD_GROUP_PENDING
from pumice.controllers.manager import SharedInformers
from pumice.controllers.parallel import gather_limited
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.event_recorder import record_once
from pumice.kube.resources import COMMANDS, JOBS, POD_GROUPS, PODS, SECRETS, Document
from pumice.kube.watch.change_queue import Change
from pumice.kube.watch.informer import CachedObject

log = logging.getLogger(__name__)

LATER: Final = 5.0
"""Seconds after which a job is reconciled again if a foreign object has the name of one of its objects."""
UNSEEN_SECONDS: Final = 30.0
"""Seconds after which a created pod that the informer has not shown is taken to have been deleted at once."""
PAUSE_RATIO, MANY_RATIO = 9.0, 29.0
"""A large job is reconciled for its progress (its pods, the counts of its podgroup, its own status) after a pause of so
many times the CPU time that it took before: in at most a tenth of the time, one with many pods in a thirtieth."""
MANY_PODS, MANY_PAUSE = 16, 0.1
"""The progress of a job with more pods is looked at ten times a second at most: nobody reads it faster. An array is no
such job, as its next pod may wait for one that has ended."""
SMALL_SECONDS: Final = 0.002
LONGEST_PAUSE, LONGEST_MANY_PAUSE = 0.5, 1.0
"""A job that takes less is reconciled at once; no job waits longer than the first, none with many pods longer than the
second."""
LONGEST_WAIT: Final = 3600.0
"""Seconds after which a job that waits for a point in time is reconciled in any case: clocks are adjusted."""
OTHER_OBJECT: Final = 422
"""Status code of a rejected patch whose uid is not the object's."""
WARNINGS: Final = frozenset(
    {"PodFailed", "MaxRetry", "TaskFailed", "DependencyFailed", PLUGIN_ERROR, POD_GROUP_PENDING}
)
"""Reasons of Events of type Warning."""


class JobController:
    """Reconciles Volcano Jobs."""

    def __init__(self, api: Api, informers: SharedInformers, now: Callable[[], float] = time.time) -> None:
        self._api = api
        self._now = now
        self._jobs = informers.all(JOBS)
        self._groups = informers.all(POD_GROUPS)
        self._pods = informers.all(PODS)
        self._commands = informers.all(COMMANDS)
        self._pods_of: dict[str, set[str]] = {}  # by job, the keys of its pods
        self._commands_for: dict[str, set[str]] = {}
        self._begun = False
        self._obeyed: set[str] = set()  # uids of deleted Commands that the informer may still show
        self._answers: dict[str, Document] = {}  # jobs as the server returned them, until the informer has caught up
        self._kept: dict[tuple[str, str, str], Document] = {}  # by job's uid, resource and name: the existing object
        self._refused_claims: dict[str, str] = {}  # by job's uid: why its claim could not be created
        self._pending_reasons: dict[str, str] = {}  # by job's uid: why it waits, as the last Event says
        self._followers: dict[str, set[str]] = {}  # by job, the keys of jobs that start after it
        self._created: dict[str, dict[str, tuple[str, float]]] = {}  # by array: pods not shown yet, uid and time
        self._pauses: dict[str, float] = {}  # by job: seconds before its progress is looked at; large jobs only
        self.work_queue = WorkQueue(self._reconcile, retries=RETRY_POLICY)

    def on_change(self, change: Change[Document]) -> None:
        """Queue the job that a changed object belongs to."""
        either = change.new or change.old
        assert either is not None  # something has changed
        if change.resource == JOBS.name:
            self._queue(change.key, at_once=not _is_same_job(change))
            for upstream in _upstream_keys(either):
                followers = self._followers.setdefault(upstream, set())
                (followers.discard if change.new is None else followers.add)(change.key)
            for follower in self._followers.get(change.key, ()):
                self.work_queue.add(follower)
        elif change.resource == PODS.name:
            self._note_shown(_owner(either), change)
            self._concern(change, _owner(either), self._pods_of, gone=change.key not in self._pods)
        elif change.resource == POD_GROUPS.name:
            job = _owner(either)
            if job:
                self._queue(job, at_once=_is_admission(change))
        elif change.resource == COMMANDS.name:
            if change.new is None:
                self._obeyed.discard(change.uid)
            self._concern(change, _target(either), self._commands_for, gone=change.key not in self._commands)

    def _note_shown(self, job: str, change: Change[Document]) -> None:
        """Forget that a pod was created and not shown, because it is shown now."""
        created = self._created.get(job, {})
        name = change.key.partition("/")[2]
        if name in created and created[name][0] == change.uid:
            del created[name]

    def _concern(self, change: Change[Document], job: str, index: dict[str, set[str]], *, gone: bool) -> None:
        if not job:
            return
        if not gone:
            index.setdefault(job, set()).add(change.key)
        elif job in index:
            index[job].discard(change.key)
            if not index[job]:
                del index[job]
        self._queue(job, at_once=index is not self._pods_of)

    def _queue(self, job: str, *, at_once: bool) -> None:
        """Reconcile a job; a large one after a pause, unless it should be at once."""
        if at_once or job not in self._pauses:
            self.work_queue.add(job)
        else:
            self.work_queue.add_later(job, self._pauses[job])

    # ---- reconciling --------------------------------------------------------------------------------------------

    async def _reconcile(self, key: str) -> float | None:
        if not self._begun:
            self._begin()
        job = self._newest(key)
        commands = self._waiting_commands(key)
        if job is None:
            self._pauses.pop(key, None)
            self._forget_deleted_jobs()
            if commands:
                await self._dismiss(key, commands)
            return None
        uid = job["metadata"]["uid"]
        strangers = [each for each in commands if (each.get("target") or {}).get("uid") not in (uid, None, "")]
        if strangers:
            await self._dismiss(key, strangers)
            return None
        began = time.thread_time()
        group = self._groups.get(f"{job['metadata']['namespace']}/{group_name(read_job(job))}")
        refused = self._refused_claims.get(uid, "")
        seen = SeenOfJob(
            job,
            group.object if group else None,
            self._pods_now(key, uid),
            commands,
            refused,
            self._upstream_phases(job),
            self._created_pods(key),
        )
        found = plan(seen, self._now())
        is_array = ARRAY in (job["metadata"].get("annotations") or {})
        self._note_cost(key, time.thread_time() - began, many=len(seen.pods) > MANY_PODS and not is_array)
        await self._carry_out(key, job, found)
        return None if found.again is None else min(max(0.0, found.again - self._now()), LONGEST_WAIT)

    def _note_cost(self, key: str, seconds: float, *, many: bool) -> None:
        """Note how long changes in a job's progress wait for one another from now on."""
        if many:
            self._pauses[key] = min(LONGEST_MANY_PAUSE, max(MANY_PAUSE, MANY_RATIO * seconds))
        elif seconds >= SMALL_SECONDS:
            self._pauses[key] = min(LONGEST_PAUSE, PAUSE_RATIO * seconds)
        else:
            self._pauses.pop(key, None)

    def _begin(self) -> None:
        """Index the owners of all pods first, so that no pod counts as missing only because its event is pending."""
        self._begun = True
        for pod, known in self._pods.items():
            if job := _owner(known.object):
                self._pods_of.setdefault(job, set()).add(pod)

    def _newest(self, key: str) -> Document | None:
        """The newest job: from the informer, or the last response of the server, whichever is newer."""
        known, answer = self._jobs.get(key), self._answers.get(key)
        if answer is not None and (known is None or _shows(known, answer)):
            del self._answers[key]
            answer = None
        return answer or (known.object if known else None)

    def _pods_now(self, key: str, uid: str) -> list[Document]:
        """The pods of this very job."""
        known = (self._pods.get(pod) for pod in sorted(self._pods_of.get(key, ())))
        return [pod.object for pod in known if pod is not None and _owner_uid(pod.object) == uid]

    def _upstream_phases(self, job: Document) -> dict[str, str]:
        """The phases of the jobs that a job starts after, of those that exist."""
        found = {key: self._newest(key) for key in _upstream_keys(job)}
        return {
            key.partition("/")[2]: str(((other.get("status") or {}).get("state") or {}).get("phase") or Phase.PENDING)
            for key, other in found.items()
            if other is not None
        }

    def _created_pods(self, key: str) -> frozenset[str]:
        """The pods that were created and that the informer does not show yet. It must have shown them after a while."""
        made = self._created.get(key, {})
        for name in [name for name, (_, moment) in made.items() if self._now() - moment > UNSEEN_SECONDS]:
            del made[name]
        return frozenset(made)

    def _waiting_commands(self, key: str) -> list[Document]:
        known = (self._commands.get(command) for command in self._commands_for.get(key, ()))
        return in_order(each.object for each in known if each is not None and each.uid not in self._obeyed)

    async def _dismiss(self, key: str, commands: Iterable[Document]) -> None:
        """Delete Commands for a job that does not exist (any more), unless its event is only late."""
        namespace, _, name = key.partition("/")  # as a user has written it: it may contain anything
        job: Document | None = None
        try:
            job = await self._api.get(JOBS.raw, name, namespace)
        except ApiError as error:
            if not error.not_found:
                raise
        for command in commands:
            if why := failure(command, job):
                log.info('Command failed: command=%s job=%s error="%s"', command["metadata"]["name"], key, why)
                await record_failure(self._api, command, why, stamp(self._now()))
                await self._remove(namespace, Remove(COMMANDS, command["metadata"]["name"], command["metadata"]["uid"]))

    def _forget_deleted_jobs(self) -> None:
        """Forget the objects and messages that were kept for jobs that no longer exist."""
        for job in [job for job in self._created if job not in self._jobs]:
            del self._created[job]
        known = (
            {known.uid for known in self._jobs.values()}
            if self._kept or self._pending_reasons or self._refused_claims
            else set()
        )
        for place in [place for place in self._kept if place[0] not in known]:
            del self._kept[place]
        for messages in (self._pending_reasons, self._refused_claims):
            for uid in messages.keys() - known:
                del messages[uid]

    # ---- writing --------------------------------------------------------------------------------------------

    async def _carry_out(self, key: str, job: Document, found: Plan) -> None:
        """Execute writes in order: one after another, but pods in parallel."""
        namespace = job["metadata"]["namespace"]
        pods: list[Write] = []
        for write in found.writes:
            if isinstance(write, Make | Remove) and write.resource.name == PODS.name:
                pods.append(write)
            else:
                await self._write(key, job, write)
            if isinstance(write, SetStatus):
                await self._say(job, found.says)
        removals = [self._write(key, job, write) for write in pods if isinstance(write, Remove)]
        await gather_limited(removals)
        makes = [self._make_pod(key, job, namespace, write) for write in pods if isinstance(write, Make)]
        await gather_limited(makes)
        if found.says and not any(isinstance(write, SetStatus) for write in found.writes):
            await self._say(job, found.says)

    async def _say(self, job: Document, says: Iterable[tuple[str, str]]) -> None:
        for reason, message in says:
            if reason == POD_GROUP_PENDING:
                if self._pending_reasons.get(job["metadata"]["uid"]) == message:
                    continue
                self._pending_reasons[job["metadata"]["uid"]] = message
            now = stamp(self._now())
            await record_once(
                self._api, COMPONENT, job, reason, message, now, "Warning" if reason in WARNINGS else "Normal"
            )

    async def _write(self, key: str, job: Document, write: Write) -> None:
        namespace = job["metadata"]["namespace"]
        match write:
            case SetStatus(status):
                # Carries the resourceVersion that the plan was based on: of two such updates the server rejects one.
                self._answers[key] = await self._api.update(JOBS, {**job, "status": status}, subresource="status")
            case Make(resource, document):
                try:
                    await self._api.create(resource.raw, document, namespace)
                except ApiError as error:
                    if not error.already_exists:
                        await self._say_refused(job, document, error)
                        raise
            case ChangeWrite(resource, name, uid, patch):
                try:
                    await self._api.patch(resource.raw, name, {"metadata": {"uid": uid}, **patch}, namespace)
                except ApiError as error:
                    if not (error.not_found or error.code == OTHER_OBJECT):
                        raise
            case Keep():
                await self._keep(job, namespace, write)
            case Remove():
                await self._remove(namespace, write)

    async def _make_pod(self, key: str, job: Document, namespace: str, write: Make) -> None:
        name = str(write.document["metadata"]["name"])
        try:
            made = await self._api.create(PODS.raw, write.document, namespace)
            if ARRAY in (job["metadata"].get("annotations") or {}):
                self._note_created(key, made)
        except ApiError as error:
            if error.already_exists:
                # Ours and not seen yet, an earlier job's, or a foreign object: in the latter cases the name may become
                # free.
                there = self._pods.get(f"{namespace}/{name}")
                if there is not None and not _owner(there.object):
                    await self._say_taken(job, write.document)
                self.work_queue.add_later(key, LATER)
                return
            await self._say_refused(job, write.document, error)
            raise

    def _note_created(self, job: str, pod: Document) -> None:
        about = pod["metadata"]
        place = f"{about['namespace']}/{about['name']}"
        shown = self._pods.get(place) if place in self._pods_of.get(job, ()) else None
        if shown is None or shown.uid != about["uid"]:
            self._created.setdefault(job, {})[about["name"]] = (about["uid"], self._now())
            self.work_queue.add_later(job, UNSEEN_SECONDS + 1)  # if its deletion is all that is ever seen of it

    async def _say_refused(self, job: Document, document: Document, error: ApiError) -> None:
        message = f"Failed to create {document['kind']} {document['metadata']['name']}: {error.message}"
        reason = "FailedCreate"
        if document["kind"] == CLAIMS.kind:
            reason = PVC_ERROR
            self._refused_claims[job["metadata"]["uid"]] = message  # the next attempt writes it to the status
        await record_once(self._api, COMPONENT, job, reason, message, stamp(self._now()), "Warning")

    async def _say_unserved(self, job: Document, document: Document, resource: str) -> None:
        """Report an object of a kind that the API server does not have. The job runs: not every job needs it."""
        words = (
            f"Failed to create {document['kind']} {document['metadata']['name']}, the job runs without it: the API "
            f"server has no {resource}"
        )
        await record_once(self._api, COMPONENT, job, PLUGIN_ERROR, words, stamp(self._now()), "Warning")

    async def _say_taken(self, job: Document, document: Document) -> None:
        words = (
            f"Failed to create {document['kind']} {document['metadata']['name']}: an object of that name "
            "exists and does not belong to this job; delete it or rename the job"
        )
        await record_once(self._api, COMPONENT, job, "FailedCreate", words, stamp(self._now()), "Warning")

    async def _remove(self, namespace: str, write: Remove) -> None:
        propagation = "Background" if write.resource.name == JOBS.name else ""
        try:
            await self._api.delete(write.resource.raw, write.name, namespace, uid=write.uid, propagation=propagation)
        except ApiError as error:
            if not error.not_found:  # a conflict: if another object has that name by now, an event will show it
                raise
        if write.resource.name == COMMANDS.name and f"{namespace}/{write.name}" in self._commands:
            self._obeyed.add(write.uid)

    async def _keep(self, job: Document, namespace: str, write: Keep) -> None:
        """Read before writing: after a restart the object may exist already. Foreign objects are left alone."""
        resource, document = write.resource.raw, write.document
        name = document["metadata"]["name"]
        place = (job["metadata"]["uid"], resource.name, name)
        if self._kept.get(place) == document:
            return
        try:
            there = await self._api.get(resource, name, namespace)
        except ApiError as error:
            if not error.not_found:
                if error.forbidden:  # every attempt will fail until somebody grants the right
                    await self._say_refused(job, document, error)
                raise
            complete = await asyncio.to_thread(with_key_pair, document) if resource.name == SECRETS.name else document
            try:
                await self._api.create(resource, complete, namespace)
            except ApiError as refusal:
                if not refusal.not_found:
                    await self._say_refused(job, document, refusal)
                    raise
                await self._say_unserved(job, document, resource.name)
        else:
            holder = _owner_uid(there)
            if holder not in ("", job["metadata"]["uid"]):  # an earlier job's: it will be garbage-collected
                self.work_queue.add_later(_key(job), LATER)
                return
            if not holder:
                if resource.name != CLAIMS.name:  # a volume that a user has created is what the job asks for
                    await self._say_taken(job, document)
            elif "data" in document and there.get("data") != document["data"]:
                gone = dict.fromkeys((there.get("data") or {}).keys() - document["data"].keys())
                await self._api.patch(resource, name, {"data": {**gone, **document["data"]}}, namespace)
        self._kept[place] = document
        if resource.name == CLAIMS.name and self._refused_claims.pop(job["metadata"]["uid"], ""):
            self.work_queue.add(_key(job))  # to clear its status


def _shows(known: CachedObject[Document], answer: Document) -> bool:
    """Whether the informer shows the server's response, or something newer."""
    about = answer["metadata"]
    if known.uid != about["uid"]:
        return True
    revision = about.get("resourceVersion") or ""
    if known.revision.isdecimal() and revision.isdecimal():
        return int(known.revision) >= int(revision)
    return known.revision == revision


def _reference(found: Document) -> Document:
    """The owner reference of a pod or group, if it refers to a Volcano Job."""
    for owner in found["metadata"].get("ownerReferences") or ():
        group = str(owner.get("apiVersion") or "").partition("/")[0]
        if owner.get("controller") and owner.get("kind") == JOBS.kind and group == JOBS.name.partition(".")[2]:
            return dict(owner)
    return {}


def _upstream_keys(job: Document) -> list[str]:
    """The keys of the jobs that a job starts after."""
    if AFTER not in (job["metadata"].get("annotations") or {}):
        return []
    return [f"{job['metadata']['namespace']}/{upstream.name}" for upstream in read_job(job).after]


def _key(found: Document) -> str:
    return f"{found['metadata']['namespace']}/{found['metadata']['name']}"


def _owner(found: Document) -> str:
    """The key of the job that owns an object; empty if there is none."""
    owner = _reference(found)
    return f"{found['metadata']['namespace']}/{owner['name']}" if owner else ""


def _owner_uid(found: Document) -> str:
    return str(_reference(found).get("uid") or "")


def _target(command: Document) -> str:
    """The key of the job that a Command targets; empty if it targets something else."""
    name = (command.get("target") or {}).get("name")
    return f"{command['metadata']['namespace']}/{name}" if name and is_for(command, JOBS) else ""


def _is_same_job(change: Change[Document]) -> bool:
    """Whether nothing has changed that a user asks of a job: only its status, labels or annotations have."""
    if change.old is None or change.new is None:
        return False
    old, new = change.old["metadata"], change.new["metadata"]
    return all(old.get(name) == new.get(name) for name in ("uid", "generation", "deletionTimestamp"))


def _is_admission(change: Change[Document]) -> bool:
    """Whether a podgroup was let in, or no longer is; between its other phases it changes as pods start and end."""
    before, after = _phase_of(change.old), _phase_of(change.new)
    return before != after and bool({before, after} & {"", "Pending"})


def _phase_of(group: Document | None) -> str:
    return str(((group or {}).get("status") or {}).get("phase") or "")
