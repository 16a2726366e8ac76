from __future__ import annotations

from pumice.kube.paging import WATCH_SECONDS, ListPages, watch_query
from pumice.kube.refusals import RefusedError

EXPIRED = RefusedError(410, "Expired", "too old")


def test_pages_follow_one_another() -> None:
    pages = ListPages({"labelSelector": "a"}, 2)
    assert pages.first and pages.query() == {"labelSelector": "a", "limit": "2"}
    assert pages.advance("more")
    assert not pages.first and pages.query() == {"labelSelector": "a", "limit": "2", "continue": "more"}
    assert not pages.advance("")


def test_after_a_token_has_expired_the_list_comes_in_one_piece() -> None:
    pages = ListPages(size=2)
    assert not pages.restart(EXPIRED)  # without a token it was something else
    pages.advance("more")
    assert not pages.restart(RefusedError(500, "", ""))
    assert pages.restart(EXPIRED)
    assert pages.first and pages.query() == {}


def test_watches_end_at_different_times() -> None:
    asked = [watch_query({"fieldSelector": "f"}, "7") for _ in range(50)]
    seconds = {int(each.pop("timeoutSeconds")) for each in asked}
    assert len(seconds) > 1 and WATCH_SECONDS[0] <= min(seconds) and max(seconds) <= WATCH_SECONDS[1]
    assert asked[0] == {"fieldSelector": "f", "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "7"}
