"""The console in a real browser: scripts, drawing, keys, themes, and nothing that leaves the machine."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright

from discreet.errors import InvalidInput
from discreet.priors.syntax import parse_shapes, parse_weights
from discreet.query import parse_sql
from discreet.schema import Schema, load_schema, schema_to_public_json
from discreet.service.app import make_app
from discreet.service.jobs import run_job_loop
from discreet.service.middleware.auth import COOKIE_NAME
from discreet.service.store import Store
from discreet.service.store.tokens import create_token, find_token, sign_in
from support import external_services
from support.inprocess_service import build_config

ASK = "/console/datasets/registry"
EMPTY = "/console/assets/mark.svg"
"""Nothing runs there."""
WHO = (("ann", "analyst", ("registry",)), ("bob", "analyst", ()), ("cus", "custodian", ()))
GRAVE = {"serious", "critical"}
AXE = Axe().axe_script
VIOLATIONS = "async (options) => (await axe.run(document, options)).violations"
THEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 360, "height": 740}
PATIENCE = 120_000
"""Milliseconds: a slow machine is not a failed test."""
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser(chromium: external_services.Chromium) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium.path, args=list(external_services.CHROMIUM_FLAGS))
        yield opened
        opened.close()


@dataclass
class Seen:
    """What a page did that it should not have."""

    home: str
    faults: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Note errors of scripts, refusals by the content security policy, failures, and what leaves the machine."""
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("console", self._record_message)
        page.on("request", lambda request: self._asked(request.url))
        page.on("response", lambda reply: self._failed(reply.status, reply.url))

    def _record_message(self, message: Any) -> None:
        # A refusal is a reply like any other; the browser calls every one an error.
        if message.type in {"error", "warning"} and not message.text.startswith("Failed to load resource"):
            self.faults.append(f"console: {message.text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.home, "data:")):
            self.faults.append(f"left: {url}")

    def _failed(self, status: int, url: str) -> None:
        if status >= 500 or status == 404:
            self.faults.append(f"{status}: {url}")


@dataclass
class Live:
    """A service on this machine, its tokens, and pages that are watched."""

    home: str
    tokens: dict[str, str]
    store: Store
    registry: Schema
    browser: Browser
    seen: Seen
    contexts: list[BrowserContext] = field(default_factory=list)

    @property
    def schema(self) -> dict[str, Any]:
        """What pages know of it."""
        return schema_to_public_json(self.registry)

    def page(self, who: str | None, at: str = "/console/", width: int = 1280, **options: Any) -> Page:
        """A new browser profile at a page, with the cookie of somebody who has signed in."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, base_url=self.home, **options)
        self.contexts.append(context)
        context.set_default_timeout(PATIENCE)
        if who is not None:
            self.admit(context, who)
        page = context.new_page()
        self.seen.watch(page)
        page.goto(at)
        return page

    def admit(self, context: BrowserContext, who: str) -> None:
        """Give a browser somebody's cookie."""
        token = find_token(self.store, self.tokens[who])
        assert token is not None
        context.add_cookies([{"name": COOKIE_NAME, "value": sign_in(self.store, token), "url": self.home}])

    def analyst(self) -> str:
        """Somebody who may ask and never did."""
        name = f"analyst{len(self.tokens)}"
        self.tokens[name] = create_token(self.store, name, "analyst", 30, ("registry",))[1]
        return name

    def close(self) -> None:
        for context in self.contexts:
            context.close()


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, dict[str, str], Store]]:
    """A service that answers and runs jobs until it is told to stop, with room for many analysts."""
    config = build_config(folder, padding=True, deadline=0.05)
    schema = folder / "registry.yaml"
    schema.write_text(schema.read_text().replace("epsilon: 3,", "epsilon: 1000,"))
    app = make_app(config)
    tokens = {name: create_token(app.service.store, name, role, 30, datasets)[1] for name, role, datasets in WHO}
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # who comes before it is served waits
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none"))
        stopping = threading.Event()
        threads = [
            threading.Thread(target=server.run, kwargs={"sockets": [listening]}),
            threading.Thread(target=run_job_loop, args=(config, stopping.is_set)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", tokens, app.service.store
        finally:
            server.should_exit = True
            stopping.set()
            for thread in threads:
                thread.join()


@contextmanager
def watched_service(browser: Browser, folder: Path) -> Iterator[Live]:
    """A service whose pages must do nothing that they should not."""
    with running(folder) as (home, tokens, store):
        seen = Seen(home)
        live_console = Live(home, tokens, store, load_schema(folder / "registry.yaml"), browser, seen)
        yield live_console
        live_console.close()
    assert seen.faults == []


@pytest.fixture
def live(browser: Browser, tmp_path: Path) -> Iterator[Live]:
    """A service of the test's own."""
    with watched_service(browser, tmp_path) as live_console:
        yield live_console


@dataclass(frozen=True)
class Desk:
    """A service and a browser's page that several tests use, each as an analyst of its own."""

    live: Live
    page: Page

    @classmethod
    @contextmanager
    def opened(cls, browser: Browser, folder: Path) -> Iterator[Desk]:
        with watched_service(browser, folder) as live:
            yield cls(live, live.page(None, EMPTY))

    @contextmanager
    def taken(self) -> Iterator[str]:
        """As if page and profile were new, with the cookie of a new analyst; nothing that it should not do is done."""
        self.page.goto(EMPTY)
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.context.clear_cookies()
        analyst = self.live.analyst()
        self.live.admit(self.page.context, analyst)
        self.live.seen.faults.clear()
        yield analyst
        self.page.goto(EMPTY)  # what is said on leaving counts too
        self.page.unroute_all()
        assert self.live.seen.faults == []


@pytest.fixture(scope="module")
def looked_at(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with Desk.opened(browser, tmp_path_factory.mktemp("unspent")) as desk:
        yield desk


@pytest.fixture(scope="module")
def asking_desk(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with Desk.opened(browser, tmp_path_factory.mktemp("spent")) as desk:
        yield desk


@pytest.fixture
def unspent(looked_at: Desk) -> Iterator[Live]:
    """A service that several tests look at, and none asks."""
    with looked_at.taken():
        yield looked_at.live


@pytest.fixture
def page(unspent: Live, looked_at: Desk) -> Page:
    """Where an analyst asks; the test only looks."""
    looked_at.page.goto(ASK)
    assert unspent is looked_at.live
    return looked_at.page


@pytest.fixture
def analyst(asking_desk: Desk) -> Iterator[str]:
    """A new analyst of a service that several tests ask, each its own questions, since answers are stored."""
    with asking_desk.taken() as name:
        yield name


@pytest.fixture
def asking(analyst: str, asking_desk: Desk) -> Page:
    """Where this analyst asks."""
    assert analyst in asking_desk.live.tokens
    asking_desk.page.goto(ASK)
    return asking_desk.page


def draw(page: Page, points: tuple[tuple[float, float], ...]) -> None:
    """Pull the bars with the mouse, along points that are shares of the area."""
    area = page.locator("[data-part=area] svg")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=8)
    page.mouse.up()


def ask(page: Page, question: str, prior: str = "", size: str = "0.1", place: str = ASK) -> None:
    """Ask as a person would who types."""
    page.goto(place)
    page.fill("#question", question)
    page.fill("#prior", prior)
    page.fill("#size", size)
    page.click("#preview button.main")
    page.wait_for_url("**/answers/*")


def preview_question(page: Page) -> None:
    expect(page.locator("#preview [data-slot=status]")).to_contain_text("Nothing was charged")


def test_a_prior_is_drawn_previewed_asked_and_seen(asking: Page, analyst: str) -> None:
    page = asking
    page.goto("/console/")
    page.wait_for_url("**/datasets")
    page.click("a.main")
    page.click("text=Add a condition")
    page.select_option(".filter select >> nth=0", "smoker")
    expect(page.locator("#question")).to_have_value("SELECT COUNT(*) FROM registry WHERE smoker = TRUE")
    page.fill("#prior-to", "300")
    page.locator("#prior-to").blur()
    draw(page, ((0.1, 0.8), (0.3, 0.2), (0.5, 0.8)))
    expect(page.locator("#prior")).to_have_value(re.compile(r"^\d+ uniform\(.*\) \+ .* uniform$"))
    expect(page.locator("[data-part=reading]")).to_contain_text("The planner reads it: you believe it to be about ")
    preview_question(page)
    expect(page.locator("[data-slot=cost]")).to_have_text("epsilon 0.1")
    expect(page.locator("[data-slot=times]")).to_have_text("10")
    expect(page.locator("[data-slot=mechanism]")).to_have_text("discrete Laplace")
    expect(page.locator("[data-slot=alone]")).to_contain_text("without asking")
    page.click("#preview button.main")
    page.wait_for_url("**/answers/*")
    expect(page.locator("#headline")).to_have_text(re.compile(r"^-?[\d,]+$"))
    expect(page.locator(".meaning")).to_contain_text("You believed it to be about")
    page.wait_for_selector("[data-picture][data-drawn]")
    assert page.locator("[data-picture] svg.marks path").count() > 3
    expect(page.locator("svg.meter >> nth=1")).to_have_attribute(
        "aria-label", f"{analyst}: epsilon 0.1 of 1 is spent, 0.9 is left"
    )


def test_a_typed_prior_is_drawn(page: Page) -> None:
    page.fill("#question", "SELECT AVG(income) FROM registry WHERE sex = 'F'")
    page.fill("#prior", "normal(30000, 4000)")
    expect(page.locator("[data-part=reading]")).to_contain_text("about 30,000")
    heights = page.locator(".bin").evaluate_all("bins => bins.map((bin) => Number(bin.getAttribute('aria-valuenow')))")
    middle = max(range(len(heights)), key=heights.__getitem__)
    assert max(heights) == 90
    assert abs(middle - len(heights) / 2) <= 2
    page.fill("#prior", "normal(30000")
    expect(page.locator("[data-part=reading]")).to_contain_text("the prior could not be read")


def test_a_drawing_changes_only_what_it_is_drawn_over(page: Page) -> None:
    """A stroke over half the area leaves the other half as the typed prior had it."""
    page.fill("#question", "SELECT COUNT(*) FROM registry WHERE smoker")
    page.fill("#prior", "normal(120, 20)")
    expect(page.locator("[data-part=reading]")).to_contain_text("about 120")
    read = "bins => bins.map((bin) => Number(bin.getAttribute('aria-valuenow')))"
    before = page.locator(".bin").evaluate_all(read)
    draw(page, ((0.7, 0.5), (0.9, 0.5)))
    after = page.locator(".bin").evaluate_all(read)
    half = len(before) // 2
    assert after[:half] == before[:half]
    assert after[half:] != before[half:]
    expect(page.locator("#prior")).to_have_value(re.compile("uniform"))


def test_other_bars_keep_what_was_drawn_and_what_was_typed(page: Page) -> None:
    page.fill("#question", "SELECT COUNT(*) FROM registry WHERE smoker")
    page.click("text=Start with a bell")
    drawn_prior = page.input_value("#prior")
    page.select_option("#prior-bins", "16")
    read = "bins => bins.map((bin) => Number(bin.getAttribute('aria-valuenow')))"
    heights = page.locator(".bin").evaluate_all(read)
    assert (len(heights), max(heights)) == (16, 90)
    assert page.input_value("#prior") not in {"", drawn_prior}
    page.fill("#prior", "normal(120, 20)")
    expect(page.locator("[data-part=reading]")).to_contain_text("about 120")
    page.select_option("#prior-bins", "8")
    assert len(page.locator(".bin").all()) == 8
    expect(page.locator("#prior")).to_have_value("normal(120, 20)")


def press_until(page: Page, wanted: str, most: int = 80) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(most):
        if page.evaluate("wanted => document.activeElement?.matches(wanted)", wanted):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} cannot be reached by the keyboard")


def test_a_question_is_asked_by_the_keyboard_alone(asking_desk: Desk, analyst: str) -> None:
    page = asking_desk.live.page(None)
    page.keyboard.type(asking_desk.live.tokens[analyst])
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets")
    press_until(page, "a.main")
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets/registry")
    press_until(page, "#question")
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT COUNT(*) FROM registry WHERE hosp")
    expect(page.locator("#question-list [role=option]")).to_have_count(1)
    assert grave(page) == []
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type(" = 'Al")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#question")).to_have_value("SELECT COUNT(*) FROM registry WHERE hospital = 'Alder'")
    press_until(page, ".bin")
    for key in ("ArrowRight", "ArrowRight", "PageUp", "PageUp", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    focused = page.locator(".bin:focus")
    expect(focused).to_have_attribute("role", "slider")
    expect(focused).to_have_attribute(
        "aria-valuetext", re.compile(r"weight 5 of 100, \d+(\.\d)? % of what you believe")
    )
    preview_question(page)
    press_until(page, "#preview button.main")
    page.keyboard.press("Enter")
    page.wait_for_url("**/answers/*")
    expect(page.locator("#asked")).to_have_text("SELECT COUNT(*) FROM registry WHERE hospital = 'Alder'")


def test_running_out_of_budget_is_a_plain_alert(asking: Page) -> None:
    page = asking
    ask(page, "SELECT COUNT(*) FROM registry WHERE age > 60", size="0.9")
    page.goto(ASK)
    page.fill("#question", "SELECT COUNT(*) FROM registry WHERE age < 40")
    page.fill("#size", "0.2")
    preview_question(page)
    expect(page.locator("[data-slot=times]")).to_have_text("0")
    expect(page.locator("[data-slot=note]")).to_contain_text("What is left does not pay for this")
    expect(page.locator("[data-slot=ask]")).to_have_attribute("aria-disabled", "true")
    page.click("#preview button.main", force=True)
    alert = page.locator("[role=alert]")
    expect(alert).to_contain_text("0.2")
    expect(page.locator("#question")).to_have_value("SELECT COUNT(*) FROM registry WHERE age < 40")
    assert page.locator("[role=alert]").count() == 1
    assert grave(page) == []


def test_a_mistake_is_marked_below_the_sql_as_it_is_typed(asking: Page) -> None:
    """The line with its carets, as text; it goes when the mistake is corrected."""
    page = asking
    mistake, question = page.locator("#mistake"), page.locator("#question")
    expect(mistake).to_be_hidden()
    page.fill("#question", "SELECT COUNT(*)\nFROM registry WHERE agee <> '<b>'")
    expect(mistake.locator("pre")).to_have_text("FROM registry WHERE agee <> '<b>'\n                    ^^^^")
    expect(mistake.locator("p")).to_contain_text("did you mean 'age'?")
    expect(question).to_have_attribute("aria-invalid", "true")
    expect(question).to_have_accessible_description(re.compile("agee.*did you mean"))
    assert grave(page) == []
    page.fill("#question", "SELECT COUNT(*) FROM registry WHERE age > 3")
    expect(mistake).to_be_hidden()
    expect(question).to_have_attribute("aria-invalid", "false")


def test_enter_in_a_field_asks_nothing_and_the_stored_answer_is_free(asking: Page) -> None:
    """Enter looks again; Ctrl+Enter in the SQL asks; the preview of what is stored says so."""
    page = asking
    page.fill("#question", "SELECT COUNT(*) FROM registry WHERE age > 50")
    for place in ("#size", "#prior-to"):
        page.press(place, "Enter")
        preview_question(page)
    assert page.url.endswith(ASK)
    assert page.request.get("/v1/datasets/registry/history").json()["history"] == []
    page.press("#question", "Control+Enter")
    page.wait_for_url("**/answers/*")
    page.go_back()
    expect(page.locator("[data-slot=times]")).to_have_text("free: it is stored")
    expect(page.locator("[data-slot=ask]")).to_have_attribute("aria-disabled", "false")
    page.click("text=More to say")
    page.check("[name=fresh]")
    expect(page.locator("[data-slot=cost]")).to_have_text("epsilon 0.1")
    expect(page.locator("[data-slot=times]")).to_have_text("9")


def test_a_question_that_is_left_is_found_again(asking: Page) -> None:
    """Going to the rehearsal, to an answer and back keeps conditions, noise and prior; signing out forgets them."""
    page = asking
    page.click("text=Add a condition")
    page.select_option(".filter select >> nth=0", "hospital")
    page.select_option(".filter .values select", "Birch")
    page.select_option("#how", "accuracy")
    expect(page.locator("#size")).to_have_value("±50 at 95%")
    page.fill("#prior", "normal(100, 20)")
    page.click("text=Rehearse")
    page.wait_for_url("**/rehearsal/**")
    _is_as_left(page)
    page.click("#preview button.main")
    page.wait_for_url("**/answers/*")
    page.go_back()
    _is_as_left(page)
    page.click("text=In rehearsal")
    page.wait_for_url(f"**{ASK}")
    _is_as_left(page)
    assert page.evaluate("sessionStorage.length") == 1
    page.click("text=Sign out")
    expect(page.locator("h1")).to_have_text("Sign in")
    assert page.evaluate("sessionStorage.length") == 0


def _is_as_left(page: Page) -> None:
    expect(page.locator("#question")).to_have_value("SELECT COUNT(*) FROM registry WHERE hospital = 'Birch'")
    expect(page.locator(".filter .values select")).to_have_value("Birch")
    expect(page.locator("#how")).to_have_value("accuracy")
    expect(page.locator("#size")).to_have_value("±50 at 95%")
    expect(page.locator("#prior")).to_have_value("normal(100, 20)")


def test_a_question_like_another_wins_over_what_was_left(asking: Page) -> None:
    page = asking
    ask(page, "SELECT COUNT(*) FROM registry WHERE age > 30")
    answered = page.url
    page.goto(ASK)
    page.fill("#question", "SELECT AVG(age) FROM registry")
    page.goto(answered)
    page.click("text=Ask something like it")
    expect(page.locator("#question")).to_have_value("SELECT COUNT(*) FROM registry WHERE age > 30")
    page.fill("#size", "0.05")
    page.click("text=Rehearse")
    page.wait_for_url("**/rehearsal/**")
    page.go_back()
    expect(page.locator("#size")).to_have_value("0.05")


def test_a_preview_says_what_its_error_is_of_and_what_is_public(page: Page) -> None:
    expect(page.locator("[data-slot=note]")).to_have_text("This number is public: nothing is spent.")
    expect(page.locator("[data-slot=error]")).to_have_text("none")
    page.fill("#question", "SELECT COUNT(*) FROM registry WHERE smoker")
    expect(page.locator("[data-slot=of]")).to_have_text("of the raw answer")
    expect(page.locator("[data-slot=note]")).to_be_hidden()
    page.fill("#prior", "normal(100, 20)")
    expect(page.locator("[data-slot=of]")).to_contain_text("of what you will know")
    page.fill("#prior", "")
    page.fill("#question", "SELECT HISTOGRAM(age, 37) FROM registry")
    expect(page.locator("[data-slot=of]")).to_have_text("of a range, on average over all ranges")
    page.fill("#size", "much")
    expect(page.locator("[data-slot=problem]")).to_be_visible()
    page.fill("#size", "")
    expect(page.locator("[data-slot=problem]")).to_be_hidden()


def test_ends_of_a_drawing_that_make_no_line_change_nothing(page: Page) -> None:
    page.fill("#question", "SELECT COUNT(*) FROM registry WHERE smoker")
    page.click("text=Start with a bell")
    drawn_prior = page.input_value("#prior")
    for end, words in (("-5", "From must be below To"), ("many", "To must be a number"), ("", "To must be a number")):
        page.fill("#prior-to", end)
        page.locator("#prior-to").blur()
        expect(page.locator("[data-part=ends]")).to_contain_text(words)
        assert page.input_value("#prior") == drawn_prior
    page.fill("#prior-to", "300")
    page.locator("#prior-to").blur()
    expect(page.locator("[data-part=ends]")).to_be_hidden()
    page.locator(".bin").first.hover()
    expect(page.locator(".readout")).to_contain_text("weight")
    page.click("text=Clear")
    expect(page.locator(".readout")).not_to_contain_text("weight")
    expect(page.locator("#prior")).to_have_value("")


def test_a_name_that_was_refused_is_not_told_of_while_another_is_kept(page: Page) -> None:
    page.fill("#prior", "normal(100, 20)")
    page.click("text=Kept priors")
    page.fill("#prior-name", "no name")
    page.click("[data-part=keep]")
    expect(page.locator("[data-part=kept]")).not_to_be_empty()
    page.route("**/v1/priors/**", lambda _: None)  # no reply yet
    page.fill("#prior-name", "survey")
    page.click("[data-part=keep]")
    expect(page.locator("[data-part=kept]")).to_be_empty()


def test_nothing_is_cut_off_on_a_phone(live: Live) -> None:
    """The picture and rows with buttons are as wide as what they are in; the preview has no scroll bar of its own."""
    page = live.page("ann", ASK, width=390)
    ask(page, "SELECT COUNT(*) FROM registry WHERE smoker", "normal(100, 20)")
    page.wait_for_selector("[data-drawn]")
    wide = "one => one.scrollWidth <= one.clientWidth"
    assert page.eval_on_selector("[data-part=canvas]", wide)
    assert "95 %" not in page.inner_text("[data-part=canvas]")
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.locator("[data-part=canvas]")).to_contain_text("95 %")
    page.goto(ASK)
    preview_question(page)
    assert page.eval_on_selector("aside", "one => getComputedStyle(one).overflowY") == "visible"
    cus = live.page("cus", "/console/custodian", width=390)
    for path in ("", "/access", "/datasets/registry"):
        cus.goto(f"/console/custodian{path}")
        assert all(cus.eval_on_selector_all(".scroll", f"them => them.map({wide})")), path


def test_the_custodian_grants_and_revokes(live: Live) -> None:
    cus, bob = live.page("cus"), live.page("bob")
    expect(bob.locator("main")).to_contain_text("No data set is granted to you yet")
    cus.click("nav >> text=Access")
    switch = cus.get_by_role("switch", name="bob may ask registry")
    expect(switch).to_have_attribute("aria-checked", "false")
    switch.click()
    expect(cus.get_by_role("switch", name="bob may ask registry")).to_have_attribute("aria-checked", "true")
    ask(bob, "SELECT COUNT(*) FROM registry WHERE smoker")
    cus.get_by_role("switch", name="bob may ask registry").click()
    expect(cus.get_by_role("switch", name="bob may ask registry")).to_have_attribute("aria-checked", "false")
    live.seen.faults.clear()
    bob.goto(ASK)
    expect(bob.locator("[role=alert]")).to_contain_text("There is nothing here that you may see")
    assert all(fault.startswith("404") for fault in live.seen.faults)
    live.seen.faults.clear()
    cus.get_by_role("row", name="bob").get_by_role("button", name="Revoke").click()
    expect(cus.get_by_role("row", name="bob").last).to_contain_text("revoked")
    bob.goto("/console/datasets")
    expect(bob.locator("h1")).to_have_text("Sign in")


def test_a_new_token_is_shown_copied_and_works(live: Live) -> None:
    cus = live.page("cus", "/console/custodian/access", permissions=["clipboard-read", "clipboard-write"])
    cus.fill("#analyst", "eve")
    cus.check("[name=datasets][value=registry]")
    cus.click("text=Make a token >> nth=-1")
    secret = cus.text_content("#secret")
    assert grave(cus) == []
    cus.click("[data-copy=secret]")
    expect(cus.locator("[data-copy=secret]")).to_have_text("Copied")
    assert cus.evaluate("navigator.clipboard.readText()") == secret
    eve = live.page(None)
    eve.fill("#token", str(secret))
    eve.click("main button")
    eve.wait_for_url("**/console/datasets")
    expect(eve.locator("main")).to_contain_text("registry")


def test_a_rehearsal_is_like_the_real_thing_and_costs_nothing(asking: Page, analyst: str) -> None:
    page = asking
    page.click("text=Rehearse")
    expect(page.locator(".banner")).to_contain_text("the table is made up, and nothing is charged")
    ask(page, "SELECT COUNT(*) FROM registry WHERE smoker", "normal(100, 20)", "5", page.url)
    page.wait_for_selector("[data-picture][data-drawn]")
    page.goto("/console/datasets")
    expect(page.locator("svg.meter >> nth=1")).to_have_attribute(
        "aria-label", f"{analyst}: epsilon 0 of 1 is spent, 1 is left"
    )


def test_a_file_is_published_and_its_page_waits_for_it(live: Live) -> None:
    page = live.page("cus", "/console/custodian/datasets/registry/publish")
    page.fill("#epsilon", "1")
    for name in ("age", "sex"):
        page.check(f"[name=columns][value={name}]")
    page.check("[name=sure]")
    page.click("button:text-is('Publish')")
    page.wait_for_url("**/console/jobs/*")
    with page.expect_download() as fetched:
        page.click("text=report.html")
    assert b"<html" in Path(fetched.value.path()).read_bytes()
    assert grave(page) == []


def test_answers_are_compared_downloaded_and_copied(asking_desk: Desk, analyst: str) -> None:
    page = asking_desk.live.page(analyst, ASK, permissions=["clipboard-read", "clipboard-write"])
    ask(page, "SELECT COUNT(*) FROM registry WHERE age > 35", "normal(100, 20)")
    ask(page, "SELECT hospital, COUNT(*) FROM registry GROUP BY hospital")
    expect(page.locator("svg.inline-bar")).to_have_count(9)
    for name in ("JSON", "CSV"):
        with page.expect_download() as fetched:
            page.click(f"a[download]:has-text('{name}')")
        assert b"COUNT(*)" in Path(fetched.value.path()).read_bytes()
    page.click("text=As Python")
    page.click("[data-copy=as-python]")
    expect(page.locator("[data-copy=as-python]")).to_have_text("Copied")
    assert "client.answer(" in page.evaluate("navigator.clipboard.readText()")
    ask(page, "SELECT COUNT(*) FROM registry WHERE age < 35")
    page.click("nav >> text=History")
    expect(page.locator("tbody input")).to_have_count(3)
    for box in page.locator("tbody input").all():
        box.check()
    page.click("text=Compare those ticked")
    expect(page.locator("section.card")).to_have_count(3)


def test_the_theme_that_was_chosen_stays(unspent: Live) -> None:
    page = unspent.page("ann", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("text=Dark theme")
    dark = page.evaluate(ground)
    assert dark != light
    page.goto(ASK)
    assert page.evaluate(ground) == dark
    expect(page.locator("[data-theme-toggle]")).to_have_attribute("aria-pressed", "true")


def test_an_explanation_is_one_click_away(page: Page) -> None:
    page.get_by_role("button", name="What epsilon buys: an explanation").first.click()
    expect(page.get_by_role("dialog", name="What epsilon buys")).to_be_visible()
    assert grave(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="What epsilon buys")).to_be_hidden()
    page.get_by_role("button", name="What epsilon buys: an explanation").first.click()
    page.get_by_role("dialog", name="What epsilon buys").get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("What epsilon buys")
    expect(page.locator("main")).to_contain_text("52.5 %")


def test_a_browser_without_scripts_asks_too(asking_desk: Desk, analyst: str) -> None:
    page = asking_desk.live.page(analyst, ASK, java_script_enabled=False)
    page.fill("#question", "SELECT COUNT(*) FROM registry WHERE age > 45")
    page.press("#size", "Enter")
    page.wait_for_url("**/preview")
    expect(page.locator("[data-slot=mechanism]")).to_have_text("discrete Laplace")
    page.click("#preview button.main")
    page.wait_for_url("**/answers/*")
    expect(page.locator("#headline")).to_be_visible()


def test_every_page_is_accessible_in_both_themes_and_on_a_phone(live: Live) -> None:
    """axe finds nothing serious, and nothing is wider than a phone."""
    assert [wrong for page in every_page(live) for wrong in faults_of(page)] == []


@pytest.mark.soak
def test_pictures_of_every_page_can_be_looked_at(live: Live, tmp_path: Path) -> None:
    for at, page in enumerate(every_page(live)):
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.screenshot(path=tmp_path / f"{at}-{theme}-wide.png", full_page=True)
            page.set_viewport_size(PHONE)
            page.screenshot(path=tmp_path / f"{at}-{theme}-narrow.png", full_page=True)
            page.set_viewport_size(WIDE)


def every_page(live: Live) -> Iterator[Page]:
    """Each page of the console, for each who may see it, once it is drawn."""
    ann = live.page("ann", EMPTY)
    answers = []
    for question, prior in (
        ("SELECT COUNT(*) FROM registry WHERE smoker", "normal(100, 20)"),
        ("SELECT hospital, COUNT(*) FROM registry GROUP BY hospital", ""),
    ):
        ask(ann, question, prior)
        answers.append(ann.url.removeprefix(live.home))
    ids = "&".join(f"ids={one.rpartition('/')[2]}" for one in answers)
    mine = [*answers, ASK, f"{ASK}/history", f"{ASK}/compare?{ids}", "/console/datasets", "/console/explain/epsilon"]
    mine += ["/console/rehearsal/datasets/registry"]
    theirs = ["/console/custodian", "/console/custodian/access", "/console/custodian/datasets/registry?verify=yes"]
    theirs += ["/console/custodian/datasets/registry/publish"]
    for page, paths in ((live.page(None), ["/console/"]), (ann, mine), (live.page("cus", EMPTY), theirs)):
        for path in paths:
            page.goto(path)
            page.wait_for_load_state("networkidle")
            yield page


def grave(page: Page, **options: Any) -> list[str]:
    """What axe finds that keeps people from using a page."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    violations = page.evaluate(VIOLATIONS, {"resultTypes": ["violations"], **options})
    wrong = [one for one in violations if one["impact"] in GRAVE]
    return [f"{page.url}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in wrong]


def faults_of(page: Page) -> list[str]:
    """What is wrong with a page: all rules in one theme, and in the other those of colours, which is all it changes."""
    first, second = THEMES
    page.emulate_media(color_scheme=first)
    faults = grave(page)
    page.emulate_media(color_scheme=second)
    faults += grave(page, runOnly=["cat.color"])
    page.set_viewport_size(PHONE)
    if page.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
        faults.append(f"{page.url} is wider than a phone")
    page.set_viewport_size(WIDE)
    return faults


CHOSEN = [
    ({"aggregate": "COUNT"}, "SELECT COUNT(*) FROM registry"),
    ({"aggregate": "AVG", "column": "income"}, "SELECT AVG(income) FROM registry"),
    ({"aggregate": "QUANTILE", "column": "age", "number": "0.9"}, "SELECT QUANTILE(age, 0.9) FROM registry"),
    (
        {"aggregate": "COUNT", "group": "age", "width": "10"},
        "SELECT BIN(age, 10), COUNT(*) FROM registry GROUP BY BIN(age, 10)",
    ),
    (
        {"aggregate": "COUNT", "filters": [{"column": "chapters.chapter", "operator": "=", "values": ["cancer"]}]},
        "SELECT COUNT(*) FROM registry JOIN chapters USING (diagnosis) WHERE chapters.chapter = 'cancer'",
    ),
    (
        {
            "aggregate": "COUNT",
            "filters": [
                {"column": "age", "operator": "BETWEEN", "values": ["20", "30"]},
                {"column": "diagnosis", "operator": "IN", "values": ["cancer", "stroke"]},
                {"column": "smoker", "operator": "=", "values": ["true"]},
                {"column": "admitted", "operator": ">=", "values": ["2020-01-01"]},
                {"column": "bmi", "operator": "IS NULL", "values": []},
                {"column": "income", "operator": "BETWEEN", "values": ["5", ""]},
            ],
        },
        "SELECT COUNT(*) FROM registry WHERE age BETWEEN 20 AND 30 AND diagnosis IN ('cancer', 'stroke') "
        "AND smoker = TRUE AND admitted >= '2020-01-01' AND bmi IS NULL",
    ),
    (
        {"aggregate": "COUNT", "filters": [{"column": "sex", "operator": "=", "values": ["it's"]}]},
        "SELECT COUNT(*) FROM registry WHERE sex = 'it''s'",
    ),
]


def test_the_form_writes_sql_that_the_service_reads(page: Page, unspent: Live) -> None:
    script = """async ([chosen, schema]) => {
        const { AGGREGATES, sqlOf } = await import("/console/assets/question.js");
        const usual = { column: "", number: "", filters: [], group: "", width: "" };
        const aggregate = AGGREGATES.find((one) => one.name === chosen.aggregate);
        return sqlOf({ ...usual, ...chosen, aggregate }, schema);
    }"""
    for chosen, sql in CHOSEN:
        assert page.evaluate(script, [chosen, unspent.schema]) == sql
        if "it''s" in sql:
            with pytest.raises(InvalidInput, match="it's"):
                parse_sql(sql, unspent.registry)
        else:
            parse_sql(sql, unspent.registry)


PRIORS = [
    "COUNT(*)",
    "AVG(income)",
    "SUM(income)",
    "MEDIAN(age)",
    "MEDIAN(admitted)",
    "STDDEV(bmi)",
    "VAR(bmi)",
    "AVG(smoker)",
]


@pytest.mark.parametrize("what", [*PRIORS, "MODE(education)", "MODE(diagnosis)"])
def test_a_drawing_becomes_a_prior_that_the_service_reads(page: Page, unspent: Live, what: str) -> None:
    """Bars of every height, some of them 0: the text is read, and its law is the drawing."""
    page.fill("#question", f"SELECT {what} FROM registry WHERE age > 20")
    page.click("text=Start with a bell")
    prior_text = page.input_value("#prior")
    if what.startswith("MODE"):
        assert len(parse_weights(prior_text)) == len(unspent.schema["columns"][what[5:-1]]["categories"])
    else:
        assert len(parse_shapes(prior_text, dates="admitted" in what).terms) > 10
    expect(page.locator("[data-part=reading]")).to_contain_text("The planner reads it")
    preview_question(page)


def test_completions_fit_what_stands_before_them(page: Page, unspent: Live) -> None:
    script = """async ([before, schema]) => {
        const { suggestions, words } = await import("/console/assets/completion.js");
        return suggestions(before, schema, words(schema)).list.map((one) => one.show ?? one.text);
    }"""
    for before, first in (
        ("SELECT CO", "COUNT("),
        ("SELECT COUNT(*) FROM reg", "registry"),
        ("SELECT COUNT(*) FROM registry WHERE diag", "diagnosis"),
        ("SELECT COUNT(*) FROM registry WHERE hospital = '", "Alder"),
        ("SELECT COUNT(*) FROM registry WHERE hospital IN ('Alder', 'Bi", "Birch"),
        ("SELECT COUNT(*) FROM registry WHERE diagnosis = 'canc", "cancer"),
        ("SELECT COUNT(*) FROM registry WHERE hospital = ", "Alder"),
        ("SELECT COUNT(*) FROM registry WHERE hospital = bi", "Birch"),
        ("SELECT COUNT(*) FROM registry WHERE smoker = ", "TRUE"),
    ):
        assert page.evaluate(script, [before, unspent.schema])[0] == first
    for before in (
        "",
        "SELECT COUNT(*) FROM registry WHERE nothing = 'Al",
        "SELECT COUNT(*) FROM registry WHERE age = 'x",
    ):
        assert page.evaluate(script, [before, unspent.schema]) == []
