"""Every page on a live ``pumice up``: three organisations that borrow, and one that takes back what is its own."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import PageErrors
from tests.support.kubectl import KUBECTL
from tests.support.processes import run_process
from tests.support.showcase import Showcase, moment_before_science, showcase, taken_by_science
from tests.ui.browser.accessibility import grave_findings
from tests.ui.browser.await_equal import await_equal
from tests.ui.browser.conftest import PHONE, OpenPage
from tests.ui.browser.recount import Recount
from tests.ui.browser.shown_pages import shown_queue, shown_tree

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(KUBECTL is None and os.environ.get("CI") != "true", reason="kubectl is not on PATH"),
]

EVICTIONS = "/api/decisions?kind=evict&limit=500"
LONG = 60_000  # milliseconds: clusters take their time on a busy machine


@pytest.fixture(scope="module")
def cluster(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Showcase]:
    """With a browser first: without one, no cluster is started in vain."""
    with showcase(tmp_path_factory.mktemp("showcase")) as started:
        yield started


@pytest.fixture(scope="module")
def taken_back(cluster: Showcase) -> Showcase:
    """The cluster after science took back its part, for tests that do not watch that happen."""
    if not taken_by_science(cluster.get(EVICTIONS)):
        cluster.apply("owners.yaml")
    cluster.await_document(EVICTIONS, taken_by_science)
    cluster.await_document("/api/jobs/science/atlas", lambda job: job["job"]["tasks"]["waiting"] == 14)
    return cluster


@pytest.fixture(scope="module")
def recorded(taken_back: Showcase) -> Showcase:
    """The same, once its scheduler has written the first points of the history."""
    taken_back.await_document("/api/queues/root/history?range=hour", lambda found: found["times"])
    return taken_back


def row(page: Page, path: str) -> Any:
    return page.locator(f"[data-path='{path}']")


def test_a_weight_changed_by_kubectl_is_seen_without_a_reload(cluster: Showcase, open_page: OpenPage) -> None:
    page = open_page(cluster.page)
    weight = row(page, "root/ads/models").locator(".c-weight")
    expect(weight).to_have_text(re.compile(r"^1\b"))
    page.evaluate("window.stays = true")
    hierarchy = cluster.kubectl.object("queue", "root")["spec"]["hierarchy"]
    ads = next(entry for entry in hierarchy if entry["name"] == "ads")
    models = next(entry for entry in ads["hierarchy"] if entry["name"] == "models")
    models["parameters"] = [{"name": "weight", "value": 3}]
    cluster.kubectl("patch", "queue", "root", "--type=merge", "-p", _patch(hierarchy))
    expect(weight).to_have_text(re.compile(r"^3\b"), timeout=LONG)
    models["parameters"] = [{"name": "weight", "value": 1}]
    cluster.kubectl("patch", "queue", "root", "--type=merge", "-p", _patch(hierarchy))
    expect(weight).to_have_text(re.compile(r"^1\b"), timeout=LONG)
    assert page.evaluate("window.stays")


def test_an_eviction_is_seen_as_it_happens_with_both_sides(cluster: Showcase, open_page: OpenPage) -> None:
    page = open_page(cluster.page + "/decisions?kind=evict&text=science")
    expect(page.get_by_text("No decision matches")).to_be_visible()
    cluster.apply("owners.yaml")
    eviction = page.locator(".decision.evict").first
    expect(eviction).to_contain_text("science/", timeout=LONG)
    decision = taken_by_science(cluster.await_document(EVICTIONS, taken_by_science))[-1]
    last = page.locator(".decision.evict").last
    expect(last).to_contain_text(decision["task"])
    expect(last).to_contain_text(decision["preemptor"])
    sides = last.locator(".sides")
    expect(sides).to_contain_text(decision["sides"]["ancestor"])
    expect(sides).to_contain_text("science takes")
    assert len(sides.locator("td.num").all_inner_texts()) == 4


def test_every_number_of_the_tree_is_counted_from_the_objects(taken_back: Showcase, open_page: OpenPage) -> None:
    page = open_page(taken_back.page)
    expect(row(page, "root")).to_be_visible()
    await_equal(lambda: shown_tree(page), lambda: Recount(taken_back.objects()).tree_page())


def test_every_number_of_a_queue_is_counted_from_the_objects(recorded: Showcase, open_page: OpenPage) -> None:
    page = open_page(recorded.page + "/queues/ads")
    expect(page.get_by_role("region", name="Amounts by resource")).to_be_visible()
    await_equal(lambda: shown_queue(page), lambda: Recount(recorded.objects()).queue_page("ads"))


def test_the_page_of_a_job_answers_as_pumice_why(taken_back: Showcase, open_page: OpenPage) -> None:
    page = open_page(taken_back.page + "/jobs/science/atlas")
    command = [sys.executable, "-m", "pumice", "why", "--kubeconfig", str(taken_back.kubectl.kubeconfig)]
    said = run_process([*command, "-n", "science", "atlas"], capture_output=True, text=True, check=True).stdout
    expect(page.locator(".verdict")).to_have_text(said.splitlines()[0], timeout=LONG)
    expect(page.locator(".path-level")).not_to_have_count(0)
    expect(page.locator(".path-row.ours").first).to_contain_text("science")
    expect(page.get_by_role("region", name="Tasks")).to_contain_text("atlas-worker-7")
    expect(page.get_by_role("region", name="Events")).to_contain_text("14 tasks together")
    assert grave_findings(page) == []


def test_the_page_of_a_queue_shows_jobs_users_history_and_flows(recorded: Showcase, open_page: OpenPage) -> None:
    page = open_page(recorded.page + "/queues/models")
    expect(page.get_by_role("heading", level=1)).to_contain_text("models")
    expect(page.get_by_role("region", name="Jobs")).to_contain_text("ranking")
    expect(page.get_by_role("region", name="Users")).to_contain_text("model-trainer")
    expect(page.get_by_role("region", name="Namespaces")).to_contain_text("ads")
    expect(page.locator(".flow")).to_contain_text("Borrows from")
    expect(page.locator(".chart canvas")).to_be_visible(timeout=LONG)
    page.get_by_role("group", name="Range").get_by_role("button", name="Day").click()
    expect(page).to_have_url(re.compile("range=day"))
    assert grave_findings(page) == []


def test_jobs_are_filtered_by_the_address_and_by_the_fields(taken_back: Showcase, open_page: OpenPage) -> None:
    page = open_page(taken_back.page + "/jobs?queue=science")
    rows = page.locator(".jobs tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_label("User").select_option("atlas-builder")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("atlas")
    page.get_by_role("link", name="atlas").click()
    expect(page).to_have_url(re.compile("/jobs/science/atlas$"))
    page.go_back()
    expect(rows).to_have_count(1)


def test_a_node_shows_which_queues_are_on_it(taken_back: Showcase, open_page: OpenPage) -> None:
    page = open_page(taken_back.page + "/nodes")
    expect(page.locator(".map a")).to_have_count(12)
    page.get_by_role("link", name=re.compile("node-003")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("node-003")
    expect(page.get_by_role("region", name="Pods on the node").locator("tbody tr")).not_to_have_count(0)


def test_the_slider_shows_the_tree_before_the_owners_came(taken_back: Showcase, open_page: OpenPage) -> None:
    page = open_page(taken_back.page + "/then")
    science = row(page, "root/science").locator(".c-used")
    expect(science).not_to_have_text("0%", timeout=LONG)
    page.get_by_role("slider", name="Time").focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile("time="))
    expect(science.filter(has_text=re.compile("^[1-9]"))).to_have_count(0, timeout=LONG)
    expect(row(page, "root")).to_be_visible()
    page.goto(f"{taken_back.page}/then?time={moment_before_science(taken_back)}")
    expect(science).to_have_text("0%", timeout=LONG)
    expect(row(page, "root/ads").locator(".c-used")).not_to_have_text("0%")
    assert grave_findings(page) == []


def test_the_pages_fit_a_phone(recorded: Showcase, open_page: OpenPage) -> None:
    page = open_page(recorded.page, size=PHONE)
    for path in ("/", "/queues/models", "/jobs/science/atlas", "/nodes", "/decisions", "/then"):
        page.goto(recorded.page + path)
        expect(page.locator("main h1").first).to_be_attached(timeout=LONG)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_a_lost_server_is_shown_and_the_page_comes_back(
    taken_back: Showcase, open_page: OpenPage, errors: list[PageErrors]
) -> None:
    page = open_page(taken_back.page)
    state = page.locator("[data-connection]")
    expect(state).to_have_attribute("data-connection", "live")
    os.kill(taken_back.child_process("ui"), signal.SIGKILL)
    expect(state).to_have_attribute("data-connection", "lost", timeout=LONG)
    expect(state).to_contain_text("Connection lost")
    expect(state).to_have_attribute("data-connection", "live", timeout=LONG)
    expect(state).to_be_hidden()
    errors[0].expect_lost_connections()


def _patch(hierarchy: Any) -> str:
    return json.dumps({"spec": {"hierarchy": hierarchy}})
