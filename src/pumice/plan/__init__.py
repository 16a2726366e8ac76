"""What a change would do: the engine runs to rest with and without it, in virtual time, and the results are compared.

    plan_basis (a cluster at one moment)  ──►  rest_run  without the change  ──┐
                       │                                                       ├──►  plan_report
    change_file  ──►  change_application  ──►  rest_run  with the change  ─────┘

Nothing else happens in either run: no job arrives and no task ends. So what differs is what the change does.
"""
