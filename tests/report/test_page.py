"""The report's page in a real browser: first screen, switches, address, tables, plots, comparison, print, layout."""

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import polars as pl
import pytest
from browser import QUIET, Tab, playwright_api, serious
from handmade import Handmade
from quick_report import hurry

from chexqa.cli import main
from chexqa.contract import benchmark
from chexqa.eval.confidence.confidence_tables import ALL
from chexqa.eval.gallery.address import NAMES
from chexqa.eval.gallery.files import script_json
from chexqa.eval.gallery.stressed import EXAMPLES
from chexqa.eval.report import plot_style
from chexqa.eval.report.page import data as page_data
from chexqa.eval.report.page.render import asked
from chexqa.eval.scoring import intervals
from chexqa.eval.tables.grid import MACRO
from chexqa.files.terminal import PHANTOM_NOTICE

pytestmark = pytest.mark.xdist_group("page")

HOSTILE = "<img src=x onerror='window.stolen=1'>=1+1|a_very-long/name-of-a-model$that\\goes{on}and-on"
# Share of right answers of each model; the reader stands beside them, and the baseline knows everything.
MODELS = {"good": 0.9, "fair": 0.6, HOSTILE: 0.3, "reader/anna": 0.8, "baseline/oracle": 1.0}
SIMULATED = {
    "fair": "baseline/skill-60-60-60-60", "reader/anna": "baseline/skill-80-80-80-80",
    "baseline/oracle": "baseline/oracle",
}  # fmt: skip
PROTOCOLS = ("end_to_end", "independent")
# Models that the plan names and no run asked.
PLANNED = ",".join(f"a-model-with-a-long-name-{number}" for number in range(10))
SCREENS = (400, 1400, 2560)
LAYOUT = (Path(__file__).parents[1] / "support" / "layout.js").read_text()


def runs(home: Path) -> list[str]:
    """Return two runs, one a protocol, of models of known skill on 16 cases of two findings."""
    made = Handmade(home / "bench")
    for number in range(16):
        path = ("lesion_free", "revision_free", "revision_required")[number % 3]
        keys = {"lesion_free": {"detection": (2,)}, "revision_free": {"contour_evaluation": (2,)}}.get(path, {})
        cells = None if path == "lesion_free" else (10, 11)
        finding = ("effusion", "edema")[number % 2]
        made.case(f"case-{number}", finding, path, grid=cells, distribution=(number % 4 + 1,), **keys)
    bench = benchmark.load(made.write())
    answers = bench.key("a test")[0]
    for protocol in PROTOCOLS:
        random = np.random.default_rng(len(protocol))
        folder = home / f"run-{protocol}"
        (folder / "turns").mkdir(parents=True)
        about = {
            "schema_version": 1, "tool_version": "0", "protocol": protocol, "blind": False, "overlay_only": False,
            "rotations": 1, "repeats": 1, "limit": None, "limit_per_path": None, "seed": 0,
            "benchmark": {"name": bench.name, "version": "1", "hash": bench.hash, "path": str(bench.folder)},
            "question_bank": {"name": "en", "hash": bench.about["question_bank"]["hash"]},
            "models": {
                name: {"litellm": SIMULATED.get(name, "openai/m"), "api_base": None, "decoding": {}} for name in MODELS
            },
            **({"stress": ["history"]} if protocol == "independent" else {}),
        }  # fmt: skip
        (folder / "run.json").write_text(json.dumps(about))
        for number, (name, skill) in enumerate(MODELS.items()):
            lines = []
            for item in bench.items:
                key = answers[item.item_id].answer
                wrong = next(option.n for option in item.options if option.n not in key)
                parsed = (key[:1] if item.kind == "grid_cell" else key) if random.random() < skill else (wrong,)
                refuses = name == "fair" and random.random() < 0.2
                lines.append({
                    "model": name, "protocol": protocol, "case_id": item.case_id, "item_id": item.item_id, "repeat": 0,
                    "rotation": 0, "order": None, "blind": False, "overlay_only": False, "attempts": 1,
                    "state": "refused" if refuses else "answered", "parsed": None if refuses else list(parsed),
                    "raw": "", "finish_reason": "stop", "usage": None, "cost_usd": 0.001 * number, "latency_s": None,
                    "provider_model": None, "request_hash": "0" * 64, "image_hashes": [], "error": None,
                    "started": "2026-01-01T00:00:00Z", "confidence": 0.85 if name == "good" else None,
                })  # fmt: skip
            if protocol == "independent":
                # After a false history the model "fair" gives another answer to every second question.
                for place, line in enumerate([*lines]):
                    other = [1 if line["parsed"] == [2] else 2] if name == "fair" and place % 2 else line["parsed"]
                    lines.append(
                        {**line, "item_id": f"{line['item_id']}@history", "stress": "history", "parsed": other}
                    )
            (folder / "turns" / f"{number}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [str(home / f"run-{protocol}") for protocol in PROTOCOLS]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two protocols; no test changes it."""
    home = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        for module in (intervals, page_data):
            patch.setattr(module, "LEAST_CLUSTERS", 4)
        told: list[str] = []
        patch.setattr(plot_style, "say", lambda figure, notice: told.append(notice) or figure)
        planned = ["--models", f"good,fair,{PLANNED}", "--seed", "7", "-o", str(home / "plan.json")]
        told_of = runs(home)
        assert main.run(["plan", str(home / "bench"), *planned]) == 0
        assert main.run(["report", *told_of, "--plan", str(home / "plan.json"), "-o", str(home / "report")]) == 0
    (home / "notices.json").write_text(json.dumps(told))
    return home / "report"


@pytest.fixture(scope="module")
def shared(chromium: str, report: Path) -> Iterator[Tab]:
    """One tab of the page for all tests of this module."""
    with playwright_api().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(QUIET))
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        context.set_default_timeout(60_000)  # a busy machine is no failure
        tab = Tab(context.new_page())
        tab.page.goto((report / "index.html").as_uri())
        yield tab
        browser.close()


def next_frames(page: Any) -> None:
    """Wait until a section that was just unfolded has changed the address and is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.fixture
def page(shared: Tab) -> Any:
    """The page at its first view, in a window of 1400 x 900, with the pointer in a corner where nothing is told."""
    shared.page.set_viewport_size({"width": 1400, "height": 900})
    shared.page.mouse.move(0, 0)
    next_frames(shared.page)
    shared.page.evaluate("""() => new Promise((done) => {
      if (!location.hash) { done(); return; }
      window.addEventListener("hashchange", () => done(), { once: true });
      location.hash = "";
    })""")
    assert shared.page.locator("details.part[open]").count() == 0
    return shared.page


def view(page: Any) -> dict[str, list[str]]:
    """Return the names and values of the page's address."""
    return parse_qs(page.url.partition("#")[2])


def unfold(page: Any, *names: str) -> None:
    for name in names:
        if page.locator(f"#{name}").get_attribute("open") is None:
            page.locator(f"#{name} > summary").press("Enter")
            page.locator(f"#{name} .content > *").first.wait_for()
            next_frames(page)


def board(page: Any) -> list[list[str]]:
    return [[cell.split("\n")[0].strip() for cell in row] for row in cells(page.locator("#leaders"))]


