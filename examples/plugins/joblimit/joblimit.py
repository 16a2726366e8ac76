"""joblimit: no more than so many jobs of a queue run at a time, say one for each licence."""

from pumice.plugin import AllocationUnit, Arguments, JobNode, Plugin, PluginError


class JobLimit(Plugin):
    """``joblimit.most``: how many jobs of each queue may run."""

    name = "joblimit"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        most = arguments.get("joblimit.most", 1)
        if not isinstance(most, int) or most < 1:
            raise PluginError("joblimit.most", f"{most!r} given; write a whole number, 1 or more")
        self.most = most

    def allocatable(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """A job that runs may grow; another may start while there are fewer than the limit."""
        running = sum(other.job.running > 0 for other in self.tree.jobs.values() if other.queue is leaf.queue)
        return f"{running} jobs of its queue run" if running >= self.most and not leaf.job.running else None

    def may_take(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Victims in other queues do not make fewer jobs of this queue run."""
        return self.allocatable(leaf, unit)
