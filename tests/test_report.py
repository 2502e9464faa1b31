"""The report in a real browser: silent, self-contained, sortable, readable on a phone and in the dark."""

import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bochner.comparison import compare as experiment
from bochner.comparison.charts import NARROW, WIDE, Axis, Chart, Series, matrix_image, save_figure
from bochner.comparison.report import Page, write_picture, write_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MAPS = ["RBFSampler", "fourier:orthogonal", "nystrom:auto", "fourier:iid"]
NASTY = "</script><script>alert(1)</script>&\"'<b>.csv"


def comparison(targets):
    X, y = load_digits(return_X_y=True)
    few = {"maps": MAPS, "n_components": [16, 32], "n_runs": 2, "n_reference": 150}
    found = experiment.run_comparison(X[:250], y[:250] if targets else None, **few)
    found.about["name"] = NASTY
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_report(comparison(True), tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("no Chromium here: install the system package chromium to look at the report")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Visit:
    """A page, what it said and what it asked for."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message) or dialog.dismiss())
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def visit(browser, path):
    visits = []

    def go(**options):
        visits.append(Visit(browser, path, **options))
        return visits[-1]

    yield go
    for found in visits:
        found.context.close()


LOOKS = {
    "desktop": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "dark phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}


@pytest.mark.parametrize("look", LOOKS)
def test_it_is_silent_and_alone(look, visit, path):
    seen = visit(**LOOKS[look])
    for button in seen.page.locator("button").all():
        button.click()
    assert seen.said == []
    assert [url for url in seen.asked if not url.startswith("data:")] == [path.as_uri()]


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_wider_than_the_screen(look, visit):
    page = visit(**LOOKS[look]).page
    width = LOOKS[look]["viewport"]["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # tables may scroll inside their own frame; nothing else reaches beyond the edge
    outside = page.evaluate(
        """width => [...document.querySelectorAll("main *")]
            .filter(e => !e.closest(".scroll, pre") && e.getClientRects().length)
            .filter(e => e.getBoundingClientRect().right > width + 1 || e.getBoundingClientRect().left < -1)
            .map(e => e.tagName + " " + e.textContent.slice(0, 40))""",
        width,
    )
    assert outside == []
    shown = page.locator("svg.chart:visible")
    assert shown.count() == 3
    smallest = page.evaluate(
        """() => Math.min(...[...document.querySelectorAll("svg.chart")].filter(e => e.getClientRects().length)
            .map(e => 12 * e.getBoundingClientRect().width / e.viewBox.baseVal.width))"""
    )
    assert smallest > 11  # pixels of the smallest writing


CONTRAST = """() => {
  const light = (c) => {
    const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$|transparent/.test(c)) return c;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  const writing = "h1, h2, h3, p, td, button, dt, dd, figcaption, code, footer, svg.chart text, .ends span";
  for (const e of document.querySelectorAll(writing)) {
    if (!e.getClientRects().length || !e.textContent.trim()) continue;
    const style = getComputedStyle(e);
    const a = light(e instanceof SVGElement ? style.fill : style.color), b = light(behind(e));
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.tagName, e.textContent.slice(0, 30)]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}"""


@pytest.mark.parametrize("look", LOOKS)
def test_writing_stands_out(look, visit):
    found = visit(**LOOKS[look]).page.evaluate(CONTRAST)
    assert len(found) > 100
    assert found[0][0] >= 4.5, found[0]


def test_dark_is_dark(visit):
    colour = {}
    for look in ("desktop", "dark"):
        text = visit(**LOOKS[look]).page.evaluate("getComputedStyle(document.body).backgroundColor")
        colour[look] = np.mean([int(part) for part in re.findall(r"\d+", text)[:3]])
    assert colour["desktop"] > 240
    assert colour["dark"] < 40


def test_tables_sort(visit):
    page = visit(**LOOKS["desktop"]).page
    assert page.locator("table.sortable").count() == 2
    for table in page.locator("table.sortable").all():
        for column, head in enumerate(table.locator("th").all()):
            for order in ("ascending", "descending"):
                head.locator("button").click()
                assert head.get_attribute("aria-sort") == order
                cells = table.locator(f"tbody td:nth-child({column + 1})").all()
                values = [cell.get_attribute("data-value") for cell in cells]
                if column:
                    numbers = [float(value) for value in values if value]
                    assert numbers == sorted(numbers, reverse=order == "descending")
                    assert all(values[: len(numbers)])  # what was not measured comes last
                else:
                    assert [v.lower() for v in values] == sorted(
                        (v.lower() for v in values), reverse=order == "descending"
                    )
        assert table.locator("th[aria-sort]").count() == 1


def eventually(page, holds):
    """Wait until it holds; page.wait_for_function would evaluate a string, which the page's policy forbids."""
    for _ in range(200):
        if holds():
            return
        page.wait_for_timeout(50)
    raise AssertionError("nothing happened within ten seconds")


def test_the_code_can_be_copied(visit):
    page = visit(**LOOKS["desktop"]).page
    page.locator("button.copy").click()
    eventually(page, lambda: page.locator("button.copy").text_content() != "Copy")
    assert page.locator("button.copy").text_content() in ("Copied", "Selected")


def test_names_are_escaped(path):
    text = path.read_text()
    assert "alert(1)</script>" not in text.replace("&lt;", "<").split("<title>")[0]
    assert text.count("<script>") == 1
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text


def test_it_says_what_was_run(path):
    text = path.read_text()
    for part in (
        *MAPS,
        "Verdict",
        "recommended",
        "Pareto front",
        "exact kernel",
        "linear model",
        "Processor",
        "numpy",
        "150 rows",
    ):
        assert part in text
    assert "http://" not in text
    assert "https://" not in text


def test_without_targets():
    text = Page(comparison(False)).html()
    assert "What it means for predictions" not in text
    assert "Give a target" in text
    assert "test error" not in text


def test_one_run_of_one_size():
    X = load_digits().data[:60]
    text = Page(experiment.run_comparison(X, maps=["fourier:iid"], n_components=[8], n_runs=1)).html()
    assert "one run" in text
    assert "nan" not in re.sub(r"data:[^\"]*", "", text.split("<script>")[0]).lower()


def test_the_recommended_row_is_in_the_ranking(monkeypatch):
    """Also where fewer columns than the most are recommended: that row is marked, and no other of its map."""
    found = comparison(True)
    verdict = replace(experiment.conclude(found), map="fourier:iid", columns=16)
    monkeypatch.setattr("bochner.comparison.report.conclude", lambda comparison: verdict)
    ranking = Page(found).html().partition("<h2>Ranking</h2>")[2].partition("</table>")[0]
    (marked,) = re.findall(r'<tr class="chosen">.*?</tr>', ranking)
    assert ">recommended<" in marked
    assert "fourier:iid" in marked
    assert 'data-value="16.0"' in marked
    assert len(re.findall(r'data-value="fourier:iid"', ranking)) == 2
    assert ranking.count("recommended<") == 1


@pytest.mark.parametrize("headline", ["", "A linear model is as good as any kernel here"])
def test_what_matters_more_than_the_map_is_the_headline(headline, monkeypatch):
    found = comparison(True)
    verdict = experiment.conclude(found)
    verdict = replace(
        verdict, headline=headline, paragraph=f"{headline}: use that." if headline else f"{verdict.map} is."
    )
    monkeypatch.setattr("bochner.comparison.report.conclude", lambda comparison: verdict)
    choice, text = re.search(r'<p class="choice">(.*?)</p><p>(.*?)</p>', Page(found).html()).groups()
    assert choice.startswith(headline or verdict.map)
    assert text.startswith("Use that" if headline else verdict.map)  # not the headline again


def test_a_front_names_a_map_once(monkeypatch):
    """Names of the front are few: of neighbours of one map only the first has it."""
    charts = []
    draw = Chart.svg
    monkeypatch.setattr(Chart, "svg", lambda self, *size: charts.append(self) or draw(self, *size))
    Page(comparison(False)).html()
    (front,) = {tuple(chart.front) for chart in charts if chart.front}
    names = [name for _, _, name, _ in front]
    maps = [name.rpartition(" ")[0] for name in names]
    assert maps[0]
    assert all(first != second for first, second in pairwise(maps) if second)


def test_a_phone_is_told_that_a_table_goes_on(visit):
    for look, shown in (("desktop", False), ("phone", True)):
        page = visit(**LOOKS[look]).page
        cues = page.locator(".cue").all()
        assert cues
        assert all(cue.is_visible() == shown for cue in cues)
    page.locator(".scroll").first.focus()  # with keys alone
    page.keyboard.press("ArrowRight")
    eventually(page, lambda: page.locator(".scroll").first.evaluate("part => part.scrollLeft") > 0)


@pytest.mark.parametrize("look", ["dark", "dark phone"])
def test_print_is_light_and_whole(look, visit):
    page = visit(**LOOKS[look]).page
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 1000})  # of a sheet
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("svg.chart:visible").count() == 3
    assert not any(part.is_visible() for part in page.locator(".copy, .cue, .narrow").all())
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert page.evaluate(CONTRAST)[0][0] >= 4.5