def test_the_first_screen_says_who_was_asked_and_who_is_best(page: Any, report: Path) -> None:
    told = page.locator(".asked").inner_text()
    assert "3 models and 1 baseline and 1 reader were asked" in told
    assert "on 16 cases of 16 patients, with 2 findings, under the protocols end to end, independent" in told
    rows = board(page)
    assert [row[1] for row in rows if row[0]] == ["good", "fair", HOSTILE], "ranked; others have no rank"
    assert {row[1] for row in rows if not row[0]} == {"reader/anna", "baseline/oracle", "most frequent answer"}
    levels = pl.read_csv(report / "tables" / "levels.csv").filter(pl.col("protocol") == "end_to_end")
    of_good = levels.filter((pl.col("model") == "good") & (pl.col("level") == "mean of levels"))["corrected"][0]
    (good,) = [row for row in rows if row[1] == "good"]
    shown = dict(zip(page.locator("#leaders thead th").all_inner_texts(), good, strict=True))
    assert shown["mean"] == f"{100 * of_good:.1f}"
    best = page.locator(".best").inner_text()
    assert best.startswith("Best model overall\ngood\n")
    assert "is the finding visible (coarse)" in told
    pairs = pl.read_csv(report / "tables" / "pairs.csv").filter(
        (pl.col("protocol") == "end_to_end") & (pl.col("score") == "grid") & pl.col("p").is_not_null()
    )
    grid = pl.read_csv(report / "tables" / "grid.csv").filter(
        (pl.col("protocol") == "end_to_end") & (pl.col("finding") == MACRO)
    )
    first = grid.filter(pl.col("model").is_in(["good", "fair", HOSTILE])).sort("hit_rate")["model"][-1]
    tests = pairs.filter((pl.col("model_a") == first) | (pl.col("model_b") == first)).filter(
        ~pl.any_horizontal(pl.col("model_a", "model_b").str.contains("^(reader|baseline)/"))
    )
    low = tests.filter(pl.col("p") < 0.05).height
    ceiling = f"{100 * grid['ceiling'][0]:.1f}"
    assert "grid\nno model is above other patients' cell\nhighest: " in best, "all cases have the same cells"
    best = changed(page, "grid", f"row.finding === '{MACRO}'", "row.most_frequent = 0.1")
    assert f"at most {ceiling} possible" in best
    assert f"exploratory tests, not corrected: p < 0.05 against {low} of {tests.height}" in best
    legend = page.locator(".legend").inner_text()
    assert "0 is guessing, 100 is all right" in legend
    assert "Grounding (do answers follow the lesion?) was not tested" in legend
    page.focus("#s-protocol")
    assert "the model's earlier answers stay" in page.locator("#tip").inner_text()
    assert set(page.locator("#stops svg .guess").all_text_contents()) == {"guessing", "always yes"}
    stops = page.locator("#stops").inner_text()
    assert "Without a look, answering “yes” every time passes detect and judge in all these cases." in stops
    assert page.locator("#stops h2").inner_text() == "Where models stop seeing"
    for part in ("#leaders", "#stops svg"):
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] <= 900, f"{part} is on the first screen"
    unfold(page, "terms")
    page.locator("#terms dd", has_text="the model's earlier answers stay").wait_for()


def test_models_with_equal_scores_have_the_same_rank(page: Any) -> None:
    """The score of one model stands in for the other's, and is put back."""
    ranks = page.evaluate("""() => {
      const of = (model) => report.rows("levels").find((row) => row.model === model && row.protocol === "end_to_end" &&
        row.level === "mean of levels");
      const own = of("fair").corrected;
      of("fair").corrected = of("good").corrected - 1e-12;
      leaderboard.show();
      const ranks = [...document.querySelectorAll("#leaders tr.model .rank")].map((cell) => cell.innerText);
      of("fair").corrected = own;
      leaderboard.show();
      return ranks;
    }""")
    assert sorted(ranks) == ["1", "1", "3"]


def test_the_most_frequent_answer_stands_among_the_models_with_how_far_each_is_beyond_it(
    page: Any, report: Path
) -> None:
    of_all = {name: pl.read_csv(report / "tables" / f"{name}.csv") for name in ("levels", "grid")}
    levels, grid = (table.filter(pl.col("protocol") == "end_to_end") for table in of_all.values())
    for score, column in (("corrected", "prior_corrected"), ("plain", "prior")):
        page.select_option("#s-score", score)
        (row,) = [row for row in board(page) if row[1] == "most frequent answer"]
        shown = dict(zip(page.locator("#leaders thead th").all_inner_texts(), row, strict=True))
        for level in ("coarse", "fine", "semantic", "mean of levels"):
            (value,) = levels.filter(level=level)[column].unique()
            assert shown[level.split()[0]] == f"{100 * value:z.1f}".replace("-", "−")
        assert shown["grid"] == f"{100 * grid.filter(finding=MACRO)['most_frequent'][0]:.1f}"
        places = [float(row[3].replace("−", "-")) for row in board(page)]
        assert places == sorted(places, reverse=True), "it has its place by the mean"
        good = levels.filter(model="good", level="coarse").to_dicts()[0]
        gap = good["corrected" if score == "corrected" else "accuracy"] - max(
            good[column], 0 if score == "corrected" else good["chance"]
        )
        page.locator("#leaders tr[data-model=good] td[data-label=coarse] a").focus()
        assert f"The score is {100 * gap:.1f} points above" in page.locator("#tip").inner_text()
    page.select_option("#s-others", "without")
    assert "most frequent answer" not in {row[1] for row in board(page)}


def test_the_notice_of_phantoms_stands_once(page: Any) -> None:
    unfold(page, "levels", "kinds")
    page.locator("#levels details.table > summary").first.click()
    assert page.locator("main").inner_text().count(PHANTOM_NOTICE) == 1


def test_the_page_and_its_files_say_which_models_are_simulated(page: Any, report: Path) -> None:
    said = "Simulated models and readers: offline baselines of chexqa answered for fair, and for reader/anna"
    assert page.locator("main").inner_text().count(said) == 1
    notice = pl.read_csv(report / "tables" / "levels.csv")["notice"][0]
    assert said in notice
    assert ".;" not in notice
    assert f'class="notice">{said}' in (report / "gallery.html").read_text()
    plots = json.loads((report.parent / "notices.json").read_text())
    assert plots
    assert all(said in " ".join(text.split()) for text in plots)


def test_the_first_screen_says_if_the_plan_was_kept_and_leads_to_its_whole_table(page: Any, report: Path) -> None:
    plan = pl.read_csv(report / "tables" / "plan.csv")
    broken = plan.filter(~pl.col("kept")).height
    table = page.locator("details.table[data-table=plan] table")
    page.set_viewport_size({"width": 480, "height": 900})
    page.locator("header .notice", has_text=f"The plan was not kept in {broken} points (see").locator("a").click()
    table.wait_for()
    assert 0 <= table.bounding_box()["y"] < 450, "the link leads to the table, not to the top of its section"
    shown = [[text.replace("–", "") for text in row[:3]] for row in cells(table)]
    wanted = plan.select("protocol", "item", "kept").rows()
    assert shown == [[(way or "").replace("_", " "), item, "yes" if kept else "no"] for way, item, kept in wanted]
    assert "no" in [row[2] for row in shown if row[1] == "seed"]
    kept = table.locator("thead th").nth(2).bounding_box()
    assert kept["x"] + kept["width"] < 480, "ten names of models do not push the answer off the screen"


def test_unfold_all_unfolds_the_plan(page: Any) -> None:
    table = page.locator("details.table[data-table=plan] table")
    page.locator("#unfold").click()
    table.wait_for()
    page.locator("#unfold").click()
    assert not table.is_visible()
    unfold(page, "comparisons")
    assert not table.is_visible()


def test_the_first_sentence_counts_models_of_unknown_domain() -> None:
    facts = {"items": 9, "cases": 2, "patients": 2, "clusters": "patients", "findings": 1}
    names = ["general", "medical", "None", "None"]
    states = pl.DataFrame({"protocol": [*["independent"] * 3, "oracle_passed"], "model": names})
    frames = {"facts": pl.DataFrame([facts]), "levels": pl.DataFrame({"level": ["coarse"]}), "grid": pl.DataFrame(),
              "states": states}  # fmt: skip
    models = [{"name": str(domain), "domain": domain, "role": "model"} for domain in ("general", "medical", None)]
    said = asked({"models": models, "protocols": ["independent"]}, frames, several=False)
    assert said.startswith("3 models (1 general, 1 medical, 1 of unknown domain) were asked 9 questions")
    one = {**frames, "states": states.filter(model="None")}
    assert asked({"models": models[2:], "protocols": ["independent"]}, one, several=False).startswith("1 model was")
    both = asked({"models": models, "protocols": ["independent", "oracle_passed"]}, frames, several=False)
    assert "3 models under the protocol independent, 1 model under the protocol oracle passed." in both


