"""Defaults of a queue: one function per rule, each idempotent."""

from __future__ import annotations

from kubebase.timestamps import micro_stamp
from pumice.admission import user_limits
from pumice.admission.cluster_view import ClusterView
from pumice.admission.request import CREATE, Object, Request, annotate, annotations_of, spec_of
from pumice.model.queue_tree import HIERARCHY, HIERARCHY_WEIGHTS, WEIGHTS_WRITTEN
from pumice.model.specs import ROOT


def begin_path_at_root(new: Object, request: Request, world: ClusterView) -> None:
    """Prefix a path with root: ``eng/prod`` with ``2/8`` becomes ``root/eng/prod`` with ``1/2/8``."""
    given = annotations_of(new)
    path = given.get(HIERARCHY, "").strip("/")
    if not path:
        return
    weights = given.get(HIERARCHY_WEIGHTS, "").strip("/")
    if path.split("/")[0] != ROOT:
        path, weights = f"{ROOT}/{path}", weights and f"1/{weights}"
    annotate(new, HIERARCHY, path)
    if weights:
        annotate(new, HIERARCHY_WEIGHTS, weights)


def date_path_weights(new: Object, request: Request, world: ClusterView) -> None:
    """Record when the path or its weights were last written: of contradicting weights the latest write counts.

    The timestamp is later than every other one, so that the order holds even where the clock was set back.
    """
    given, had = annotations_of(new), annotations_of(request.old or {})
    if all(given.get(name) == had.get(name) for name in (HIERARCHY, HIERARCHY_WEIGHTS)):
        written = had.get(WEIGHTS_WRITTEN) if request.old else None
    elif HIERARCHY_WEIGHTS not in given or not request.moment:
        written = None
    else:
        latest = max((queue.weights_written for queue in world.tree.queues.values()), default=0)
        written = micro_stamp(max(request.moment, latest + 1) / 10**6)
    if given.get(WEIGHTS_WRITTEN) != written:
        annotate(new, WEIGHTS_WRITTEN, written)


def hang_under_root(new: Object, request: Request, world: ClusterView) -> None:
    """Default the parent to root."""
    if not spec_of(new).get("parent") and not annotations_of(new).get(HIERARCHY) and request.name != ROOT:
        new["spec"]["parent"] = ROOT


def weigh_one(new: Object, request: Request, world: ClusterView) -> None:
    """Default the weight to 1, and ``reclaimable`` to true."""
    for name, value in (("weight", 1), ("reclaimable", True)):
        if new["spec"].get(name) is None:
            new["spec"][name] = value


def settle_user_limits(new: Object, request: Request, world: ClusterView) -> None:
    """A parent keeps its user limits in an annotation; a leaf has them in its spec."""
    if request.name != ROOT:  # root cannot have them, and a rule reports that
        if request.old is not None:
            user_limits.forget_removed(new, request.old)
        user_limits.settle(new, leaf=not _is_parent(new, request.name, world))


def keep_until_cleared(new: Object, request: Request, world: ClusterView) -> None:
    """Add the finalizer where a controller deletes what is below a terminating queue."""
    finalizer = world.settings.queue_finalizer
    about = new["metadata"]
    if finalizer and request.operation == CREATE and finalizer not in (about.get("finalizers") or ()):
        about["finalizers"] = [*(about.get("finalizers") or ()), finalizer]


def _is_parent(new: Object, name: str, world: ClusterView) -> bool:
    """Whether the queue has child queues, or will have."""
    tree = world.tree
    if name == ROOT or spec_of(new).get("hierarchy") or (tree.path(name) and not tree.is_leaf(name)):
        return True
    path = annotations_of(new).get(HIERARCHY)
    if path:
        return bool(tree.children(tuple(path.split("/"))))
    above = tree.path(spec_of(new).get("parent") or ROOT)
    return above is not None and bool(tree.children((*above, name)))


RULES = (begin_path_at_root, date_path_weights, hang_under_root, weigh_one, settle_user_limits, keep_until_cleared)
