"""The pages over made-up documents: large clusters, hostile names, keyboard, phone width, colours, the sign-in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy

import pytest
from playwright.sync_api import expect

from tests.support.browser import PageErrors
from tests.ui.browser.accessibility import grave_findings
from tests.ui.browser.canned_server import NOW, CannedCluster, serve
from tests.ui.browser.conftest import PHONE, OpenPage, Serving

pytestmark = pytest.mark.browser

PATHS = ("/", "/queues/team-1", "/nodes", "/jobs", "/decisions", "/then")
SETTLE = "new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 300))"
WATCH = (
    "window.touched = 0; new MutationObserver((list) => { window.touched += list.length })"
    ".observe(document.querySelector('main'), {subtree: true, childList: true, attributes: true, characterData: true})"
)
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=1</script>&amp;"\'`${1}'


@pytest.fixture(scope="module")
def small() -> Iterator[str]:
    with serve(CannedCluster()) as address:
        yield address


def hostile_cluster() -> CannedCluster:
    """Every name and message that the cluster could choose tries to be markup."""
    cluster = CannedCluster(teams=1, queues=2, nodes=2, name=HOSTILE.replace("/", ""))
    for number, node in enumerate(cluster.nodes):
        node["name"] = f"{HOSTILE}{number}"
    cluster.queues[1]["conditions"] = [{"type": HOSTILE, "message": HOSTILE, "since": NOW}]
    cluster.queues[1]["state"] = HOSTILE
    counts = {"running": 0, "starting": 0, "waiting": 1, "succeeded": 0, "failed": 0, "minimum": 1}
    cluster.jobs = [
        {
            "key": "ns/job",
            "namespace": HOSTILE,
            "name": HOSTILE,
            "group": HOSTILE,
            "kind": HOSTILE,
            "queue": HOSTILE,
            "queuePath": HOSTILE,
            "user": HOSTILE,
            "phase": HOSTILE,
            "created": NOW,
            "started": None,
            "tasks": counts,
            "used": {},
            "waiting": {HOSTILE: 1},
            "share": 0,
            "priorityClass": HOSTILE,
            "reason": {"reason": HOSTILE, "message": HOSTILE, "since": NOW},
        }
    ]
    event = {"time": NOW, "type": "Warning", "reason": HOSTILE, "message": HOSTILE, "count": 1, "object": HOSTILE}
    cluster.events = [event]
    return cluster


def test_names_and_messages_stay_text(open_page: OpenPage, serving: Serving) -> None:
    address = serving(hostile_cluster())
    page = open_page(address)
    for path in ("/", "/jobs", "/jobs/ns/job", "/nodes", "/queues/root"):
        page.goto(address + path)
        expect(page.locator("main").get_by_text("<img src=x", exact=False).first).to_be_attached()
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
        assert "Pumice" in page.title()


def test_a_large_tree_keeps_few_rows_in_the_document_and_reaches_the_last(
    open_page: OpenPage, serving: Serving
) -> None:
    # 1 + 20 + 20 * 24 queues
    address = serving(CannedCluster(teams=20, queues=24, nodes=1000))
    page = open_page(address)
    grid = page.get_by_role("treegrid")
    expect(grid).to_have_attribute("aria-rowcount", "502")
    assert grid.get_by_role("row").count() < 60
    grid.locator("[role=row][tabindex='0']").focus()
    page.keyboard.press("End")
    expect(page.locator("[role=row]:focus")).to_have_attribute("data-path", "root/team-19/team-19-23")
    page.goto(address + "/nodes")
    expect(page.locator(".map a")).to_have_count(1000)


def test_an_update_of_a_large_cluster_touches_only_what_it_changes(open_page: OpenPage, serving: Serving) -> None:
    """What the browser has to do for an update is counted, since time says little on a shared machine."""
    cluster = CannedCluster(teams=20, queues=24, nodes=1000)
    address = serving(cluster)
    page = open_page(address)
    expect(page.get_by_role("treegrid")).to_be_visible()
    page.evaluate(SETTLE)  # the window takes its size from the first frame
    page.evaluate(WATCH)
    rows = [deepcopy(row) | {"weight": 100} for row in cluster.queues]
    cluster.change_tree(rows)  # all 501, of which some 30 are in the window
    expect(page.locator("[data-path='root/team-0'] .c-weight")).to_contain_text("100")
    assert page.evaluate("touched") < 100
    page.goto(address + "/nodes")
    expect(page.locator(".map a")).to_have_count(1000)
    page.evaluate(SETTLE)
    page.evaluate(WATCH)
    cluster.change_nodes([cluster.nodes[3] | {"tasks": 77}])
    expect(page.locator(".map a").nth(3)).to_have_attribute("title", re.compile("77 tasks"))
    assert page.evaluate("touched") <= 4


def test_an_event_changes_the_row_and_a_missed_one_fetches_the_tree(open_page: OpenPage, serving: Serving) -> None:
    cluster = CannedCluster()
    address = serving(cluster)
    page = open_page(address)
    weight = page.locator("[data-path='root/team-1'] .c-weight")
    expect(weight).to_contain_text("1")
    row = deepcopy(cluster.queues[6])
    assert row["path"] == "root/team-1"
    cluster.change_tree([row | {"weight": 7}])
    expect(weight).to_contain_text("7")
    cluster.version += 5  # as if events had been lost
    cluster.change_tree([row | {"weight": 9}])
    expect(weight).to_contain_text("9")


def test_the_tree_is_used_by_keyboard_alone(open_page: OpenPage, small: str) -> None:
    page = open_page(small)
    expect(page.get_by_role("treegrid")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the page")
    page.keyboard.press("/")
    expect(page.locator(":focus")).to_have_attribute("placeholder", "Find a queue")
    row = page.locator("[role=row]:focus")
    for _ in range(30):
        page.keyboard.press("Tab")
        if row.count():
            break
    expect(row).to_have_attribute("data-path", "root")
    page.keyboard.press("ArrowDown")
    expect(row).to_have_attribute("data-path", "root/team-0")
    page.keyboard.press("ArrowLeft")
    expect(row).to_have_attribute("aria-expanded", "false")
    assert "closed=root%2Fteam-0" in page.url
    page.keyboard.press("ArrowDown")
    expect(row).to_have_attribute("data-path", "root/team-1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("team-1")


def test_a_word_explains_itself_on_focus_and_closes_by_escape(open_page: OpenPage, small: str) -> None:
    page = open_page(small)
    word = page.get_by_role("button", name="Owed", exact=True)
    word.focus()
    bubble = page.get_by_role("tooltip")
    expect(bubble).to_contain_text("Entitled to, but not used yet")
    page.keyboard.press("Escape")
    expect(bubble).to_be_hidden()


def test_search_fold_and_sort_stand_in_the_address(open_page: OpenPage, small: str) -> None:
    page = open_page(small + "/?text=team-2-3")
    expect(page.locator(".tree-body [role=row]")).to_have_count(3)  # with the two queues above it
    page.get_by_placeholder("Find a queue").fill("team-1-")
    expect(page.locator(".tree-body [role=row]")).to_have_count(6)
    expect(page).to_have_url(re.compile(r"text=team-1-"))
    page.get_by_label("Sort by").select_option("used")
    expect(page).to_have_url(re.compile(r"sort=used"))


@pytest.mark.parametrize(("scheme", "rules"), [("light", []), ("dark", ["color-contrast"])])
def test_no_serious_accessibility_finding(open_page: OpenPage, small: str, scheme: str, rules: list[str]) -> None:
    page = open_page(small, color_scheme=scheme)
    for path in PATHS:
        page.goto(small + path)
        expect(page.locator("main h1").first).to_be_attached()
        assert grave_findings(page, rules) == [], path


def test_nothing_is_wider_than_a_phone(open_page: OpenPage, small: str) -> None:
    page = open_page(small, size=PHONE)
    for path in PATHS:
        page.goto(small + path)
        expect(page.locator("main h1").first).to_be_attached()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_dark_follows_the_system_and_the_switch(open_page: OpenPage, small: str) -> None:
    page = open_page(small, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Use light colours").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    expect(page.get_by_role("button", name="Use dark colours")).to_be_visible()
    assert page.evaluate(ground) == light


def test_an_unknown_page_and_an_unknown_queue_say_so(open_page: OpenPage, small: str, errors: list[PageErrors]) -> None:
    page = open_page(small + "/nowhere")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")
    page.goto(small + "/queues/nothing")
    expect(page.get_by_role("alert")).to_contain_text('Queue "nothing" not found')
    errors[0].expect("404")  # the browser's own line


def test_a_right_that_is_missing_is_named(open_page: OpenPage, serving: Serving, errors: list[PageErrors]) -> None:
    cluster = CannedCluster()
    cluster.forbidden = {"/api/nodes"}
    address = serving(cluster)
    page = open_page(address + "/nodes")
    expect(page.get_by_role("alert")).to_contain_text("you may not read this")
    errors[0].expect("403")


def test_a_server_that_wants_a_token_gets_one_by_the_form(
    open_page: OpenPage, serving: Serving, errors: list[PageErrors]
) -> None:
    cluster = CannedCluster()
    cluster.token = "open sesame"
    address = serving(cluster)
    page = open_page(address + "/nodes")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("the token is not valid")
    page.get_by_label("Token").fill("open sesame")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".map a")).to_have_count(16)
    page = open_page(address + "/nodes#token=open+sesame")
    expect(page.locator(".map a")).to_have_count(16)
    assert "token" not in page.url
    for watcher in errors:
        watcher.expect("401")
        watcher.expect_lost_connections()