def test_a_tile_names_the_models_that_are_not_told_apart_from_the_best(page: Any) -> None:
    names = page.evaluate("""() => {
      const kept = report.rows("groups").map((row) => row.letters);
      report.rows("groups").forEach((row) => { row.letters = "a"; });
      leaderboard.show();
      document.querySelector(".best button.term").focus();
      const told = `${document.querySelector(".best .sure").innerText}: ${document.getElementById("tip").innerText}`;
      report.rows("groups").forEach((row, place) => { row.letters = kept[place]; });
      leaderboard.show();
      return told;
    }""")
    assert names.startswith("not told apart from 2 others")
    assert f"fair, {HOSTILE}" in names


def test_a_score_that_is_not_above_guessing_is_not_praised_and_unpriced_models_are_named(page: Any) -> None:
    page.evaluate("""() => report.rows("levels").forEach((row) => {
      if (row.level !== "coarse") return;
      row.before = row.corrected;
      row.corrected = -0.02;
    })""")
    page.evaluate("leaderboard.show()")
    best = page.locator(".best").inner_text()
    page.evaluate("() => report.rows('levels').forEach((row) => { if ('before' in row) row.corrected = row.before; })")
    page.evaluate("leaderboard.show()")
    assert "coarse\nno model is above guessing\nhighest: " in best
    assert "Best model at coarse" not in best
    page.select_option("#s-score", "plain")
    told = changed(page, "levels", "row.level === 'coarse'", "row.accuracy = row.prior = row.chance")
    assert "coarse\nno model is above guessing\nhighest: " in told
    assert "guessing has 50.0" in told
    page.select_option("#s-score", "corrected")
    macro = f"row.finding === '{MACRO}'"
    told = changed(page, "grid", macro, "row.hit_rate = row.chance / 2; row.most_frequent = 0")
    assert "grid\nno model is above guessing\nhighest: " in told
    told = changed(page, "grid", macro, "row.most_frequent = row.hit_rate_low + 0.01")
    assert "grid\nno model is surely above other patients' cell\nhighest: " in told
    told = changed(page, "levels", "row.level === 'coarse'", "row.prior_corrected = -0.3; row.corrected_low = 0.01")
    assert re.search(r"Best model at coarse\n.+\n.+\]; guessing has 0\n", told), "the higher one counts"
    unfold(page, "states")
    told = changed(page, "levels", "row.level === 'coarse'", "row.corrected_low = -0.02")
    assert "coarse\nno model is surely above guessing\nhighest: " in told
    assert "Best model at coarse" not in told
    caption = page.locator("#states figcaption", has_text="against dollars")
    assert caption.inner_text().endswith(
        "Not drawn, because the cost of a question is unknown, or all cost nothing: good."
    )


def changed(page: Any, table: str, which: str, change: str) -> str:
    """Return the text of the first screen with other numbers in some rows of a table, which are put back."""
    return page.evaluate(f"""() => {{
      const kept = report.rows("{table}").map((row) => ({{ ...row }}));
      report.rows("{table}").forEach((row) => {{ if ({which}) {{ {change}; }} }});
      leaderboard.show();
      const told = document.querySelector("main").innerText;
      report.rows("{table}").forEach((row, place) => Object.assign(row, kept[place]));
      leaderboard.show();
      return told;
    }}""")


def test_a_cost_is_a_lower_bound_where_some_questions_have_no_known_cost(page: Any) -> None:
    good = "row.model === 'good' && report.here(row)"
    known = "row.cost_per_1000_usd = null; row.known_usd = 0.5; row.asked = 200; row.asked_altered = 50"
    assert re.search(r"^good\b[^=]*?≥ 2\.00$", changed(page, "costs", good, known), re.MULTILINE)
    assert "≥" not in changed(page, "costs", good, known.replace("0.5", "0"))


def test_a_stage_is_named_only_for_models_that_see_and_where_its_loss_stands_apart(page: Any) -> None:
    """Three models above guessing lose most at stage 3; then one model or all have other numbers."""
    page.evaluate("""() => {
      for (const row of report.rows("kinds")) row.corrected_low = 0.2;
      for (const row of report.rows("stages")) {
        const share = row.stage === 3 ? 0.7 : 0.1;
        Object.assign(row, { lost: share, lost_low: share - 0.1, lost_high: share + 0.1 });
      }
      leaderboard.show();
    }""")
    assert "Stage with the largest loss: revise (3 models)." in page.locator("#stops").inner_text()
    told = changed(page, "kinds", "row.model === 'good' && row.kind === 'detection'", "row.corrected_low = 0")
    assert "at detect (1 model). Stage with the largest loss: revise (2 models)." in told
    told = changed(page, "kinds", "row.kind === 'contour_evaluation'", "row.corrected_low = null")
    assert "Not surely above guessing at judge (3 models)." in told
    told = changed(page, "stages", "row.model === 'good' && row.stage === 4", "row.lost_high = 0.65")
    assert "Largest loss not settled, as intervals overlap: 1 model." in told, "every other stage counts"
    told = changed(page, "stages", "row.model === 'good' && row.stage === 3", "row.lost_low = 0.15")
    assert "revise (2 models). Largest loss not settled, as intervals overlap: 1 model." in told
    page.reload()


def test_refusals_stand_beside_a_name_and_a_silent_model_has_no_rank_letter_or_card(page: Any, report: Path) -> None:
    row = pl.read_csv(report / "tables" / "states.csv").filter(model="fair", protocol="end_to_end").to_dicts()[0]
    share = f"answered {100 * (row['correct'] + row['wrong']) / row['items']:.1f} %"
    name = page.locator("#leaders tr[data-model=fair] th")
    assert share in name.inner_text()
    assert "answered" not in page.locator("#leaders tr[data-model=good] th").inner_text()
    good = "row.model === 'good' && report.here(row)"
    told = changed(page, "states", good, "row.refused = row.items; row.correct = row.wrong = 0")
    best, ranked = told[: told.index("Scores in %")], told[told.index("Scores in %") : told.index("Where models stop")]
    assert not re.search(r"^good", best, re.MULTILINE)
    assert re.search(r"^\s*good\s+answered 0.0 %", ranked, re.MULTILINE), "no rank"
    told = changed(page, "states", good, "row.refused = row.correct; row.correct = 0")
    assert re.search(r"^good \(answered [\d.]+ %\)", told, re.MULTILINE), "a card says so, too"


def test_what_stands_out_is_said_of_a_model_only_where_a_table_shows_it(page: Any) -> None:
    lines = page.locator(".standing li").all_inner_texts()
    assert any(re.match(r"fair: no readable answer to [\d.]+ % of the questions", line) for line in lines)
    good = "row.model === 'good' && report.here(row)"
    yes = f"{good} && row.kind === 'detection'"
    told = changed(page, "decisions", yes, "row.yes_rate = 0.96")
    assert "good: “yes” to 96.0 % of the detection questions." in told
    assert "96.0 % of the detection" not in changed(page, "decisions", yes, "row.yes_rate = 0.94")
    mixed = "Object.assign(row, { gain: 0.5, gain_low: 0.1, gain_high: 0.8 })"
    assert "good: better with left and right exchanged in the key (" in changed(page, "swapped", good, mixed)
    assert "good: better with" not in changed(page, "swapped", good, mixed.replace("0.1", "-0.1"))


def test_a_score_says_why_it_has_no_interval_or_no_number(page: Any) -> None:
    few = "row.level === 'fine' && row.model === 'good'"
    told = changed(page, "levels", few, "row.corrected = 0.99; row.corrected_low = null; row.patients = 3")
    assert "fine\ntoo few patients to name one\nhighest: good, 99.0 (no interval: fewer than 4 patients)" in told
    told = changed(page, "levels", "row.level === report.data.overall", "row.corrected_low = null")
    assert "Overall\ntoo few patients to name one" in told
    assert not [line for line in told.split("\n") if line.strip() in "123" and line.strip()], "and there are no ranks"
    said = page.evaluate("""() => {
      const row = report.rows("levels").find((one) => one.level === "fine" && one.model === "good" && report.here(one));
      const before = row.corrected;
      row.corrected = null;
      leaderboard.show();
      const cell = document.querySelector('#leaders [aria-label^="good, fine: no number"]');
      cell.focus();
      row.corrected = before;
      return report.$("tip").textContent;
    }""")
    page.evaluate("leaderboard.show()")
    assert "both answers in the key" in said
    tip = page.locator("#tip")
    assert not tip.is_visible() or "both answers" not in tip.inner_text(), "what is said goes with what it is said of"


