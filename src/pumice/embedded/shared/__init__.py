"""Several people on one machine (``pumice up --shared``): who they are, what they may do, and what they see of others.

Each user of the machine has a namespace, made on first contact and named after the user. Only its owner (and root)
creates or changes what runs in it, and the agent runs every process of it as its owner, whichever controller made the
pod. ``people`` knows the accounts, ``access_rules`` judges requests, ``reduced_objects`` is what others see of a job,
``shared_admission`` refuses fields that would reach beyond a namespace, ``login_tokens`` are for programs that cannot
use the Unix socket.
"""
