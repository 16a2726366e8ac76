"""Questions about access."""

from kubesim.kinds.access_reviews import reviews
from tests.kubesim.kinds.strategy_writes import create, rejection_message

ACCESS, RULES, SELF = reviews()


def test_access_reviews_allow_every_request() -> None:
    found = create(ACCESS, {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}})
    assert found["status"]["allowed"] is True and found["status"]["reason"]
    rules = create(RULES, {"spec": {"namespace": "default"}})["status"]
    assert rules["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert create(SELF, {})["status"]["userInfo"]["username"] == "alice"


def test_a_question_is_about_one_thing() -> None:
    assert "exactly one of nonResourceAttributes or resourceAttributes must be specified" in (
        rejection_message(create, ACCESS, {"spec": {}})
    )
    both = {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/x"}}
    assert "cannot be specified in combination with resourceAttributes" in rejection_message(
        create, ACCESS, {"spec": both}
    )
    assert rejection_message(create, RULES, {"spec": {}}) == "400 no namespace on request"


def test_questions_are_only_asked() -> None:
    assert {resource.verbs for resource in reviews()} == {("create",)}