def test_the_first_screen_says_how_many_models_look_and_on_what_that_rests(page: Any) -> None:
    """Rows stand in for those of a run on altered pictures, and are removed again."""
    told, fold = page.evaluate("""() => {
      const row = { protocol: "end_to_end", audited: 12, patients: 11, findings: 2 };
      report.rows("grounding").push(
        { ...row, model: "fair", net_grounding: -0.1, net_grounding_low: null, net_grounding_high: null,
          looks: "undecided" },
        { ...row, model: "good", net_grounding: -0.2, net_grounding_low: -0.3, net_grounding_high: 0.05,
          looks: "not shown to use it" });
      leaderboard.show();
      const told = report.$("best").innerText, row_ = document.querySelector('#leaders tr[data-model="good"]');
      const mark = [...row_.querySelectorAll("a")].at(-1);
      mark.focus();
      const [tip, line] = [report.$("tip"), row_].map((node) => node.getBoundingClientRect());
      mark.blur();
      report.rows("grounding").splice(0);
      leaderboard.show();
      return [told, tip.top >= line.bottom || tip.bottom <= line.top];
    }""")
    assert "net grounding\nnot shown to use it: 1 of 2 models; undecided: 1\nhighest: fair (answered " in told
    assert "2 findings and 11 patients; undecided (11 patients; “not shown to use it” needs 28)" in told
    assert "no interval: one of its kinds or findings has fewer than 2 patients" in told
    assert "12 audited cases; the mean is of 2 findings and 11 patients" in told
    assert fold, "what is said of a row does not cover the row"


def test_the_page_says_what_was_not_asked_and_how_to_ask_it(page: Any) -> None:
    said = page.locator("#not-asked").inner_text()
    assert "altered radiographs (--condition original,target,irrelevant)" in said
    assert "no pictures (--blind)" in said
    assert "--stress" not in said, "it was asked"
    assert page.locator("#without").count() == 0


def test_counts_of_the_page_add_up(page: Any, report: Path) -> None:
    grades = pl.read_parquet(report / "grades.parquet").unique("item_id")
    of_levels, whole = grades.filter(pl.col("level").is_not_null()).height, grades.height
    unfold(page, "methods")
    methods = page.locator("#methods").inner_text()
    assert f"{whole} items were asked: {of_levels} of the three levels, {whole - of_levels} on the grid." in methods
    levels = pl.read_csv(report / "tables" / "levels.csv").filter(pl.col("level") == "mean of levels")
    assert set(levels["items"]) == {of_levels}
    stressed = pl.read_csv(report / "tables" / "costs.csv").filter(model="fair")
    assert dict(stressed.select("protocol", "asked_altered").rows()) == {"end_to_end": 0, "independent": whole}
    assert stressed.filter(protocol="independent")["cost_altered_usd"][0] == pytest.approx(0.001 * whole)


def test_a_table_gives_the_true_reason_for_a_number_without_an_interval(page: Any) -> None:
    unfold(page, "depth", "comparisons")
    depth = page.locator("#depth details.table").first
    depth.locator("summary").click()
    depth.locator("tbody tr.reference").first.wait_for()
    assert "without an interval" not in depth.inner_text(), "constant answers have no interval to miss"
    few = page.evaluate("""() => {
      const row = report.rows("depth")[0], kept = { ...row };
      Object.assign(row, { cases: 3, depth_low: null, depth_high: null });
      tables.again();
      const said = document.querySelector("#depth details.table").innerText;
      Object.assign(row, kept);
      tables.again();
      return said;
    }""")
    assert "A number without an interval comes from fewer than 4 patients." in few
    one_end = page.evaluate("""() => {
      const table = report.rows("thresholds"), kept = table.splice(0);
      table.push({ ...kept[0], protocol: report.view.protocol, model: "good", reads: "9.0",
        reads_between: "2.0 to > 60.0", threshold: 9, threshold_low: 2, threshold_high: null });
      report.view.open.add("table.thresholds");
      const said = tables.block("thresholds").textContent;
      report.view.open.delete("table.thresholds");
      table.splice(0, 1, ...kept);
      return said;
    }""")
    assert "A number without an interval has an end of its interval outside the tested depths;" in one_end


def test_places_stand_on_the_first_screen_where_nothing_else_was_asked(page: Any) -> None:
    """Rows stand in for those of a run of places, and are removed again."""
    told = page.evaluate("""() => {
      const kept = ["levels", "grid"].map((name) => report.rows(name).splice(0));
      const place = { protocol: "end_to_end", kind: "point_at", finding: report.data.macro, present: 9, absent: 9 };
      report.rows("places").push(
        { ...place, model: "fair", net: 0.4, net_low: 0.3, net_high: 0.5, frame: "proved" },
        { ...place, model: "good", net: null, net_low: null, net_high: null, frame: "not proved" });
      leaderboard.show();
      const told = [report.$("best").innerText, report.$("board").innerText, report.order()[0],
        report.$("leaders").querySelector("[aria-label*='no number']").getAttribute("aria-label"),
        effects.of("places").flatMap((node) => [...node.querySelectorAll(".panel")]).length];
      report.rows("places").splice(0);
      ["levels", "grid"].forEach((name, number) => report.rows(name).push(...kept[number]));
      leaderboard.show();
      return told;
    }""")
    best, board_, first, missing, panels = told
    assert re.match(r"point at\nfair \(answered [\d.]+ %\)\n40.0 \[30.0, 50.0\]\nthe only model", best)
    assert "always answering “nowhere” gives 0" in board_
    assert first == "fair"
    assert missing == "good, point at: no number: its coordinate system is not proved"
    assert panels == 1, "no panel without rows"


def test_switches_change_numbers_in_place_and_the_address(page: Any, report: Path) -> None:
    unfold(page, "levels")
    table = page.locator("#levels details.table").first
    table.locator("summary").click()
    table.locator("tbody tr").first.wait_for()
    height = page.locator("#levels .panel").count()
    levels = pl.read_csv(report / "tables" / "levels.csv")

    def told(model: str) -> str:
        heads = [head.split()[0] for head in table.locator("thead th").all_inner_texts()]
        (row,) = [row for row in cells(table) if row[0] == model]
        return row[heads.index("mean")].split()[0]

    for changes, protocol, column in (
        ({}, "end_to_end", "corrected"),
        ({"score": "plain"}, "end_to_end", "accuracy"),
        ({"answers": "answered"}, "end_to_end", "accuracy_answered"),
        ({"protocol": "independent"}, "independent", "accuracy_answered"),
        ({"score": "corrected"}, "independent", "corrected_answered"),
    ):
        for name, value in changes.items():
            page.select_option(f"#s-{name}", value)
        rows = levels.filter((pl.col("protocol") == protocol) & (pl.col("level") == "mean of levels"))
        for model in ("good", "fair"):
            assert told(model) == f"{100 * rows.filter(pl.col('model') == model)[column][0]:.1f}".replace("-", "−")
        assert page.locator("#levels .panel").count() == height, "nothing is printed twice"
        best = page.locator("#best").inner_text()
        assert ("the most frequent answer (all questions) has" in best) == ("answered" in column)
    assert view(page) | {"open": []} == {
        "protocol": ["independent"], "answers": ["answered"], "open": [], "at": ["levels"]
    }  # fmt: skip
    page.select_option("#s-others", "without")
    assert {row[1] for row in board(page)} == {"good", "fair", HOSTILE}
    assert page.locator('#levels [aria-label^="reader/anna"]').count() == 0


def test_an_address_opens_the_same_view(page: Any, report: Path, shared: Tab) -> None:
    place = "#protocol=independent&score=plain&open=kinds&open=table.kinds&sort=kinds.detection.up&model=fair&at=kinds"
    page.goto("about:blank")
    page.goto((report / "index.html").as_uri() + place)
    assert page.locator("#s-protocol").input_value() == "independent"
    assert page.locator("#s-score").input_value() == "plain"
    assert page.locator("#kinds .picker select").first.input_value() == "fair"
    head = page.locator("#kinds details.table").first.locator("th[aria-sort=ascending]")
    assert head.inner_text().split()[0] == "detection"
    assert page.locator("#kinds > summary").evaluate("node => node === document.activeElement")
    assert shared.complaints == []


