"""Moving to Pumice from Volcano or Kueue: which objects keep working, which differ, and which would be lost.

    files or a cluster ──► source_objects ──┬──► volcano_check ──► MigrationReport
                                            └──► kueue_queues ───► Queues, and a MigrationReport

Everything here only reads. ``pumice migrate`` prints the report; ``pumice install --take-over`` refuses while the
report about Volcano lists a loss. The fields and kinds of Volcano come from ``pumice.admission.volcano_support`` alone,
and queues, jobs and configurations are checked by the code that admits and loads them.
"""