# -- charts --------------------------------------------------------------------------------------------------------


def chart(values, log=True, **options):
    xs, titles = range(1, len(values) + 1), [f"{i} & $x$" for i in range(len(values))]
    series = Series("a < b", xs, values, values, values, titles, "f0", strong=True)
    return Chart("name", [series], Axis("x", str, log), Axis("y", lambda v: f"{v:g}", log), **options)


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("values", [[1.0, 1.0], [1e-12, 1e3], [0.013, 0.017, 0.014], [0.0, 1.0], [0.0], [1e3]])
@pytest.mark.parametrize("named", ["levels", "front"])
def test_charts_are_well_formed(log, values, named):
    points = [(float(i + 1), y, f"point {i}", "f1") for i, y in enumerate(values)]
    options = {"levels": {"levels": [("level", max(values))]}, "front": {"front": points}}[named]
    for size in (WIDE, NARROW) if named == "levels" else (NARROW,):
        tree = ET.fromstring(chart(values, log, **options).svg(*size))
        assert tree.get("viewBox") == f"0 0 {size[0]} {size[1]}"
        numbers = [float(e.get(axis)) for e in tree.iter("use") for axis in "xy"]
        assert all(0 <= number <= max(size) for number in numbers)
        assert [e.text for e in tree.iter("title")] == [f"{i} & $x$" for i in range(len(values))]
        text = " ".join("".join(e.itertext()) for e in tree.iter("text"))
        assert {"levels": "a < b", "front": "point"}[named] in text


