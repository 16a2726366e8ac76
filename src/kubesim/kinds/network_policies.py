"""The kind NetworkPolicy. Objects are stored and shown; nothing here carries packets that they could stop."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from functools import partial
from typing import Final

from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required, unsupported
from kubesim.kinds.pods.names import check_port, check_port_name
from kubesim.kinds.schema_dsl import LABEL_SELECTOR, expand_schema
from kubesim.kinds.selectors import check_selector, shown
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
POLICY_TYPES: Final = ("Ingress", "Egress")
CIDR_RULE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"

SHAPES: Final = (
    LABEL_SELECTOR
    + """
NetworkPolicy
  spec NetworkPolicySpec
NetworkPolicySpec
  egress [NetworkPolicyEgressRule]
  ingress [NetworkPolicyIngressRule]
  podSelector LabelSelector atomic = {}
  policyTypes [text]
NetworkPolicyEgressRule
  ports [NetworkPolicyPort]
  to [NetworkPolicyPeer]
NetworkPolicyIngressRule
  from [NetworkPolicyPeer]
  ports [NetworkPolicyPort]
NetworkPolicyPeer
  ipBlock IPBlock
  namespaceSelector LabelSelector atomic
  podSelector LabelSelector atomic
NetworkPolicyPort
  endPort int32
  port int-or-text
  protocol text = "TCP"
IPBlock
  cidr! text
  except [text]
"""
)


class NetworkPolicyStrategy(Strategy):
    """The types follow from the rules, unless they are named."""

    has_generation = True

    def on_create(self, new: Object, context: Context) -> None:
        """Name the types of a new policy."""
        _name_types(new)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Name the types of a policy whose new version names none."""
        _name_types(new)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Selectors, peers, ports and types."""
        spec = new.get("spec") or {}
        yield from check_selector(spec.get("podSelector") or {}, "spec.podSelector")
        for rules, peers in (("ingress", "from"), ("egress", "to")):
            for i, rule in enumerate(spec.get(rules) or ()):
                for j, port in enumerate(rule.get("ports") or ()):
                    yield from _check_port(port, f"spec.{rules}[{i}].ports[{j}]")
                for j, peer in enumerate(rule.get(peers) or ()):
                    yield from _check_peer(peer, f"spec.{rules}[{i}].{peers}[{j}]")
        types = spec.get("policyTypes") or []
        if len(types) > len(POLICY_TYPES):
            yield invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
            return
        for i, name in enumerate(types):
            if name not in POLICY_TYPES:
                yield unsupported(f"spec.policyTypes[{i}]", name, POLICY_TYPES)


def _name_types(new: Object) -> None:
    spec = new.setdefault("spec", {"podSelector": {}})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _check_port(found: Object, field: str) -> Iterator[FieldProblem]:
    if found.get("protocol") not in PROTOCOLS:
        yield unsupported(f"{field}.protocol", found.get("protocol", ""), PROTOCOLS)
    port, end = found.get("port"), found.get("endPort")
    if port is None:
        if end is not None:
            yield invalid(f"{field}.endPort", end, "may not be specified when `port` is not specified")
    elif isinstance(port, str):
        if end is not None:
            yield invalid(f"{field}.endPort", end, "may not be specified when `port` is non-numeric")
        yield from check_port_name(port, f"{field}.port")
    else:
        yield from check_port(port, f"{field}.port")
        if end is not None:
            if end < port:
                yield invalid(f"{field}.endPort", port, "must be greater than or equal to `port`")
            yield from check_port(end, f"{field}.endPort")


def _check_peer(peer: Object, field: str) -> Iterator[FieldProblem]:
    for name in ("podSelector", "namespaceSelector"):
        if name in peer:
            yield from check_selector(peer[name], f"{field}.{name}")
    if "ipBlock" in peer:
        yield from _check_block(peer["ipBlock"], f"{field}.ipBlock")
    if not peer:
        yield required(field, "must specify a peer")
    elif "ipBlock" in peer and len(peer) > 1:
        yield forbidden(field, "may not specify both ipBlock and another peer")


def _check_block(block: Object, field: str) -> Iterator[FieldProblem]:
    cidr = block.get("cidr") or ""
    whole = _network(cidr)
    if not cidr:
        yield required(f"{field}.cidr")
        return
    if whole is None:
        yield invalid(f"{field}.cidr", cidr, CIDR_RULE)
        return
    for i, text in enumerate(block.get("except") or ()):
        part = _network(text)
        if part is None:
            yield invalid(f"{field}.except[{i}]", text, CIDR_RULE)
        elif part.version != whole.version or part == whole or not _contains(whole, part):
            yield invalid(f"{field}.except[{i}]", text, "must be a strict subset of `cidr`")


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _contains(whole: Network, part: Network) -> bool:
    return part.network_address in whole and part.prefixlen >= whole.prefixlen


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def network_policies() -> Resource:
    """The resource ``networkpolicies``."""
    return Resource(
        group="networking.k8s.io",
        version="v1",
        plural="networkpolicies",
        kind="NetworkPolicy",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "NetworkPolicy")),
        strategy=NetworkPolicyStrategy(),
        columns=(
            NAME,
            TableColumn(
                "Pod-Selector",
                lambda found: shown((found.get("spec") or {}).get("podSelector") or {}),
                description="The pods that it applies to.",
            ),
            AGE,
        ),
        singular="networkpolicy",
        short_names=("netpol",),
    )
