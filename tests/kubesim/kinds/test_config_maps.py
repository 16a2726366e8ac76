"""Config maps and secrets, as a real kube-apiserver 1.36 answers."""

import pytest

from kubesim.kinds.config_maps import LARGEST, config_maps, secrets
from tests.kubesim.kinds.strategy_writes import cells, create, named, rejection_message, update

MAPS, SECRETS = config_maps(), secrets()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"data": {"a b": "c"}}, 'data[a b]: Invalid value: "a b": a valid config key must consist of'),
        ({"data": {"..": "c"}}, "data[..]: Invalid value: \"..\": must not be '..'"),
        ({"data": {"..x": "c"}}, "data[..x]: Invalid value: \"..x\": must not start with '..'"),
        ({"data": {"k" * 254: "c"}}, "must be no more than 253 bytes"),
        (
            {"data": {"x": "1"}, "binaryData": {"x": "aGk="}},
            'data[x]: Invalid value: "x": duplicate of key present in binaryData',
        ),
        ({"data": {"x": "y" * (LARGEST + 1)}}, "[]: Too long: may not be more than 1048576 bytes"),
    ],
)
def test_config_maps_refused(fields: dict[str, object], words: str) -> None:
    assert rejection_message(create, MAPS, named(**fields)).startswith('422 ConfigMap "it" is invalid: ')
    assert words in rejection_message(create, MAPS, named(**fields))


def test_values_that_are_not_base64() -> None:
    assert rejection_message(create, MAPS, named(binaryData={"x": "!!"})) == (
        '400 ConfigMap in version "v1" cannot be handled as a ConfigMap: illegal base64 data at input byte 0'
    )
    assert "illegal base64 data at input byte 2" in rejection_message(create, SECRETS, named(data={"x": "aG!="}))


def test_an_immutable_config_map() -> None:
    found = create(MAPS, named(data={"a": "b"}, binaryData={"x": "aGVs\nbG8="}))
    assert found["binaryData"] == {"x": "aGVsbG8="}
    found = update(MAPS, found, {"immutable": True})
    words = rejection_message(update, MAPS, found, {"immutable": False, "data": {"a": "c"}, "binaryData": None})
    for field in ("immutable", "data", "binaryData"):
        assert f"{field}: Forbidden: field is immutable when `immutable` is set" in words
    assert update(MAPS, found, {"metadata": {"labels": {"a": "b"}}})["immutable"] is True


def test_text_joins_the_data_of_a_secret() -> None:
    found = create(SECRETS, named(data={"a": "YQ=="}, stringData={"b": "b", "a": "z"}))
    assert (found["data"], found["type"]) == ({"a": "eg==", "b": "Yg=="}, "Opaque")
    assert "stringData" not in found
    after = update(SECRETS, found, {"stringData": {"c": "c"}})
    assert after["data"] == {"a": "eg==", "b": "Yg==", "c": "Yw=="}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("kubernetes.io/tls", "[data[tls.crt]: Required value, data[tls.key]: Required value]"),
        ("kubernetes.io/basic-auth", "[data[username]: Required value, data[password]: Required value]"),
        ("kubernetes.io/ssh-auth", "data[ssh-privatekey]: Required value"),
        ("kubernetes.io/dockercfg", "data[.dockercfg]: Required value"),
        ("kubernetes.io/dockerconfigjson", "data[.dockerconfigjson]: Required value"),
        (
            "kubernetes.io/service-account-token",
            "metadata.annotations[kubernetes.io/service-account.name]: Required value",
        ),
    ],
)
def test_types_of_secrets(kind: str, words: str) -> None:
    assert rejection_message(create, SECRETS, named(type=kind)) == f'422 Secret "it" is invalid: {words}'


def test_a_docker_configuration_is_json() -> None:
    create(SECRETS, named(type="kubernetes.io/dockercfg", stringData={".dockercfg": "{}"}))
    words = rejection_message(create, SECRETS, named(type="kubernetes.io/dockercfg", stringData={".dockercfg": "{"}))
    assert "data[.dockercfg]: Invalid value" in words and "redacted" in words


def test_secret_type_and_immutable_data_reject_updates() -> None:
    found = create(SECRETS, named(type="T"))
    assert update(SECRETS, found, {"type": None, "data": {"a": "YQ=="}})["type"] == "T"
    assert 'type: Invalid value: "U": field is immutable' in rejection_message(update, SECRETS, found, {"type": "U"})
    sealed = update(SECRETS, found, {"immutable": True})
    assert "data: Forbidden" in rejection_message(update, SECRETS, sealed, {"stringData": {"a": "b"}})


def test_columns() -> None:
    found = create(MAPS, named(data={"a": "b"}, binaryData={"x": "aGk="}))
    assert cells(MAPS, found)[:2] == ["it", 2]
    assert cells(SECRETS, create(SECRETS, named(stringData={"a": "b"})))[:3] == ["it", "Opaque", 1]