@pytest.mark.parametrize("level", [0.01, 2.0, 30.0])
def test_names_of_levels_stand_at_them(level):
    """Also below and above all curves."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context():
        figure = Figure(figsize=(12, 6), dpi=72)
        chart([1.0, 4.0], levels=[("level", level)]).draw(figure)
    (axes,) = figure.axes
    (name,) = (text for text in axes.texts if text.get_text() == "level")
    assert name.xy[1] == pytest.approx((axes.transScale + axes.transLimits).transform((1.0, level))[1])


def test_long_names_leave_room_for_the_curves():
    series = chart([1.0, 2.0]).series[0]
    for size in (WIDE, NARROW):
        text = replace(chart([1.0, 2.0]), series=[replace(series, name="long " * 40)]).svg(*size)
        points = [float(e.get("x")) for e in ET.fromstring(text).iter("use") if e.find("title") is not None]
        assert max(points) - min(points) > size[0] / 4
        assert "…" in text


def test_charts_take_their_colours_from_the_page():
    text = chart([1.0, 2.0], levels=[("level", 1.5)]).svg(*WIDE)
    assert "var(--f0)" in text
    assert "var(--soft)" in text
    assert re.findall(r"[:] #[0-9a-f]{6}", text) == []  # no colour is fixed


def test_what_charts_say_stays_as_it_was():
    """Fonts, colours and places are rewritten; names and numbers that look like them are not."""
    series = replace(chart([1.0, 2.0]).series[0], name="v1.23456 #22303c", titles=["0.0012 %", "'DejaVu Sans'"])
    text = replace(chart([1.0, 2.0]), series=[series], y=Axis("y", lambda v: f"{v:.5f}")).svg(*WIDE)
    tree = ET.fromstring(text)
    assert [e.text for e in tree.iter("title")] == ["0.0012 %", "'DejaVu Sans'"]
    written = ["".join(e.itertext()) for e in tree.iter("text")]
    assert "v1.23456 #22303c" in written
    assert "1.00000" in written
    assert "DejaVu" not in "".join(e.get("style", "") for e in tree.iter())


def test_two_charts_of_a_page_share_no_part():
    """The browser hides one of the wide and the narrow chart, and what it hides cannot be referred to."""
    wide, narrow = (set(re.findall(r'id="([^"]+)"', chart([1.0, 2.0]).svg(*size))) for size in (WIDE, NARROW))
    assert wide
    assert not wide & narrow


def test_the_picture_is_a_chart(tmp_path):
    image = pytest.importorskip("PIL.Image")
    found = write_picture(comparison(False), tmp_path / "errors")
    assert found == tmp_path / "errors"
    with image.open(found) as picture:
        assert min(picture.size) > 500


def test_figures_leave_the_look_of_others_alone(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    for name in "ab":
        save_figure(chart([1.0, 2.0]).draw, (4.0, 3.0), tmp_path / f"{name}.png", tmp_path / f"{name}.svg")
    assert dict(matplotlib.rcParams) == before
    for kind in ("png", "svg"):  # the same figure is the same file
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_pictures_of_matrices():
    from base64 import b64decode
    from io import BytesIO

    image = pytest.importorskip("PIL.Image")
    values = np.array([[0.0, 1.0], [0.5, 2.0]])
    picture = image.open(BytesIO(b64decode(matrix_image(values, 0.0, 1.0).partition(",")[2])))
    pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert pixels.shape == (2, 2, 3)
    assert pixels[0, 0].tolist() == [0xF4, 0xF6, 0xF9]
    assert pixels[0, 1].tolist() == pixels[1, 1].tolist() == [0x0D, 0x2F, 0x5C]
    assert pixels[0, 0].sum() > pixels[1, 0].sum() > pixels[0, 1].sum()
