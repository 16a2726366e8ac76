"""``pumice scheduler``: schedules a cluster until stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.daemons.daemon import (
    MetricsAddress,
    cluster_access,
    cluster_options,
    metrics_option,
    run_daemon,
    schedulers_option,
)
from pumice.cli.daemons.leader_election import Election, election_option
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.client.api import Api
    from pumice.scheduler.loop import Scheduler


@click.command()
@cluster_options
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Scheduler configuration file in Volcano's format.",
)
@click.option(
    "--config-map",
    metavar="NAME",
    help="Also watch this ConfigMap, from which the configuration file is mounted: its changes count at once.",
)
@click.option(
    "--decision-log",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the decision log, for pumice replay. [default: no log]",
)
@click.option(
    "--decision-log-size",
    metavar="MIB",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    help="Size at which a new log file is started.",
)
@click.option(
    "--decision-log-files",
    type=click.IntRange(2, 1000),
    default=512,
    show_default=True,
    help="Number of log files to keep.",
)
@click.option(
    "--trace",
    is_flag=True,
    help="Record in the decision log why each job was picked, and the numbers behind each eviction.",
)
@click.option(
    "--history",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of the history of queues, for pumice ui; also served at /history. [default: no history]",
)
@click.option(
    "--history-size",
    metavar="MIB",
    type=click.IntRange(1, 1024),
    default=64,
    show_default=True,
    help="Maximum size of the history; the oldest points are deleted.",
)
@click.option(
    "--write-rate",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=2000,
    show_default=True,
    help="Maximum bindings per second; the same limit applies to evictions.",
)
@schedulers_option
@election_option("pumice-scheduler")
@metrics_option("127.0.0.1:8080")
def scheduler(
    kubeconfig: Path | None,
    context: str,
    config: Path | None,
    config_map: str | None,
    decision_log: Path | None,
    decision_log_size: int,
    decision_log_files: int,
    trace: bool,
    history: Path | None,
    history_size: int,
    write_rate: int,
    schedulers: frozenset[str],
    election: Election | None,
    answering: MetricsAddress,
) -> None:
    """Schedule a cluster.

    Places the pods with schedulerName pumice or volcano, by the queues, podgroups and quotas of the cluster, until
    stopped. A change of the configuration file takes effect with the next cycle (SIGHUP: at once). If the new file is
    invalid, the scheduler logs the error and keeps the previous configuration. The ConfigMap of --config-map is that of
    the pod's namespace, or of the namespace of the context; its key is the name of the configuration file.
    """
    import asyncio
    import signal

    from pumice.config.load import default_config
    from pumice.decision_log.writer import DecisionLog
    from pumice.engine.config.scheduler_config import ConfigError
    from pumice.engine.preemption.cooldown import LIVE
    from pumice.observability.history.recorder import HistoryRecorder
    from pumice.observability.probes import scheduler_probes
    from pumice.scheduler.config_map_watch import ConfigMapWatch
    from pumice.scheduler.config_watcher import ConfigWatcher
    from pumice.scheduler.loop import Scheduler

    if config_map and config is None:
        raise click.UsageError("--config-map needs --config with the file that is mounted from it")
    access = cluster_access(kubeconfig, context)
    file = ConfigWatcher(config, lambda text: echo(text, err=True)) if config else None
    try:
        chosen = file.first() if file else default_config()
    except (ConfigError, OSError) as error:
        raise click.UsageError(str(error)) from None
    for note in chosen.notes:
        echo(f"note: {chosen.source}: {note}", err=True)
    recorded = None
    if decision_log is not None:
        recorded = DecisionLog(decision_log, size=decision_log_size << 20, files=decision_log_files)

    recorder = HistoryRecorder(history, largest=history_size << 20) if history is not None else None

    def make(api: Api) -> Scheduler:
        if file is not None and hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, file.check_now)
        if file is not None and config_map:
            file.follow(ConfigMapWatch(api, access.namespace, config_map, file.path.name))
        return Scheduler(
            api,
            chosen,
            config_file=file,
            decision_log=recorded,
            cooldown=LIVE,
            schedulers=schedulers,
            write_rate=write_rate,
            trace=trace,
        )

    try:
        run_daemon(access, make, "scheduling", answering, lambda made: scheduler_probes(made, recorder), election)
    finally:
        if recorder is not None:
            recorder.close()
