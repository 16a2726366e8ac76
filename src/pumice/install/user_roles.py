"""ClusterRoles for the people who use a cluster, and the policy that keeps Commands to queues for queue administrators.

The roles of jobs concern namespaced objects: a RoleBinding grants them in one namespace, and the labels of aggregation
add them to the roles ``view``, ``edit`` and ``admin`` that clusters have. The roles of queues concern objects of the
cluster and need a ClusterRoleBinding, so no role contains them by aggregation. Nothing is bound here: the administrator
decides who gets a role (docs/install.md).

A submitter suspends and resumes jobs with Commands. The queue controller takes Commands from every namespace, so
without the policy a submitter could close any queue.
"""

from __future__ import annotations

from typing import Any, Final

from pumice.install.install_options import INSTALL_NAME, labels
from pumice.install.rbac import PROTECT_RULE, STORAGE_KINDS, WEIGH_RULE, PolicyRule
from pumice.kube.resources import COMMANDS, QUEUES

Object = dict[str, Any]

USERS: Final = "users"
"""The component in the labels of these objects."""
VIEWER, SUBMITTER = f"{INSTALL_NAME}-viewer", f"{INSTALL_NAME}-submitter"
TEAM_LEAD, PROTECTOR = f"{INSTALL_NAME}-team-lead", f"{INSTALL_NAME}-protector"
QUEUE_VIEWER, QUEUE_ADMIN = f"{INSTALL_NAME}-queue-viewer", f"{INSTALL_NAME}-queue-admin"
COMMAND_POLICY = f"{INSTALL_NAME}-commands-to-queues"

_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete")
_SCHEDULING, _BATCH, _BUS = "scheduling.volcano.sh", "batch.volcano.sh", "bus.volcano.sh"
_FLOW = "flow.volcano.sh"

_VIEW_JOBS = (
    PolicyRule(_BATCH, ("jobs", "cronjobs"), _READ),
    PolicyRule(_FLOW, ("jobflows", "jobtemplates"), _READ),
    PolicyRule(_SCHEDULING, ("podgroups",), _READ),
    PolicyRule("", ("pods", "pods/log", "events", "resourcequotas"), _READ),
)
_VIEW_QUEUES = (
    PolicyRule(_SCHEDULING, ("queues",), _READ),
    PolicyRule("scheduling.k8s.io", ("priorityclasses",), _READ),
)
_SUBMIT_JOBS = (
    *_VIEW_JOBS,
    PolicyRule(_BATCH, ("jobs", "cronjobs"), (*_WRITE, "deletecollection")),
    PolicyRule(_FLOW, ("jobflows", "jobtemplates"), (*_WRITE, "deletecollection")),
    PolicyRule(_SCHEDULING, ("podgroups",), (*_WRITE, "deletecollection")),
    PolicyRule(_BUS, ("commands",), (*_READ, "create", "delete")),
)
USER_RULES: Final[dict[str, tuple[PolicyRule, ...]]] = {
    VIEWER: _VIEW_JOBS,
    SUBMITTER: _SUBMIT_JOBS,
    TEAM_LEAD: (
        *_SUBMIT_JOBS,
        PolicyRule("", ("pods",), ("create", "update", "patch", "delete", "deletecollection")),
        PolicyRule("", ("pods/eviction",), ("create",)),
    ),
    PROTECTOR: (PROTECT_RULE,),
    QUEUE_VIEWER: _VIEW_QUEUES,
    QUEUE_ADMIN: (
        *_VIEW_QUEUES,
        *_VIEW_JOBS,
        PolicyRule(_SCHEDULING, ("queues",), _WRITE),
        WEIGH_RULE,
        PolicyRule(_BUS, ("commands",), (*_READ, "create", "delete")),
        PolicyRule("", ("nodes",), _READ),
        PolicyRule("topology.volcano.sh", ("hypernodes",), (*_READ, *_WRITE)),
        PolicyRule("policy", ("poddisruptionbudgets",), _READ),
        PolicyRule("", ("persistentvolumes", "persistentvolumeclaims"), _READ),
        PolicyRule("storage.k8s.io", STORAGE_KINDS, _READ),
    ),
}
"""The rules of each role."""

AGGREGATED_TO: Final = {VIEWER: "view", SUBMITTER: "edit"}
"""The role of the cluster to which a role is added. The cluster adds ``view`` to ``edit`` and ``edit`` to ``admin``."""


def user_roles() -> list[Object]:
    """The ClusterRoles."""
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {**labels(USERS), **_aggregation(name)}},
            "rules": [right.rule() for right in rules],
        }
        for name, rules in USER_RULES.items()
    ]


def _aggregation(role: str) -> dict[str, str]:
    whole = AGGREGATED_TO.get(role)
    return {f"rbac.authorization.k8s.io/aggregate-to-{whole}": "true"} if whole else {}


def command_policy() -> list[Object]:
    """Only users who may update a queue may create Commands to it: a policy, and what puts it into force."""
    about = {"metadata": {"name": COMMAND_POLICY, "labels": labels(USERS)}}
    group, _, version = COMMANDS.api_version.rpartition("/")
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [COMMANDS.plural],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }
    queues = QUEUES.api_version.partition("/")[0]
    target = "object.?target.?kind.orValue('')"
    name = "object.?target.?name.orValue('')"
    may_update = f"authorizer.group('{queues}').resource('{QUEUES.plural}').name({name}).check('update').allowed()"
    message = f"'target: ' + request.userInfo.username + ' may not update queue \"' + {name} + '\"'"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [rule]},
        "matchConditions": [{"name": "to-queues", "expression": f"{target} == '{QUEUES.kind}'"}],
        "validations": [{"expression": may_update, "messageExpression": message, "reason": "Forbidden"}],
    }
    version = "admissionregistration.k8s.io/v1"
    return [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", **about, "spec": policy},
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            **about,
            "spec": {"policyName": COMMAND_POLICY, "validationActions": ["Deny"]},
        },
    ]
