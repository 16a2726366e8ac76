"""The Scenario object: the length of a run, its events and its expected results.

Only Pumice reads this kind, so an unknown field is an error, which names the closest known field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from msgspec import Meta, Struct, field
from msgspec.structs import fields

from kubebase.field_error import FieldError
from kubebase.resource_vector import ResourceError, milli_amounts
from pumice.config.load import SchedulerConfig, default_config, read_config
from pumice.engine.config.scheduler_config import ConfigError
from pumice.input_errors import BadInput, Problem, did_you_mean
from pumice.kube.decode.struct_decode import one_of, read
from pumice.model.queue_states import COMMANDS
from pumice.model.specs import JobPhase
from pumice.sim.manifest_files import SCENARIO, STDIN, Manifest

API_VERSION = "pumice.dev/v1"

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Cycles = Annotated[int, Meta(ge=1, le=1_000_000)]  # a slip of the finger must not run for years
Number = Annotated[float, Meta(ge=0)]
Quantities = dict[str, Any]


class ScenarioStruct(Struct, rename="camel", frozen=True):
    """A part of the object; names on the wire are camelCase."""


# ---- what happens ------------------------------------------------------------------------------------------


class FinishEvent(ScenarioStruct, frozen=True):
    """Tasks that end well: so many of a job, the longest running first, or these pods."""

    job: str | None = None
    tasks: Positive | None = None
    pods: tuple[str, ...] = ()


class DeleteEvent(ScenarioStruct, frozen=True):
    """Delete an object with its dependents."""

    kind: str
    name: str
    namespace: str = "default"


class CommandEvent(ScenarioStruct, frozen=True):
    """The action of a Command object for a queue."""

    queue: str
    action: str


class ScenarioEvent(ScenarioStruct, frozen=True):
    """An event before a cycle. Exactly one of the other fields is set."""

    cycle: Cycles
    finish: FinishEvent | None = None
    apply: dict[str, Any] | None = None
    delete: DeleteEvent | None = None
    command: CommandEvent | None = None
    config: str | None = None


class ChurnSpec(ScenarioStruct, frozen=True):
    """Tasks that end at random, one a cycle, each replaced by an equal one that waits."""

    seed: int
    completions: Cycles


# ---- what must come out ------------------------------------------------------------------------------------


class ExpectedJob(ScenarioStruct, frozen=True):
    """Figures of a job."""

    running: Number | None = None
    pending: Number | None = None
    allocated: Quantities = {}
    phase: str | None = None


class ExpectedQueue(ScenarioStruct, frozen=True):
    """Figures of a node of the tree."""

    allocated: Quantities = {}
    share: Number | None = None
    entitled: Quantities = {}


class ExpectedError(ScenarioStruct, frozen=True):
    """An object that must be refused, and a part of the message."""

    object: str
    contains: str = ""


class Tolerance(ScenarioStruct, frozen=True):
    """By how much figures may differ."""

    share: Number = 1e-6
    tasks: Number = 0


class Expect(ScenarioStruct, frozen=True):
    """The expected results. Fields that are not set are not compared."""

    jobs: dict[str, ExpectedJob] = {}
    queues: dict[str, ExpectedQueue] = {}
    binds: dict[str, str] | None = None
    evicted: tuple[str, ...] | None = None
    pipelined: dict[str, tuple[str, ...]] = {}
    errors: tuple[ExpectedError, ...] = ()
    tolerance: Tolerance = Tolerance()


# ---- the object --------------------------------------------------------------------------------------------


class ScenarioSpec(ScenarioStruct, frozen=True):
    """All of it."""

    config: str | None = None
    config_file: str | None = None
    cycles: Cycles | None = None
    cycle_seconds: Annotated[float, Meta(gt=0)] = 1.0
    termination_cycles: Count = 0
    recreation_cycles: Count = 0  # from the end of an evicted pod of a Job until its controller creates it again
    events: tuple[ScenarioEvent, ...] = ()
    churn: ChurnSpec | None = None
    expect: Expect | None = None


class ScenarioMetadata(ScenarioStruct, frozen=True):
    """Its name."""

    name: str


class ScenarioObject(ScenarioStruct, frozen=True):
    """The object as a whole."""

    api_version: str
    kind: str
    metadata: ScenarioMetadata
    spec: ScenarioSpec = ScenarioSpec()


class Scenario(Struct, frozen=True):
    """A decoded scenario: its spec, its configuration and all other objects."""

    name: str
    file: str
    spec: ScenarioSpec
    config: SchedulerConfig
    manifests: tuple[Manifest, ...] = field(default=())

    @property
    def object(self) -> str:
        """The name of the scenario in errors."""
        return f"Scenario/{self.name}"

    @property
    def expects_refusals(self) -> bool:
        """Whether the scenario expects refused objects, so that a refusal does not prevent the run."""
        return self.spec.expect is not None and bool(self.spec.expect.errors)


def read_scenario(manifests: list[Manifest], path: str) -> Scenario:
    """Decode a scenario; raises BadInput. Without a Scenario object, the path is its name."""
    own = [manifest for manifest in manifests if manifest.kind == SCENARIO]
    others = tuple(manifest for manifest in manifests if manifest.kind != SCENARIO)
    if len(own) > 1:
        message = f"{own[0].file} already contains a Scenario, and these files are one scenario; keep one of the two"
        raise BadInput([Problem(m.file, _name(m), "", message) for m in own[1:]])
    if not own:
        name = "standard input" if path == STDIN else Path(path).stem
        return Scenario(name, path, ScenarioSpec(), default_config(), others)
    manifest = own[0]
    document = _decode(manifest)
    try:
        config = _configuration(document.spec, manifest.file)
    except FieldError as error:
        raise BadInput([Problem(manifest.file, _name(manifest), error.field, error.message)]) from None
    return Scenario(document.metadata.name, manifest.file, document.spec, config, others)


def _name(manifest: Manifest) -> str:
    metadata = manifest.document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"Scenario/{name or '?'}"


def _configuration(spec: ScenarioSpec, file: str) -> SchedulerConfig:
    if spec.config_file is None:
        if spec.config is None:
            return default_config()
        try:
            return read_config(spec.config, "spec.config")
        except ConfigError as error:
            raise FieldError("spec.config", f"line {error.line}: {error.message}") from None
    if spec.config is not None:
        raise FieldError("spec.configFile", "spec.config is set as well; keep one of the two")
    path = Path(file).parent / spec.config_file
    try:
        return read_config(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "is not UTF-8 text"
        raise FieldError("spec.configFile", f"{path}: {reason}") from None
    except ConfigError as error:
        raise FieldError("spec.configFile", str(error)) from None


# ---- reading and checking ----------------------------------------------------------------------------------


def _decode(manifest: Manifest) -> ScenarioObject:
    problems = list(_unknown_fields(manifest.document, ScenarioObject, ""))
    if not problems:
        try:
            document = read(manifest.document, ScenarioObject)
            problems = list(_contradictions(document))
        except FieldError as error:
            problems = [error]
    if problems:
        name = _name(manifest)
        raise BadInput([Problem(manifest.file, name, error.field, error.message) for error in problems])
    return document


def _unknown_fields(value: object, kind: Any, where: str) -> Iterator[FieldError]:
    """Fields that the types of this module do not have, anywhere below."""
    arguments = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, ScenarioStruct) and isinstance(value, Mapping):
        types = {known.encode_name: known.type for known in fields(kind)}
        for name, part in value.items():
            inside = f"{where}.{name}" if where else str(name)
            if name in types:
                yield from _unknown_fields(part, types[name], inside)
            elif not (where == "metadata" and name in ("annotations", "labels", "namespace")):
                hint = did_you_mean(str(name), types) or f"; the fields are {', '.join(types)}"
                yield FieldError(inside, f"unknown field{hint}")
    elif get_origin(kind) is dict and isinstance(value, Mapping):
        for name, part in value.items():
            yield from _unknown_fields(part, arguments[1], f"{where}.{name}")
    elif get_origin(kind) is tuple and isinstance(value, list):
        for i, part in enumerate(value):
            yield from _unknown_fields(part, arguments[0], f"{where}[{i}]")
    else:
        for alternative in arguments:  # of X | None
            yield from _unknown_fields(value, alternative, where)


def _contradictions(document: ScenarioObject) -> Iterator[FieldError]:
    """Errors that the types do not exclude."""
    spec = document.spec
    if document.api_version != API_VERSION:
        yield FieldError("apiVersion", f"{document.api_version!r} is not supported; must be {API_VERSION}")
    for i, event in enumerate(spec.events):
        yield from _event_errors(event, f"spec.events[{i}]", spec)
    expect = spec.expect or Expect()
    for name, job in expect.jobs.items():
        where = f"spec.expect.jobs.{name}"
        if "/" not in name:
            yield FieldError(where, f"must be NAMESPACE/NAME, for example default/{name}")
        yield from _amounts(job.allocated, f"{where}.allocated")
        if job.phase is not None:
            try:
                one_of(job.phase, [phase.value for phase in JobPhase], f"{where}.phase")
            except FieldError as error:
                yield error
    for name, queue in expect.queues.items():
        yield from _amounts(queue.allocated, f"spec.expect.queues.{name}.allocated")
        yield from _amounts(queue.entitled, f"spec.expect.queues.{name}.entitled")


def _amounts(quantities: Quantities, where: str) -> Iterator[FieldError]:
    try:
        milli_amounts(quantities, where=where)
    except ResourceError as error:
        field, _, message = str(error).partition(": ")
        yield FieldError(field, message)


EVENT_KINDS = ("finish", "apply", "delete", "command", "config")


def _event_errors(event: ScenarioEvent, where: str, spec: ScenarioSpec) -> Iterator[FieldError]:
    given = [kind for kind in EVENT_KINDS if getattr(event, kind) is not None]
    if len(given) != 1:
        what = "has no action" if not given else f"has {' and '.join(given)}"
        yield FieldError(where, f"{what}; must have exactly one of {', '.join(EVENT_KINDS)}")
    last = None if spec.cycles is None else spec.cycles + (spec.churn.completions if spec.churn else 0)
    if last is not None and event.cycle > last:
        yield FieldError(f"{where}.cycle", f"{event.cycle} is after the last cycle, {last}")
    finish = event.finish
    if finish is not None and not finish.pods and (finish.job is None or finish.tasks is None):
        yield FieldError(f"{where}.finish", "must be like {job: default/a, tasks: 2} or {pods: [default/a-0]}")
    elif finish is not None and finish.pods and finish.tasks is not None:
        yield FieldError(f"{where}.finish.tasks", "must not be set together with pods")
    if event.command is not None and event.command.action not in COMMANDS:
        hint = did_you_mean(event.command.action, COMMANDS) or f"; write one of {', '.join(COMMANDS)}"
        yield FieldError(f"{where}.command.action", f"'{event.command.action}' is not known{hint}")
