"""overcommit: enqueue no more jobs than could run on a cluster somewhat larger than this one.

An enqueued job gets its pods created, so a long queue of hopeless jobs would load the API server for nothing. A Pending
job with ``minResources`` may be enqueued if, for each resource that these name,

    held by all jobs + promised to enqueued jobs + its minResources  <=  capacity x factor

where factor is ``overcommit-factor`` (1.2; ``overcommit-factor.cpu`` and the like for one resource), at least 1. A job
without ``minResources`` is always enqueued.

A job that is owed capacity must be able to request it: a job whose minResources fit into the unused part of its queue's
entitlement (or deserved, or part by weight) is enqueued whatever the sum above, because without pods there would be
nothing to reclaim for (docs/fairness.md, section 9.10). The same holds for a job whose own integer target covers its
minResources: where each of two queues is entitled to half a task, their parent is entitled to one, and rounding hands
it to a job of either.
"""

from __future__ import annotations

from fractions import Fraction

from kubebase.resource_vector import CPU, MEMORY, PODS
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.plugins.plugin import Argument, Arguments, Plugin, PluginError
from pumice.model.specs import Items

FACTOR = "overcommit-factor"


class OvercommitPlugin(Plugin):
    """The factor by which the cluster is overcommitted, with overrides per resource."""

    name = "overcommit"
    takes = (
        Argument(FACTOR, "1.2", "how many times the cluster is promised to jobs, 1 or more"),
        Argument(f"{FACTOR}.<resource>", FACTOR, "the same for one resource"),
    )
    reads_ledger = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.factor = _factor(arguments, FACTOR, Fraction(6, 5))
        own = [name for name in arguments if name.startswith(f"{FACTOR}.")]
        self.factors = {name.removeprefix(f"{FACTOR}."): _factor(arguments, name, self.factor) for name in own}

    def enqueueable(self, leaf: JobNode) -> str | None:
        """Whether the job is owed its minResources, or the overcommitted cluster has them left."""
        assert leaf.job.spec is not None
        asked = tuple((j, amount) for j, amount in enumerate(leaf.job.spec.min_resources) if amount and j != PODS)
        if self._is_owed(leaf.queue, asked) or (self.order.has_targets and self.order.is_owed(leaf, asked)):
            return None
        root, names = self.tree.root, self.registry.names
        for j, amount in asked:
            factor = self.factors.get(names[j], self.factor)
            wanted = root.held[j] + root.inqueue[j] + amount
            if wanted * factor.denominator > self.state.capacity[j] * factor.numerator:
                most = self._most(j, factor)
                sums = [self.registry.format_amount(j, n) for n in (root.held[j], root.inqueue[j], amount, most)]
                return (
                    f"the cluster cannot admit more {names[j]} (overcommit-factor {float(factor):g}): "
                    f"{sums[0]} in use, {sums[1]} promised and {sums[2]} requested exceed {sums[3]}"
                )
        return None

    def _most(self, j: int, factor: Fraction) -> int:
        """What jobs may ask for in all; of devices, which are requested whole, whole ones."""
        capacity = self.state.capacity[j]
        most = capacity * factor.numerator // factor.denominator
        return most if j in (CPU, MEMORY) or capacity % 1000 else most - most % 1000

    def _is_owed(self, queue: ShareNode, asked: Items) -> bool:
        """Whether a queue is entitled to these amounts. Without targets, promises there count as used."""
        due, taken = self.order.entitlement_of(queue), list(queue.held)
        if not self.order.has_targets:
            taken = [held + promised for held, promised in zip(queue.held, queue.inqueue, strict=True)]
        return all(taken[j] + amount <= due[j] for j, amount in asked)


def _factor(arguments: Arguments, name: str, default: Fraction) -> Fraction:
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            factor = Fraction(str(value).strip())
        except (ValueError, ZeroDivisionError):
            factor = Fraction()
        if factor >= 1:
            return factor
    raise PluginError(name, f"{name} is {value!r}; write a number, 1 or more, such as 1.2")
