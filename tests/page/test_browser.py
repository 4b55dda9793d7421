"""The page in a browser: no error, no foreign request, axe's rules; and without scripts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

import projseg

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
IS_REQUIRED = os.environ.get("PROJSEG_BROWSER") == "required"
try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None
_LACKING = "Chromium" if CHROMIUM is None else "" if sync_playwright else "playwright"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(bool(_LACKING) and not IS_REQUIRED, reason=f"there is no {_LACKING}"),
]
VIEWS = ["/", "/t/edits", "/t/edits/projections", "/t/edits/columns", "/t/edits/segments",
         "/t/edits/history", "/t/edits/query", "/t/edits/queries", "/t/edits/advice",
         "/t/geo.places", "/t/empty", "/t/none"]  # fmt: skip


@contextmanager
def served(*words):
    """Yield the address that `projseg ui` prints; ctrl-C ends it and its workers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "projseg", "ui", *map(str, words), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process.stdout.readline().strip()
    process.send_signal(2)
    assert process.wait(20) == 130
    process.stdout.close()
    members = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, text=True, check=False
    )
    assert members.stdout.strip() == ""


@pytest.fixture(scope="module")
def address(folder, tmp_path_factory):
    log = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PROJSEG_QUERY_LOG", str(log))
        for _ in range(12):
            projseg.Table(folder / "edits").query("country", "min(added)")
        projseg.read_log(log)
    with served(folder, "--log", log) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser, address, **options):
    """A page of a new browser that came in, and what went wrong in it."""
    page, problems = browser.new_context(**options).new_page(), []
    base = address.split("/?")[0]
    page.on("console", lambda one: problems.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda one: problems.append(str(one)))
    page.on("request", lambda one: None if one.url.startswith(base) else problems.append(one.url))
    page.goto(address)
    assert page.url == f"{base}/"
    return base, page, problems


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 320])
def test_views_keep_axes_rules_and_fit(browser, address, scheme, width):
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    base, page, problems = opened(browser, address, **options)
    for view in VIEWS:
        page.goto(base + view)
        found = [one["id"] for one in Axe().run(page).response["violations"]]
        assert found == [], view
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
    assert [one for one in problems if "404" not in one] == []
    page.context.close()


def test_a_statement_is_asked_by_keys_and_its_answer_comes_by_itself(browser, address):
    base, page, problems = opened(browser, address)
    page.goto(f"{base}/t/edits/query")
    page.fill("#sql", "SELECT country, sum(added) AS s FROM t GROUP BY ALL")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("text=Sources that answered")
    assert [one["id"] for one in Axe().run(page).response["violations"]] == []
    assert page.query_selector("td.null").inner_text() == "NULL"
    assert problems == []
    page.goto(f"{base}/t/edits")
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("from="))
    page.context.close()


def test_advice_comes_by_itself_and_answers_are_drawn(browser, address):
    base, page, problems = opened(browser, address)
    page.goto(f"{base}/t/edits/advice")
    page.fill("#budget", "50%")
    page.click("button[value=advise]")
    page.wait_for_selector("text=Before and after")
    assert [one["id"] for one in Axe().run(page).response["violations"]] == []
    page.goto(f"{base}/t/edits/query")
    days = "SELECT date_trunc('DAY', time) AS d, sum(added) AS s FROM t GROUP BY ALL"
    for sql, drawn in (
        (days, "path.line"),
        (days.replace("date_trunc('DAY', time)", "country"), "rect"),
    ):
        page.fill("#sql", sql)
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(f"svg.chart {drawn}")
        assert [one["id"] for one in Axe().run(page).response["violations"]] == []
    assert problems == []
    page.context.close()


def test_two_browsers_each_see_one_version_beside_a_writer(browser, tmp_path):
    """Each version has ten rows more than the one before."""
    table = projseg.Table.create(tmp_path / "t", data={"n": [0] * 10})
    with served(tmp_path / "t") as address:
        pages = [opened(browser, address) for _ in range(2)]
        is_over = threading.Event()

        def write():
            while not is_over.is_set():
                table.append({"n": [1] * 10})

        writer = threading.Thread(target=write)
        writer.start()
        seen = set()
        try:
            for _ in range(8):
                for base, page, _ in pages:
                    page.goto(f"{base}/t/t")
                    version = int(
                        re.search(r"Version ([0-9,]+)", page.inner_text(".version"))[1].replace(
                            ",", ""
                        )
                    )
                    facts = dict(
                        re.findall(r"(Rows|Segments)\n([0-9,]+)", page.inner_text(".facts"))
                    )
                    assert int(facts["Rows"].replace(",", "")) == 10 * (version + 1)
                    page.goto(f"{base}/t/t/segments?version={version}")
                    assert f"{10 * (version + 1):,} rows" in page.inner_text("main")
                    seen.add(version)
        finally:
            is_over.set()
            writer.join()
        assert len(seen) > 1
        for _, page, problems in pages:
            assert problems == []
            page.context.close()


def test_all_of_it_works_without_scripts(browser, address):
    base, page, _ = opened(browser, address, java_script_enabled=False)
    page.goto(f"{base}/t/edits/query?sql=SELECT+count(*)+AS+n+FROM+t")
    assert "/answers/" not in page.url
    page.click("button[value=run]")
    page.wait_for_selector("text=Sources that answered")
    page.context.close()


def test_a_page_of_another_origin_gets_nothing(browser, address):
    base, page, _ = opened(browser, address)
    other = page.context.new_page()
    port = int(base.rpartition(":")[2])
    script = """async ([base]) => {
      const found = [];
      for (const init of [{}, {credentials: "include"}, {method: "POST", credentials: "include",
           mode: "no-cors", body: new URLSearchParams({sql: "SELECT 1 FROM t"})}]) {
        try { found.push((await fetch(base + "/t/edits/query", init)).status); }
        catch { found.push("refused"); }
      }
      return found;
    }"""
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(port + 37), "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=os.path.dirname(__file__),
    )  # fmt: skip
    try:
        for _ in range(50):
            try:
                other.goto(f"http://127.0.0.1:{port + 37}/")
                break
            except Exception:  # noqa: BLE001 - it is not there yet
                time.sleep(0.1)
        answers = other.evaluate(script, [base])
        assert answers[:2] == ["refused", "refused"]
        assert answers[2] in (0, "refused")  # nothing can be read of it
        other.goto(f"{base}/t/edits")  # a link is followed with no more than it may
        other.goto(base)
    finally:
        server.kill()
        server.wait()
    page.context.close()