def test_a_table_sorts_and_is_copied_in_three_forms(page: Any) -> None:
    unfold(page, "states")
    table = page.locator('[data-table="states"]')
    table.locator("summary").click()
    table.locator("tbody tr").first.wait_for()
    correct = [head.split()[0] for head in table.locator("thead th").all_inner_texts()].index("correct")
    for direction, order in (("descending", True), ("ascending", False)):
        table.locator("thead button").nth(correct).click()
        assert table.locator("thead th").nth(correct).get_attribute("aria-sort") == direction
        shown = [int(row[correct]) for row in cells(table)]
        assert shown == sorted(shown, reverse=order)
    assert view(page)["sort"] == ["states.correct.up"]
    copied = {form: page.evaluate("form => tables.text('states', form)", form) for form in ("CSV", "Markdown", "LaTeX")}
    rows = list(csv.DictReader(io.StringIO(copied["CSV"])))
    assert [int(row["correct"]) for row in rows] == shown
    assert {row["notice"] for row in rows} == {PHANTOM_NOTICE}
    assert HOSTILE in {row["model"] for row in rows}
    assert r"\<img src=x onerror='window.stolen=1'\>=1+1\|a\_very" in copied["Markdown"]
    assert r"=1+1\textbar{}a\_very-long/name-of-a-model\$that\textbackslash{}goes\{on\}and-on" in copied["LaTeX"]
    assert page.evaluate("window.stolen") is None
    page.locator("#leaders thead button", has_text="fine").click()
    assert page.locator("#board .legend").count() == 1, "what explains the leaderboard stays"
    with_interval = page.evaluate("tables.text('decisions', 'CSV')").splitlines()[0]
    assert "sensitivity,sensitivity_low,sensitivity_high" in with_interval


def cells(table: Any) -> list[list[str]]:
    """Return the texts of a table's cells, row by row."""
    script = "rows => rows.map((row) => [...row.cells].map((cell) => cell.innerText))"
    return list(table.locator("tbody tr").evaluate_all(script))


def test_a_mark_says_its_interval_and_items_and_opens_them_in_the_gallery(page: Any, report: Path) -> None:
    unfold(page, "levels")
    mark = page.locator('#levels a.mark[aria-label^="good:"]').first
    said, box, row = mark.evaluate(
        "(node) => { node.focus(); const tip = document.getElementById('tip');"
        " return [tip.innerText, tip.getBoundingClientRect().toJSON(), node.getBoundingClientRect().toJSON()]; }"
    )
    levels = pl.read_csv(report / "tables" / "levels.csv").filter(
        (pl.col("model") == "good") & (pl.col("level") == "coarse") & (pl.col("protocol") == "end_to_end")
    )
    low, high = (f"{100 * levels[f'corrected_{end}'][0]:.1f}" for end in ("low", "high"))
    assert f"[{low}, {high}]" in said
    assert f"n = {levels['items'][0]} items of {levels['patients'][0]} patients" in said
    assert box["x"] >= row["x"] + row["width"], "beside the plot, not over its rows"
    where, _, choice = mark.get_attribute("href").partition("#")
    assert where == "gallery.html"
    assert parse_qs(choice) == {"protocol": ["end_to_end"], "model": ["good"], "level": ["coarse"]}
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        ("fair:", "baseline", "reader")
    )
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_a_tap_explains_a_score_and_the_explanation_holds_the_link(page: Any) -> None:
    touch = (
        "(node) => node.dispatchEvent(new PointerEvent('click', {bubbles: true, cancelable: true, pointerType: '%s'}))"
    )
    score, tip = page.locator("#leaders tr[data-model=good] td.score a").first, page.locator("#tip")
    assert not score.evaluate(touch % "touch"), "the tap does not follow the link"
    assert "Guessing has 0" in tip.inner_text()
    link = tip.get_by_role("link", name="Open these items in the gallery")
    assert link.get_attribute("href") == score.get_attribute("href")
    assert tip.evaluate("node => getComputedStyle(node).pointerEvents") == "auto"
    page.mouse.click(700, 5)
    assert tip.is_hidden()
    page.evaluate("document.addEventListener('click', (event) => event.preventDefault(), { once: true })")
    score.evaluate(touch % "mouse")
    assert tip.get_by_role("link").count() == 0, "a click of the mouse follows the link itself"


def test_findings_stand_from_the_hardest_to_the_easiest_by_all_models(page: Any, report: Path) -> None:
    unfold(page, "kinds")
    table = pl.read_csv(report / "tables" / "finding_kinds.csv").filter(
        (pl.col("protocol") == "end_to_end") & pl.col("model").is_in(["good", "fair", HOSTILE])
    )
    hardest = page.locator("#kinds figure", has_text="Findings from the hardest to the easiest")
    assert "mean over the kinds of the level and over 3 models" in hardest.locator("figcaption").inner_text()
    means = table.filter(kind="detection").group_by("finding").agg(pl.col("corrected").mean()).sort("corrected")
    marks = hardest.locator('svg[aria-label="coarse"] a.mark')
    said = marks.evaluate_all("nodes => nodes.map((node) => node.getAttribute('aria-label'))")
    wanted = [f"{finding}: {100 * value:z.1f} ".replace("-", "−") for finding, value in means.rows()]
    assert [one for one, start in zip(said, wanted, strict=True) if not one.startswith(start)] == []
    choice = parse_qs(marks.first.get_attribute("href").partition("#")[2])
    assert choice == {
        "protocol": ["end_to_end"],
        "finding": [means["finding"][0]],
        "level": ["coarse"],
        "models": ["all_wrong"],
    }


def test_what_the_pointer_showed_gives_way_to_what_the_keys_have_reached(page: Any) -> None:
    unfold(page, "levels")
    first, second = (page.locator("#levels a.mark").nth(place) for place in (0, 1))
    first.focus()
    said = page.locator("#tip").inner_text()
    first.hover()
    second.hover()
    assert page.locator("#tip").inner_text() != said
    page.locator("h1").hover()
    assert page.locator("#tip").inner_text() == said
    first.blur()
    assert page.locator("#tip").is_hidden()


def test_the_gallery_keeps_the_protocol_and_leads_back_to_the_same_view(shared: Tab, report: Path) -> None:
    page = shared.page.context.new_page()
    page.goto((report / "index.html").as_uri() + "#score=plain&a=fair&open=levels")
    page.locator('#levels a.mark[aria-label^="good:"]').first.press("Enter")
    page.locator("body[data-ready]").wait_for()
    assert "report" not in view(page)
    page.locator("#cards a").first.click()
    page.locator("#item .options").wait_for()
    item = page.locator("#item").inner_text()
    assert "10 answers of 5 models under 2 protocols; counted above and shown here: end to end" in item
    assert page.locator("#item .scroll").first.locator(".who").all_inner_texts()[0] == "good (end to end)"
    assert page.locator("#item .scroll").first.locator(".who").count() == 5
    assert (
        page.locator(".other-protocols summary").inner_text() == "5 answers of 5 models under 1 protocol: independent"
    )
    assert re.search(r"\d · end to end: good, ", " ".join(page.locator("#item .options small").all_inner_texts()))
    page.locator("#report").click()
    page.locator("#leaders").wait_for()
    assert view(page) == {"score": ["plain"], "a": ["fair"], "open": ["levels"], "at": ["levels"]}
    page.close()


def test_every_link_to_the_gallery_names_what_the_gallery_knows(page: Any) -> None:
    page.locator("#unfold").click()
    hrefs = "nodes => nodes.map((node) => node.getAttribute('href'))"
    links = set(page.locator('a[href^="gallery.html#"]').evaluate_all(hrefs))
    assert len(links) > 100
    assert {name for link in links for name in parse_qs(link.partition("#")[2])} <= set(NAMES)
    page.locator("#unfold").click()
    assert page.locator("details.part[open]").count() == 0


