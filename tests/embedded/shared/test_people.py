"""Accounts and their namespaces, and tokens: each for one user of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.embedded.shared.login_tokens import LIFE_SECONDS, LoginTokens, TokenUser, load_or_create_key
from pumice.embedded.shared.people import FRESH_SECONDS, NoAccountError, People, namespace_of
from pumice.kube.namespace_owner import namespace_owner


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("anna", "anna"),
        ("anna-lena2", "anna-lena2"),
        ("Anna", "uid-7"),
        ("anna.b", "uid-7"),
        ("anna_b", "uid-7"),
        ("default", "uid-7"),
        ("kube-system", "uid-7"),
        ("kube-anything", "uid-7"),
        ("uid-8", "uid-7"),
        ("a" * 64, "uid-7"),
        ("-a", "uid-7"),
    ],
)
def test_no_two_accounts_have_the_same_namespace_and_none_has_one_of_the_system(name: str, namespace: str) -> None:
    assert namespace_of(name, 7) == namespace


def test_root_is_an_administrator_and_unknown_users_are_nobody() -> None:
    people = People()
    root = people.find(0)
    assert (root.name, root.namespace, root.administrator) == ("root", "root", True)
    for uid in (65534, 2**32 - 1, 4_000_000_001):
        with pytest.raises(NoAccountError, match=str(uid)):
            people.find(uid)


def test_an_account_is_looked_up_again_after_a_while() -> None:
    now = 0.0
    people = People(now=lambda: now)
    people.find(0)
    assert people.cached(0) is not None
    now = FRESH_SECONDS
    assert people.cached(0) is None


@pytest.mark.parametrize("uid", ["", "-1", "1x", "0x0", "٣", "99999999999", 0, None])
def test_a_namespace_with_a_strange_owner_belongs_to_nobody(uid: object) -> None:
    annotations = {"pumice.dev/owner": "root", "pumice.dev/owner-uid": uid}
    assert namespace_owner({"metadata": {"annotations": annotations}}) is None
    assert namespace_owner({"metadata": {"annotations": annotations | {"pumice.dev/owner-uid": "0"}}}) == ("root", 0)


def test_tokens_end_and_are_good_for_their_key_alone(tmp_path: Path) -> None:
    now = 1000.0
    key = load_or_create_key(tmp_path)
    tokens = LoginTokens(key, lambda: now)
    token, end = tokens.issue(TokenUser(1001, "anna"))
    assert end == now + LIFE_SECONDS
    assert tokens.check(token) == (1001, "anna")
    assert LoginTokens(load_or_create_key(tmp_path), lambda: now).check(token) == (1001, "anna")
    assert (tmp_path / "login.key").stat().st_mode & 0o077 == 0
    said, _, signature = token.partition(".")
    other = LoginTokens(b"x" * 32, lambda: now).issue(TokenUser(0, "root"))[0]
    for forged in ("", ".", token[:-1], f"{said}.", f".{signature}", f"{said}x.{signature}", other, "é", token * 20):
        assert tokens.check(forged) is None
    now += LIFE_SECONDS
    assert tokens.check(token) is None
