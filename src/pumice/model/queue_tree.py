"""One tree from three notations: annotations, ``spec.parent``, or neither (docs/fairness.md, section 4).

``build_queue_tree`` reads all queues and determines the place of each. It never guesses: it refuses a queue that
contradicts another, names a missing parent or closes a cycle, with a reason, and all other queues keep their place.
(``spec.hierarchy``, a further notation, is expanded into Queue objects with a parent beforehand: see
``queue_expansion``.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from pumice.model.specs import ROOT, Queue

Path = tuple[str, ...]


@dataclass(slots=True)
class QueuePlacement:
    """A node of the queue tree. ``queue`` is the name of its object, None for an inner node without one."""

    path: Path
    weight: Fraction = Fraction(1)
    queue: str | None = None
    created: int = 0


@dataclass(frozen=True, slots=True)
class PlacementRefusal:
    """Why a queue has no place (or, with ``refused`` false, a warning about one that has)."""

    queue: str
    field: str
    message: str
    refused: bool = True


@dataclass(slots=True)
class QueueTree:
    """The places of all queues. Parents come before their children in ``places``."""

    placements: dict[Path, QueuePlacement] = field(default_factory=dict)
    path_of: dict[str, Path] = field(default_factory=dict)
    refusals: list[PlacementRefusal] = field(default_factory=list)


class HierarchyError(ValueError):
    """A hierarchy annotation that cannot be parsed; ``field`` names it."""

    def __init__(self, annotation: str, message: str) -> None:
        super().__init__(message)
        self.field = f"metadata.annotations[{annotation}]"


HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
MOST_LEVELS = 4000
"""Limit on the levels of a path. Placing a path takes time and memory quadratic in its levels."""
NAMES_SHOWN = 10
"""Queues of a cycle that a message names."""
WEIGHTS_WRITTEN = "pumice.dev/hierarchy-weights-written"
"""When the two annotations above were last written. Admission maintains it: objects have no revision per field."""


def parse_path(path: str, weights: str | None, own_weight: int) -> tuple[Path, tuple[Fraction, ...]]:
    """The segments of a hierarchy annotation and the weight of each, ``root`` first."""
    segments = path.strip("/").split("/")
    if len(segments) > MOST_LEVELS:
        raise HierarchyError(
            HIERARCHY, f"Too deep: the path has {len(segments)} levels; at most {MOST_LEVELS} are supported"
        )
    for segment in segments:
        if not segment.strip():
            raise HierarchyError(
                HIERARCHY, f"Invalid value: {path!r}: has an empty segment; must be a path such as root/eng/prod"
            )
        if not segment.isprintable():
            message = (
                f"Invalid value: {segment!r}: may not contain control characters; must be a path such as root/eng/prod"
            )
            raise HierarchyError(HIERARCHY, message)
    if weights is None:
        numbers = [Fraction(1)] * (len(segments) - 1) + [Fraction(own_weight)]
    else:
        numbers = [_weight(part, weights) for part in weights.strip("/").split("/")]
        if len(numbers) != len(segments):
            raise HierarchyError(
                HIERARCHY_WEIGHTS,
                (
                    f"Invalid value: {weights!r}: has {len(numbers)} weights for the {len(segments)} levels "
                    f"of {path!r}; must have one weight per level, such as 1/2/8"
                ),
            )
    if segments[0] != ROOT:
        segments.insert(0, ROOT)
        numbers.insert(0, Fraction(1))
    return tuple(segments), tuple(numbers)


def _weight(text: str, whole: str) -> Fraction:
    # A plain decimal: an exponent could make a number that takes minutes to write out.
    weight = Fraction(text) if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", text := text.strip()) else Fraction(0)
    if weight <= 0:
        raise HierarchyError(
            HIERARCHY_WEIGHTS,
            f"Invalid value: {text!r} in {whole!r}: must be a number greater than 0, such as 2 or 0.5",
        )
    return weight


def weight_in_force(queue: Queue) -> Fraction:
    """The effective weight of a queue among its siblings, if it has a place; raises HierarchyError.

    With both hierarchy annotations that is the last number of the second, whatever ``spec.weight``. Root has no
    siblings: its weight has no effect.
    """
    if queue.name == ROOT:
        return Fraction(1)
    if queue.path is None:
        return Fraction(queue.weight)
    return parse_path(queue.path, queue.path_weights, queue.weight)[1][-1]


def build_queue_tree(queues: Mapping[str, Queue]) -> QueueTree:
    """Place every queue. Of two that conflict, the one created first gets its place."""
    layout = QueueTree()
    layout.placements[(ROOT,)] = QueuePlacement((ROOT,), queue=ROOT)
    layout.path_of[ROOT] = (ROOT,)
    by_age = sorted((q for q in queues.values() if q.name != ROOT), key=lambda q: (q.created, q.name))
    waiting = {queue.name: queue for queue in by_age}
    progress = True
    while waiting and progress:
        # A queue waits for its parent to be placed; round by round, oldest first.
        ready = [queue for queue in waiting.values() if queue.parent is None or queue.parent in layout.path_of]
        progress = bool(ready)
        for queue in ready:
            del waiting[queue.name]
            if queue.path is not None:
                _place_by_path(layout, queue, queues)
            else:
                _place_by_parent(layout, queue)
    entered = _circles(waiting)
    for queue in waiting.values():
        circle = _shown_circle(entered[queue.name], waiting) if queue.name in entered else ""
        _refuse_orphan(layout, queue, circle, queues)
    _weigh_inner_nodes(layout, by_age)
    return layout


def _refuse(layout: QueueTree, queue: Queue, where: str, message: str, *, refused: bool = True) -> None:
    layout.refusals.append(PlacementRefusal(queue.name, where, message, refused))


def _place_by_path(layout: QueueTree, queue: Queue, queues: Mapping[str, Queue]) -> None:
    assert queue.path is not None
    where = f"metadata.annotations[{HIERARCHY}]"
    try:
        path, weights = parse_path(queue.path, queue.path_weights, queue.weight)
    except HierarchyError as error:
        return _refuse(layout, queue, error.field, str(error))
    written = "/".join(path)
    if len(path) == 1:
        return _refuse(
            layout,
            queue,
            where,
            "Invalid value: 'root': stands for the cluster; must be a path below it, such as root/a",
        )
    if queue.parent not in (None, ROOT) and layout.path_of[str(queue.parent)] != path[:-1]:
        message = f"Invalid value: {queue.parent!r}: contradicts the path {written!r}; remove one of them"
        return _refuse(layout, queue, "spec.parent", message)
    for depth in range(2, len(path)):
        above = layout.placements.get(path[:depth])
        if above is not None and above.queue is not None and queues[above.queue].path is not None:
            message = (
                f"Forbidden: {'/'.join(path[:depth])!r} is queue '{above.queue}', which is defined by a "
                "path and therefore has no children"
            )
            return _refuse(layout, queue, where, message)
    taken = layout.placements.get(path)
    if taken is not None:
        by = f"is already queue '{taken.queue}'" if taken.queue else "already has queues below it"
        return _refuse(layout, queue, where, f"Duplicate value: {written!r} {by}; choose another path")
    for depth in range(2, len(path)):
        layout.placements.setdefault(path[:depth], QueuePlacement(path[:depth], Fraction(1), None, queue.created))
    layout.placements[path] = QueuePlacement(path, weights[-1], queue.name, queue.created)
    layout.path_of[queue.name] = path
    return None


def _place_by_parent(layout: QueueTree, queue: Queue) -> None:
    path = (*layout.path_of[queue.parent or ROOT], queue.name)
    place = layout.placements.setdefault(path, QueuePlacement(path))
    if place.queue is not None:
        return _refuse(
            layout, queue, "spec.parent", f"Duplicate value: {'/'.join(path)!r} is already queue '{place.queue}'"
        )
    place.queue, place.weight, place.created = queue.name, Fraction(queue.weight), queue.created
    layout.path_of[queue.name] = path
    return None


def _refuse_orphan(layout: QueueTree, queue: Queue, circle: str, queues: Mapping[str, Queue]) -> None:
    """Refuse a queue whose parent was never placed, perhaps because the parent is in a cycle."""
    if circle:
        message = f"Invalid value: parents form a cycle: {circle}"
    elif queue.parent in queues:
        message = (
            f"Invalid value: {queue.parent!r}: that queue has no valid place in the tree itself; correct "
            "it, or use another parent"
        )
    else:
        message = f"Not found: {queue.parent!r}: create that queue first, or use 'root'"
    _refuse(layout, queue, "spec.parent", message)


def _weigh_inner_nodes(layout: QueueTree, queues: Iterable[Queue]) -> None:
    """Set the weight of every inner node without an object: of contradicting annotations the latest write counts.

    Queues whose annotation names a weight other than the effective one get a warning.
    """
    written = [queue for queue in queues if queue.path_weights is not None and queue.name in layout.path_of]
    deciders: dict[Path, str] = {}
    claims: list[tuple[Queue, Path, Fraction]] = []
    for queue in sorted(written, key=lambda queue: (queue.weights_written or queue.created, queue.created, queue.name)):
        if queue.path is None:
            continue
        path, weights = parse_path(queue.path, queue.path_weights, queue.weight)
        for depth in range(2, len(path)):
            place = layout.placements[path[:depth]]
            claims.append((queue, place.path, weights[depth - 1]))
            if place.queue is None:
                place.weight = weights[depth - 1]
                deciders[place.path] = queue.name
    for queue, path, weight in claims:
        place = layout.placements[path]
        if place.weight != weight:
            by = deciders.get(path)
            because = f"set later by queue '{by}'" if by else f"spec.weight of queue '{place.queue}'"
            message = (
                f"weight {weight} for {'/'.join(path)!r} has no effect: the weight in force is "
                f"{place.weight} ({because})"
            )
            _refuse(layout, queue, f"metadata.annotations[{HIERARCHY_WEIGHTS}]", message, refused=False)


def _circles(waiting: Mapping[str, Queue]) -> dict[str, str]:
    """The queues whose parents form or lead to a cycle, each with the queue at which its path enters the cycle.

    Every queue is visited once, however many lead into one cycle.
    """
    entered: dict[str, str] = {}
    done: set[str] = set()
    for name in waiting:
        way: dict[str, int] = {}
        step = name
        while step in waiting and step not in done and step not in way:
            way[step] = len(way)
            step = waiting[step].parent or ROOT
        if step in way:
            first = way[step]
            entered |= {passed: passed if place >= first else step for passed, place in way.items()}
        elif step in entered:
            entered |= dict.fromkeys(way, entered[step])
        done |= way.keys()
    return entered


def _shown_circle(start: str, waiting: Mapping[str, Queue]) -> str:
    """A cycle, starting at one of its queues; only the beginning if it is long."""
    names, step = [start], waiting[start].parent
    while step is not None and step != start and len(names) < NAMES_SHOWN:
        names.append(step)
        step = waiting[step].parent
    return " -> ".join([*names, *([] if step == start else ["..."]), start])


def inner_paths(paths: Iterable[Path]) -> set[Path]:
    """The paths that have other paths below them."""
    return {path[:-1] for path in paths if len(path) > 1}