def test_stress_and_confidence_are_drawn_and_their_marks_open_examples(page: Any, report: Path) -> None:
    unfold(page, "stress", "confidence")
    assert "Not asked under the protocol end to end" in page.locator("#stress .elsewhere").inner_text()
    page.locator("#stress .elsewhere button", has_text="independent").click()
    assert page.locator("#s-protocol").input_value() == "independent"
    assert page.locator(".elsewhere").count() == 0
    table = pl.read_csv(report / "tables" / "stress.csv").filter(pl.col("model") == "fair")
    mark = page.locator(f'#stress figure:nth-of-type(2) a.mark[aria-label^="fair: {100 * table["flips"][0]:.1f} ["]')
    choice = parse_qs(mark.get_attribute("href").partition("#")[2])
    assert choice == {"protocol": ["independent"], "model": ["fair"], "condition": ["history"], "state": ["changed"]}
    bins = page.locator('#confidence a.mark[href*="confidence=80"]').first
    assert parse_qs(bins.get_attribute("href").partition("#")[2])["model"] == ["good"]
    asked = (
        pl.read_parquet(report / "grades.parquet").filter(model="good", protocol="independent")["item_id"].n_unique()
    )
    gallery = page.context.new_page()
    for link, found in ((mark, EXAMPLES), (bins, asked)):
        gallery.goto((report / "index.html").as_uri().replace("index.html", link.get_attribute("href")))
        gallery.locator("body[data-ready]").wait_for()
        gallery.reload()
        gallery.locator("body[data-ready]").wait_for()
        assert gallery.locator("#count").inner_text().startswith(f"{found} of ")
    gallery.goto(gallery.url.partition("#")[0] + "#condition=history&state=changed&model=fair")
    gallery.locator("#cards a").first.click()
    assert "after a false history" in gallery.locator("#item h2").inner_text()
    assert gallery.locator("#item .question").first.inner_text().startswith("History: known")
    assert gallery.locator("#item .state.changed").count() == 1
    gallery.close()


def test_a_threshold_outside_the_tested_depths_stands_on_its_side(page: Any) -> None:
    """Rows stand in for those of the page's table, which are put back."""
    drawn, untold = page.evaluate("""() => {
      const base = { protocol: "end_to_end", seen_in: "points", items: 9, patients: 9, with_error: 9 };
      const table = report.rows("thresholds"), kept = table.splice(0);
      table.push(
        { ...base, model: "good", reads: "> 60.0", reads_between: "52.0 to > 60.0", threshold: null },
        { ...base, model: "fair", reads: "< 2.0", reads_between: "< 2.0 to 3.0", threshold: null },
        { ...base, model: "reader/anna", reads: "9.0", reads_between: "8.0 to 10.0", threshold: 9 },
        { ...base, model: "baseline/oracle", reads: `${report.data.not_told}: fewer than 200 responses`,
          reads_between: null, threshold: null });
      const figure = views.of("limits")[0], caption = figure.querySelector("figcaption").textContent;
      const untold = figure.querySelector('[aria-label^="baseline/oracle: cannot be told"]').textContent;
      const marks = [...figure.querySelectorAll(".mark:has(path)")].map((mark) => ({
        caption, said: mark.getAttribute("aria-label"),
        name: mark.getAttribute("aria-label").split(".  ")[0], href: mark.getAttribute("href"),
        at: Number(mark.querySelector("path").getAttribute("transform").match(/[\\d.]+/)[0]),
        ends: [...mark.querySelectorAll(".whisker")].map((one) =>
          ["x1", "x2"].map((end) => Number(one.getAttribute(end))))[0],
      }));
      table.splice(0, table.length, ...kept);
      return [marks, untold];
    }""")
    assert untold == "baseline/oracle– cannot be told"
    above, below, anna = (
        next(one for one in drawn if one["name"].startswith(name)) for name in ("good", "fair", "reader")
    )
    assert below["at"] < anna["at"] < above["at"]
    assert above["ends"][0] < above["ends"][1] == above["at"]
    assert below["ends"][0] == below["at"] < below["ends"][1]
    assert above["said"].count("52.0") == 1, "the interval is said once"
    assert above["name"].startswith("good: > 60.0 [52.0, > 60.0]")
    assert parse_qs(anna["href"].partition("#")[2])["kind"] == ["revision_expansion", "revision_contraction"]


def test_models_are_shown_first_where_a_reader_or_a_baseline_is_better(page: Any) -> None:
    assert page.evaluate("report.order()[0]") == "baseline/oracle"
    assert page.evaluate("comparing.pair()") == ["good", "fair"], "the reader is better than fair"
    assert page.evaluate("views.picked()") == "good"


def test_two_models_are_compared_on_the_same_items(page: Any, report: Path) -> None:
    unfold(page, "compare")
    page.select_option("#compare select[aria-label='model A']", HOSTILE)
    page.select_option("#compare select[aria-label='model B']", "good")
    table = pl.read_csv(report / "tables" / "differences.csv")
    row = table.filter((pl.col("model_a") == "good") & (pl.col("model_b") == HOSTILE) & (pl.col("dimension") == "all")
                       & (pl.col("protocol") == "end_to_end")).row(0, named=True)  # fmt: skip
    links = page.locator("#compare .counts a").all_inner_texts()
    counts = [int(text.split()[0].replace(",", "")) for text in links]
    assert counts == [row["both"], row["only_b"], row["only_a"], row["neither"], row["every"]], "turned round"
    assert sum(counts[:4]) == row["items"]
    assert f"{100 * -row['difference']:.1f} points".replace("-", "−") in page.locator("#compare .content").inner_text()
    only_a = parse_qs(page.locator("#compare .counts a").nth(1).get_attribute("href").partition("#")[2])
    assert (only_a["right"], only_a["wrong"]) == ([HOSTILE], ["good"])
    assert view(page)["a"] == [HOSTILE]
    page.locator("#compare button", has_text="exchange").click()
    assert (view(page)["a"], view(page)["b"]) == (["good"], [HOSTILE])
    caption = page.locator("#compare figcaption").first.inner_text()
    assert "the verdict “different” after Holm's correction" in caption
    assert "Intervals are not corrected" in caption
    verdicts = pl.read_csv(report / "tables" / "pairs.csv").filter(
        (pl.col("protocol") == "end_to_end") & (pl.col("model_a") == "good") & (pl.col("model_b") == HOSTILE)
    )
    drawn = page.locator("#compare .panel svg").first.locator(".point.open").count()
    grey = verdicts.filter(
        pl.when(pl.col("verdict").is_not_null()).then(pl.col("verdict") != "different")
        .otherwise(~((pl.col("difference_low") > 0) | (pl.col("difference_high") < 0)).fill_null(False))
    )  # fmt: skip
    assert drawn == grey.height
    page.select_option("#s-score", "plain")
    assert "(the switches do not change this)" in page.locator("#compare .content").inner_text()
    assert "(tested: corrected for chance, all questions)" in page.locator(".best").inner_text()
    page.select_option("#s-score", "corrected")
    assert "(tested: corrected for chance, all questions)" not in page.locator(".best").inner_text()
    page.select_option("#compare select[aria-label='model B']", "good")
    chosen = [one.input_value() for one in page.locator("#compare .picker select").all()]
    assert chosen == [HOSTILE, "good"], "a model that stands on the other side changes places"
    assert (view(page)["a"], view(page)["b"]) == ([HOSTILE], ["good"])
    kinds = page.locator("#compare .panel svg").nth(1).get_attribute("aria-label")
    assert kinds == "kinds, share right"


def test_answers_against_the_key_and_findings_are_those_of_the_chosen_model(page: Any, report: Path) -> None:
    unfold(page, "kinds")
    page.select_option("#kinds .picker select", "fair")
    counted = pl.read_csv(report / "tables" / "answers_by_key.csv").filter(
        (pl.col("model") == "fair") & (pl.col("protocol") == "end_to_end") & (pl.col("kind") == "detection")
    )
    for key, answer, items in counted.select("key", "answer", "items").rows():
        mark = page.locator(f'#kinds svg[aria-label="detection"] [aria-label^="{key}, {answer}: {items} of "]')
        assert mark.count() == 1, (key, answer)
    assert counted["items"].sum() == 16
    assert "no answer" in counted["answer"].to_list(), "the model refused some"


def test_kinds_say_that_they_have_no_corrected_score_among_answered_questions(page: Any, report: Path) -> None:
    unfold(page, "kinds")
    page.locator("#kinds figcaption").first.wait_for()
    # The section is filled again with the next frame, once it has said that it is open.
    next_frames(page)
    caption = page.locator("#kinds figcaption").first
    assert caption.inner_text().startswith("Score corrected for chance of each kind")
    assert (
        "The kind “grid cell” is corrected for chance here; the leaderboard shows its plain hit rate."
        in caption.inner_text()
    )
    assert "cardiomegaly" not in caption.inner_text(), "it was not asked about"
    with_it = page.evaluate("""() => {
      const table = report.rows("finding_kinds");
      table.push({ ...table[0], finding: "cardiomegaly", kind: "detection", protocol: "end_to_end" });
      const said = views.of("kinds")[0].querySelector("figcaption").textContent;
      table.pop();
      return said;
    }""")
    assert "Kinds include cardiomegaly, which levels leave out." in with_it
    corrected = page.locator('#kinds svg[aria-label="detection"]').first.locator('[aria-label^="fair: "]')
    assert "Guessing 0; not corrected: chance 50.0 %" in corrected.get_attribute("aria-label")
    page.select_option("#s-answers", "answered")
    assert caption.inner_text().startswith(
        "Accuracy among answered questions of each kind of question, %. Not corrected"
    )
    kinds = pl.read_csv(report / "tables" / "kinds.csv").filter(
        (pl.col("model") == "fair") & (pl.col("protocol") == "end_to_end") & (pl.col("kind") == "detection")
    )
    mark = page.locator('#kinds svg[aria-label="detection"]').first.locator('[aria-label^="fair: "]')
    assert mark.get_attribute("aria-label").startswith(f"fair: {100 * kinds['accuracy_answered'][0]:.1f} ")
    page.locator("#kinds details.table > summary").first.click()
    # A table that was open before keeps its rows until it has said that it is open again.
    page.locator("#kinds .tools", has_text="this table has no score corrected for chance").first.wait_for()
    page.select_option("#s-score", "plain")
    assert "Not corrected" not in caption.inner_text()


def further(report: Path) -> str:
    """Return the page with rows of tables that a run of this module's models does not fill."""
    one = {"model": "good", "protocol": "end_to_end", "unfinished": 0}
    middles = {"net": 0.4, "right_present": 0.7, "abstained": 0.2, "accuracy_kept": 0.9, "changed": 0.1,
               "difference": 0.3, "bias": -0.15, "chosen": 0.2, "key_share": 0.35}  # fmt: skip
    ends = {f"{name}{end}": at + step for name, at in middles.items() for end, step in
            (("", 0), ("_low", -0.1), ("_high", 0.1))}  # fmt: skip
    place = {**one, "kind": "point", "net": ends["net"], "net_low": 0.3, "net_high": 0.5, "right_present": 0.7,
             "placed_absent": 0.3, "misplaced": 0.1, "missed": 0.2, "unread": 0.0, "present": 20, "absent": 10,
             "frame": "pixels"}  # fmt: skip
    added = {
        "places": [{**place, "finding": "effusion"}, {**place, "finding": MACRO}],
        "abstention": [{**one, "level": ALL, "items": 50, "accuracy_all": 0.72, **ends}],
        "without_radiograph": [{**one, "without": "blind", "score": "coarse", "with_image": 0.8, "without_image": 0.5,
                                **ends}],
        "rotations": [{**one, "rotation": turn, "score": "coarse", "value": 0.5, "spread": 0.25} for turn in (0, 1)],
        "agreement": [{**one, "kind": "detection", "items": 9, "same_answer": 0.75, "same_verdict": 0.8}],
        "positions": [{**one, "kind": "severity", "position": 2, "answers": 30, **ends}],
        "grounding": [{**one, "looks": "uses the lesion", "audited": 9, "patients": 9, "findings": 2,
                       "accuracy": 0.9, "net_grounding": 0.5, "net_grounding_low": -0.2,
                       "net_grounding_high": 0.9, "right_and_grounded": 0.4}],
        "thresholds": [{**one, "seen_in": "points", "items": 9, "patients": 9, "with_error": 9, "reads": "> 60.0",
                        "reads_between": "52.0 to > 60.0", "threshold": None}],
        "random_readers": [{**one, "score": "coarse", "readers": 3, "patients": 9, **ends}],
        "stress": [{**one, "stress": "noise", "items": 9, "patients": 9, "accuracy_original": 0.9,
                    "accuracy_stressed": 0.6, "change": -0.3, "change_low": -0.5, "change_high": -0.1, "flips": 0.3}],
        "stress_curve": [{**one, "stress": "noise", "strength": str(step), "items": 9, "patients": 9,
                          "change": -0.1 * step, "change_low": -0.6, "change_high": 0.0, "flips": 0.1 * step}
                         for step in range(1, 6)],
    }  # fmt: skip
    html = (report / "index.html").read_text()
    begin, end = '<script type="application/json" id="data">', "</script>"
    before, rest = html.split(begin, 1)
    text, after = rest.split(end, 1)
    data = json.loads(text)
    data["tables"] |= {
        name: {"caption": name, "rows": len(rows), "columns": [],
               "values": {column: [row[column] for row in rows] for column in rows[0]}}
        for name, rows in added.items()
    }  # fmt: skip
    return f"{before}{begin}{script_json(data)}{end}{after}"


# The number of names in a plane of 14 models with similar numbers, and the names that meet another name or a mark.
NAMES_THAT_MEET = """() => {
  const at = (value) => ({ value, low: value - 0.1, high: value + 0.1 }), scale = { name: "", from: 0, to: 1 };
  const points = [...Array(14).keys()].map((place) => ({ label: `a model of the family ${place}`, role: "model",
    verdict: "undecided", lines: [], x: at(0.9 - 0.015 * (place % 5)), y: at(0.5 + 0.02 * (place % 3)) }));
  const plane = plots.plane({ title: "", points, across: scale, up: scale });
  document.getElementById("report").append(plane);
  const nodes = (kind) => [...plane.querySelectorAll(`.mark ${kind}`)], names = nodes(".name");
  const box = (node) => node.getBoundingClientRect(), across = (one, other) => one.left < other.right;
  const down = (one, other) => one.top < other.bottom - 2;
  const meet = (one, other) => across(one, other) && across(other, one) && down(one, other) && down(other, one);
  const wrong = names.filter((name) => [...names, ...nodes(".point")].some(
    (other) => other !== name && meet(box(name), box(other))));
  plane.remove();
  return [names.length, wrong.map((name) => name.textContent)];
}"""


def test_places_abstentions_and_what_answers_depend_on_are_drawn(shared: Tab, report: Path, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(further(report))
    page = shared.page.context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "index.html").as_uri())

    def marks(section: str) -> list[str]:
        return page.evaluate(
            """(section) => effects.of(section).flatMap((node) => [...node.querySelectorAll("[data-mark]")]
              .map((mark) => mark.getAttribute("aria-label")))""", section,
        )  # fmt: skip

    places, held = marks("places"), marks("confidence")[-3:]
    assert places[0].startswith("good: 40.0 [30.0, 50.0]. 95 % interval. Present: 70.0 % right; absent: 30.0 %")
    assert [text.split(". ")[:2] for text in places[1:]] == [
        ["good: right place", "14 of 20 items, 70.0 %"], ["good: wrong place", "2 of 20 items, 10.0 %"],
        ["good: answered “nowhere”", "4 of 20 items, 20.0 %"],
    ]  # fmt: skip
    assert [text.split(" [")[0] for text in held] == ["good: 20.0", "good: 90.0", "good: 10.0"]
    assert "Right of all questions: 72.0 %" in held[1]
    page.evaluate("report.change({ model: 'good' }, true)")
    (lost,), (turned, again, favoured) = marks("without"), marks("effects")
    assert lost.startswith("good: 30.0 [20.0, 40.0]. 95 % interval. With: 80.0; without: 50.0")
    assert turned.startswith("good: 25.0")
    assert "Order 0: 50.0" in turned
    assert again.startswith("good: 75.0")
    assert favoured.startswith("severity, 2: −15.0 [−25.0, −5.0]. Chosen: 20.0 %, key: 35.0 %")
    page.evaluate("""() => document.getElementById("report").append(report.make("div", { class: "content" },
      ...["places", "without", "effects", "confidence", "grounding", "limits", "stress", "comparisons"]
        .flatMap(effects.of)))""")
    assert page.locator("#report > .content .panel").count() >= 15
    for width in SCREENS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(LAYOUT) == []
    assert marks("grounding")[0].startswith("good: net grounding, points 50.0 [−20.0, 90.0], detection right, % 90.0.")
    for width in SCREENS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(NAMES_THAT_MEET) == [14, []]
    assert complaints == []
    page.close()


def test_terms_are_explained_where_they_stand(page: Any) -> None:
    head = page.locator("#leaders thead button", has_text="coarse")
    head.focus()
    assert "presence of the lesion" in page.locator("#tip").inner_text()
    assert head.evaluate("node => getComputedStyle(node).textDecorationStyle") == "dotted"
    unfold(page, "terms")
    assert "Share of right answers among all asked items." in page.locator("#terms").inner_text()


def test_a_heading_stays_where_it_was_clicked(page: Any) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    heading = page.locator("#terms > summary")
    heading.evaluate("node => node.scrollIntoView({ block: 'center' })")
    before = heading.bounding_box()["y"]
    heading.click()
    page.locator("#terms dt").first.wait_for()
    next_frames(page)
    assert heading.bounding_box()["y"] == pytest.approx(before, abs=2)


def test_the_leaderboard_is_whole_at_every_width(page: Any) -> None:
    cut, below = page.evaluate("""async () => {
      const [board, first] = [report.$("board"), document.querySelector(".first")], found = [[], []];
      for (const width of [1390, 1280, 1200]) {
        document.querySelector("main").style.width = `${width - 164}px`;
        window.dispatchEvent(new Event("resize"));
        if (board.scrollWidth > board.clientWidth + 1) found[0].push(width);
        if (first.classList.contains("below")) found[1].push(width);
      }
      document.querySelector("main").style.width = "";
      window.dispatchEvent(new Event("resize"));
      return found;
    }""")
    assert cut == []
    assert 1200 in below, "the plot gives its place to the table"
    assert 1390 not in below


@pytest.mark.parametrize("width", SCREENS)
def test_nothing_overflows_overlaps_or_is_clipped(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("#unfold").click()
    found = page.evaluate(LAYOUT)
    silent = page.evaluate("""() => [...document.querySelectorAll(".panel.cells")].filter((panel) =>
      (panel.scrollWidth > panel.clientWidth + 1) !== Boolean(panel.querySelector(".sideways"))).length""")
    page.locator("#unfold").click()
    assert found == []
    assert silent == 0, "a plot that scrolls says so"


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_axe_finds_nothing_serious(page: Any, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    unfold(page, "levels", "compare", "kinds", "states")
    page.locator("#levels details.table > summary").first.click()
    found = serious(page)
    page.emulate_media(color_scheme="light")
    assert found == []


def test_forced_colours_keep_bars_and_marks_visible(page: Any) -> None:
    page.emulate_media(forced_colors="active")
    colours = page.evaluate("""() => [".bar .value", ".bar .track", "#stops .line"].map((name) => {
      const style = getComputedStyle(document.querySelector(name));
      return name.endsWith("line") ? style.stroke : style.fill;
    }).concat(getComputedStyle(document.body).backgroundColor)""")
    page.emulate_media(forced_colors="none")
    value, track, line, paper = colours
    assert value not in (track, paper)
    assert line != paper


@pytest.mark.long
def test_print_has_everything_and_every_table_whole(page: Any, report: Path, tmp_path: Path) -> None:
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.set_viewport_size({"width": 700, "height": 720})
    page.emulate_media(media="print")
    assert page.locator(".leaders thead").is_visible(), "an upright sheet, which the page turns, is no narrow window"
    page.set_viewport_size({"width": 1032, "height": 720})
    cut = page.evaluate("""() => [...document.querySelectorAll("main table, main svg:not(.bar)")]
      .filter((node) => node.getBoundingClientRect().right > 1033).map((node) => node.textContent.slice(0, 60))""")
    printed = page.locator("main").inner_text()
    page.emulate_media(media="null")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert cut == []
    tables = {path.stem: pl.read_csv(path) for path in (report / "tables").glob("*.csv")}
    assert "Protocol end to end" in printed
    assert "Protocol independent" in printed
    assert (
        printed.count("independent") > tables["levels"].filter(pl.col("protocol") == "independent")["model"].n_unique()
    )
    for name in ("Number of questions that ended in each state", "Differences between every two models", "Methods"):
        assert name in printed
    baselines = pl.any_horizontal(pl.col("model_a", "model_b").str.starts_with("baseline/"))
    assert f"{tables['pairs'].filter(baselines).height} pairs with a baseline: see tables/pairs.csv" in printed
    (asked,) = tables["states"]["items"].unique()
    assert f"In every row: items {asked}, unparsed 0" in printed, "what all rows have in common is said once"
    assert page.locator("details.part[open]").count() == 0, "the page is as it was"
    page.pdf(path=str(tmp_path / "page.pdf"), prefer_css_page_size=True)
    told = shutil.which("pdftotext")
    if told:
        text = subprocess.run(
            [told, "-layout", str(tmp_path / "page.pdf"), "-"], capture_output=True, text=True, check=True
        )
        assert "Where models stop seeing" in text.stdout
        sheets = [sheet for sheet in text.stdout.split("\f") if sheet.count("confirmatory") > 1]
        assert sheets
        assert all("model a" in sheet for sheet in sheets), "every sheet of a long table has its headings"
        assert re.search(r"^\s*good\s+end to end", text.stdout, re.MULTILINE)


@pytest.mark.long
def test_long_narrow_tables_stand_beside_themselves_in_print(page: Any) -> None:
    style = page.add_style_tag(content="body.printed :is(th, td) { max-width: 5em; overflow: hidden; }")
    page.set_viewport_size({"width": 1032, "height": 720})
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    found = page.evaluate("""() => [...document.querySelectorAll(".side table")].map((table) => {
      const boxes = [...table.tBodies[0].rows].map((row) => row.getBoundingClientRect());
      const columns = new Set(boxes.map((box) => Math.round(box.left)));
      return [boxes.length, columns.size, Math.max(...boxes.map((box) => box.right))];
    })""")
    page.emulate_media(media="null")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    style.evaluate("tag => tag.remove()")
    assert found
    assert all(rows >= 20 and columns > 1 and right <= 1033 for rows, columns, right in found), found
    assert page.locator(".side").count() == 0, "the page is as it was"


def test_nothing_leaves_the_page_and_names_are_text(page: Any, report: Path, shared: Tab) -> None:
    assert shared.complaints == []
    assert {url for url in shared.requests if not url.startswith(("about:", report.as_uri()))} == set()
    assert page.evaluate("window.stolen") is None
    assert page.locator("#leaders .name", has_text="onerror").inner_text() == HOSTILE
    assert page.locator("main img").count() == 0


def test_a_score_opens_the_items_that_count_in_it(page: Any) -> None:
    """Items on cardiomegaly, and with the mean those of the grid, are not among them. A row stands in for its items."""
    mean, coarse, levels = page.evaluate("""() => {
      const table = report.rows("finding_kinds");
      table.push({ ...table[0], protocol: report.view.protocol, finding: report.data.not_compared });
      const found = [report.counted(report.data.overall), report.counted("coarse"), report.data.levels];
      table.pop();
      return found;
    }""")
    assert mean["level"] == levels
    assert coarse["level"] == "coarse"
    assert "cardiomegaly" not in mean["finding"] == coarse["finding"] != []


def test_marks_of_one_place_in_the_plane_share_a_label(page: Any) -> None:
    labels = page.evaluate("""() => {
      const place = (value) => ({ value, low: null, high: null });
      const points = [["good", 0.9], ["fair", 0.5], ["poor", 0.5]].map(([label, value]) => ({ label, role: "model",
        verdict: "undecided", x: place(value), y: place(0), lines: [], choice: null }));
      const ends = { name: "n", from: 0, to: 1 };
      const plane = plots.plane({ title: "t", points, across: ends, up: ends });
      return [...plane.querySelectorAll("text.name")].map((one) => one.textContent);
    }""")
    assert sorted(labels) == ["fair, poor", "good"]
