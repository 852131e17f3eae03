"""Grounding: a reader of text, a reader of pixels and a coin are told apart; each measure equals a plain count."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import polars as pl
import pytest
from browser import QUIET, playwright_api
from fake_server import Reply, completion
from grades import run, study, turn
from handmade import Handmade
from planted_looks import SIX, table_of
from quick_report import hurry

from chexqa.cli import main
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Picture
from chexqa.eval.gallery import entries
from chexqa.eval.grounding import grounding_tables
from chexqa.eval.grounding.followed_keys import right_without_lesion
from chexqa.eval.grounding.net_grounding import (
    NOT_SHOWN,
    NOT_SHOWN_PATIENTS,
    UNDECIDED,
    USES,
    few_audited,
    net_grounding,
    verdict,
)
from chexqa.eval.grounding.published_measures import IGNORES, OTHER, READS, published_class, with_partners
from chexqa.eval.models import registry
from chexqa.eval.records import methods
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.runs.status import status
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS, Sample
from chexqa.eval.scoring.predictions import export_predictions, read_predictions
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.tables.all_tables import tables_of
from chexqa.files.errors import InputError
from chexqa.files.jsonio import dump, write_jsonl
from chexqa.generators.interventions import altered_items

pytestmark = pytest.mark.xdist_group("grounding")
PRESENT, ABSENT = 48, 12
FINDINGS = ("effusion", "edema")
THREE = ("original", "target", "irrelevant")
Reader = Callable[[bytes, str], bool]


def drawn(folder: Path, name: str, bright: bool) -> str:
    """Store a picture whose middle is bright or dark, and return its path."""
    seed = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
    image = np.random.default_rng(seed).integers(0, 40, (32, 32)).astype(np.uint8)
    image[12:20, 12:20] += np.uint8(200 * bright)
    data = cv2.imencode(".png", image)[1].tobytes()
    path = benchmark.image_path(hashlib.sha256(data).hexdigest())
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(data)
    return path


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """A benchmark of detection items whose lesion is a bright square, with target and irrelevant pictures."""
    made = Handmade(tmp_path_factory.mktemp("grounding"))
    rows: list[dict[str, Any]] = []
    for number in range(PRESENT + ABSENT):
        finding, present = FINDINGS[number % 2], number < PRESENT
        case_id = made.case(f"n{number}", finding, "lesion_free", detection=(1,) if present else (2,))
        shown = (Picture("radiograph", drawn(made.folder, f"{number}", present)),)
        item = made.items[-1] = replace(made.items[-1], turn_images=shown, alone_images=shown)
        if not present:
            left = [altered_items.NotAudited(case_id, finding, "target", "no place").to_record()]
            rows.append({"items": [], "keys": [], "not_audited": left})
            continue
        pictures = {"target": (False, None), "irrelevant": (True, (1,))}
        items, keys = [], []
        for name, (bright, key) in pictures.items():
            path = drawn(made.folder, f"{number}{name}", bright)
            items.append(altered_items.altered_record(item, name, path, item.question))
            keys.append(altered_items.AlteredKey(f"{item.item_id}@{name}", key, 64, "all").to_record())
        left = [altered_items.NotAudited(case_id, finding, "partial", "no part").to_record()]
        rows.append({"items": items, "keys": keys, "not_audited": left})
    folder = made.write()
    about = json.loads((folder / benchmark.ABOUT).read_text())
    about["interventions"] = {"fill": "inpaint", **altered_items.write(folder, rows)[0]}
    (folder / benchmark.ABOUT).write_text(dump(about))
    return benchmark.load(folder)


def reads_text(picture: bytes, text: str) -> bool:
    return True


def reads_pixels(picture: bytes, text: str) -> bool:
    image = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_GRAYSCALE)
    return bool(image[12:20, 12:20].mean() > 120)


def coin(picture: bytes, text: str) -> bool:
    return int(hashlib.sha256(picture).hexdigest()[:8], 16) % 100 < 90


READERS: dict[str, Reader] = {"text": reads_text, "pixels": reads_pixels, "coin": coin}


@contextmanager
def server() -> Iterator[str]:
    """Yield the address of a server whose models get the PNG bytes of a request and its last text."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            parts = body["messages"][-1]["content"]
            [url] = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
            picture = base64.b64decode(url.partition(",")[2])
            assert picture.startswith(b"\x89PNG")
            said = READERS[body["model"]](picture, parts[-1]["text"])
            data = json.dumps(completion(body, Reply(f"Answer: {1 if said else 2}"))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}/v1"
    finally:
        http.shutdown()
        http.server_close()


def settings(bench: Benchmark, url: str, folder: Path, interventions: tuple[str, ...]) -> RunConfig:
    models = tuple(registry.adhoc(name, url) for name in READERS)
    return RunConfig(bench, models, "end_to_end", folder, interventions=interventions)


@pytest.fixture(scope="module")
def asked(bench: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the three readers: first the originals, then the altered pictures in the same folder."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    with server() as url:
        runner.run(settings(bench, url, folder, ("original",)))
        assert "interventions" not in json.loads((folder / "run.json").read_text())
        rows = runner.run(settings(bench, url, folder, THREE))
        assert all(progress.asked == 2 * PRESENT for progress in rows), "an answered original is not asked again"
    return folder


@pytest.fixture(scope="module")
def tables(asked: Path) -> dict[str, pl.DataFrame]:
    return tables_of(scored_sample(grade.grade_folders([asked])))


def test_a_run_continued_without_its_conditions_is_not_called_finished(
    cli: Callable[..., tuple[int, str, str]], asked: Path, bench: Benchmark, tmp_path: Path
) -> None:
    run = shutil.copytree(asked, tmp_path / "run")
    path = run / "turns" / "pixels.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with server() as url:
        command = ("eval", bench.folder, "--model-id", "pixels", "--api-base", url, "-o", run)
        code, out, err = cli(*command)
        assert (code, "Next:" in out) == (3, False)
        assert "1 turn of the run's other conditions unfinished; add --condition original,target,irrelevant" in err
        told = " ".join(cli("run", "status", run)[1].split())
        assert "command (with --condition original,target,irrelevant) again" in told
        assert cli(*command, "--condition", "original,target,irrelevant")[0] == 0
        assert cli(*command)[0] == 0


def test_chosen_cases_without_an_altered_picture_are_told(
    cli: Callable[..., tuple[int, str, str]], bench: Benchmark, tmp_path: Path
) -> None:
    """The first case shows its finding, and the last case does not, so that only the first has altered pictures."""
    with server() as url:
        command = ("eval", bench.folder, "--model-id", "text", "--api-base", url, "--condition", "original,target")
        said = [cli(*command, "--shard", f"{part}/{PRESENT + ABSENT}", "-o", tmp_path / "run")[2] for part in (1, 60)]
    assert ["none of the chosen cases has an altered picture" in text for text in said] == [False, True]


def test_a_trial_of_altered_pictures_asks_cases_that_have_them(
    cli: Callable[..., tuple[int, str, str]], bench: Benchmark, tmp_path: Path
) -> None:
    """A fifth of the cases has no altered picture, so a choice that does not look would take some of these."""
    run = tmp_path / "run"
    with server() as url:
        command = ("eval", bench.folder, "--model-id", "text", "--api-base", url, "--limit", "30", "-o", run)
        assert cli(*command, "--condition", "original,target")[0] == 0
        turns = [json.loads(line)["item_id"].partition("@") for line in (run / "turns" / "text.jsonl").open()]
        asked = {item_id for item_id, at, _ in turns if not at}
        assert asked == {item_id for item_id, at, _ in turns if at}
        assert len(asked) == 30
        assert cli(*command)[0] == 0, "a run keeps its cases when it goes on with another condition"
    assert cli("grade", run)[0] == 0
    graded = grade.grade_folders([run])
    said = " ".join(methods.paragraphs(graded, tables_of(scored_sample(graded))))
    assert "Only 30 cases were asked, as a trial. Cases with altered pictures (target) were taken first." in said


def test_an_export_tells_how_many_altered_items_it_leaves_out(
    cli: Callable[..., tuple[int, str, str]], bench: Benchmark, tmp_path: Path
) -> None:
    code, _, err = cli("export", bench.folder, "--format", "inspect", "-o", tmp_path / "inspect")
    assert (code, f"note: {2 * PRESENT} altered items left out; 'chexqa eval --condition' asks them." in err) == (
        0,
        True,
    )
    code, _, err = cli("export", bench.folder, "--no-key", "-o", tmp_path / "withheld")
    assert (code, "left out" in err) == (0, False)
    assert (tmp_path / "withheld" / altered_items.ITEMS).is_file()


def row_of(tables: dict[str, pl.DataFrame], model: str) -> dict[str, Any]:
    return tables["grounding"].filter(pl.col("model") == model).row(0, named=True)


def test_a_reader_of_text_alone_is_not_shown_to_use_the_lesion(tables: dict[str, pl.DataFrame]) -> None:
    row = row_of(tables, "text")
    assert (row["cgr"], row["uar"], row["is"]) == (0, 1, 1)
    assert (row["published_class"], row["net_grounding"]) == (IGNORES, 0)
    assert row["looks"] != USES


def test_a_reader_of_pixels_uses_the_lesion(tables: dict[str, pl.DataFrame]) -> None:
    row = row_of(tables, "pixels")
    assert (row["cgr"], row["is"], row["accuracy"], row["right_and_grounded"]) == (1, 1, 1, 1)
    assert (row["published_class"], row["looks"], row["audited"], row["audited_share"]) == (READS, USES, PRESENT, 1)
    assert (row["patients"], row["findings"]) == (PRESENT, len(FINDINGS))
    assert tables["grounding_findings"].filter(model="pixels")["net_grounding"].to_list() == [1, 1]


def test_reasons_are_told_only_for_conditions_that_were_asked(asked: Path, tables: dict[str, pl.DataFrame]) -> None:
    """No run asks with partial pictures, which no present case has."""
    assert tables["not_audited"].select("condition", "reason").unique().rows() == [("target", "no place")]
    assert tables["not_audited"]["cases"].sum() == ABSENT
    flags = [entry.flags for entry in entries.collect(grade.grade_folders([asked])).flat()]
    assert sorted(set(flags)) == [(), ("not asked with the target picture: no place",)]
    assert sum(map(bool, flags)) == ABSENT


def test_a_coin_is_not_said_to_use_it(tables: dict[str, pl.DataFrame]) -> None:
    assert row_of(tables, "coin")["looks"] != USES


def test_answers_to_altered_pictures_count_in_no_headline(asked: Path, bench: Benchmark) -> None:
    graded = grade.grade_folders([asked])
    assert graded.grades.height == len(READERS) * (PRESENT + ABSENT)
    assert set(graded.grades["item_id"]) == {item.item_id for item in bench.items}
    text = graded.grades.filter(model="text")["correct"].mean()
    assert text == PRESENT / (PRESENT + ABSENT)


def test_status_and_predictions_know_the_altered_items(asked: Path, bench: Benchmark, tmp_path: Path) -> None:
    total = PRESENT + ABSENT + 2 * PRESENT
    assert [(row.done, row.total) for row in status(asked)] == [(total, total)] * len(READERS)
    _, (loaded,) = grade.load_runs([asked])
    path = tmp_path / "answers.jsonl"
    write_jsonl(path, export_predictions(loaded), "prediction")
    again = grounding_tables.grounding(scored_sample(grade.grade_runs(bench, read_predictions(path, bench))))
    first = grounding_tables.grounding(scored_sample(grade.grade_runs(bench, [loaded])))
    assert again.sort("model").equals(first.sort("model"))


def test_conditions_that_cannot_be_asked_are_named(bench: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no pictures of this condition"):
        runner.run(settings(bench, "http://127.0.0.1:9/v1", tmp_path / "run", ("mirror",)))
    assert not (tmp_path / "run").exists()


def plain_count(bench: Benchmark, said: dict[str, int]) -> tuple[float, ...]:
    """Return CGR, UAR, IS, net grounding, and the share right and grounded, counted one answer after another."""
    answers, cases = bench.key("the test")
    right = [item for item in bench.items if said[item.item_id] == answers[item.item_id].answer[0]]
    yes = [item for item in right if answers[item.item_id].answer == (1,)]
    cgr = [said[f"{item.item_id}@target"] != said[item.item_id] for item in yes]
    stays = [said[f"{item.item_id}@irrelevant"] == said[item.item_id] for item in yes]
    alike = []
    for item in right:
        key, case = answers[item.item_id].answer, cases[item.case_id]
        others = [
            said[other.item_id] for other in bench.items
            if other.finding == item.finding and answers[other.item_id].answer == key
            and cases[other.case_id].patient_id != case.patient_id
        ]  # fmt: skip
        alike.append(np.mean([answer == said[item.item_id] for answer in others]))
    nets, grounded = [], []
    for finding in FINDINGS:
        here = [
            item.item_id for item in bench.items if item.finding == finding and answers[item.item_id].answer == (1,)
        ]
        flips = [[said[f"{one}@{name}"] != said[one] for one in here] for name in ("target", "irrelevant")]
        nets.append(np.mean(flips[0]) - np.mean(flips[1]))
        grounded.append(np.mean([said[one] == 1 and flips[0][place] and not flips[1][place]
                                 for place, one in enumerate(here)]))  # fmt: skip
    return tuple(float(np.mean(values)) for values in (cgr, alike, stays, nets, grounded))


def simulated(bench: Benchmark, models: dict[str, tuple[float, float]], seed: int) -> tuple[pl.DataFrame, Any]:
    """Return the table and the answers of models; each says yes with one rate, and with another where it is filled."""
    rng = np.random.default_rng(seed)
    altered = altered_items.load(bench).items
    said = {
        name: {item_id: int(rng.random() >= (filled if item_id.endswith("@target") else usual)) + 1
               for item_id in (*bench.item, *altered)}
        for name, (usual, filled) in models.items()
    }  # fmt: skip
    turns = [turn(name, item_id, (answer,)) for name, answers in said.items() for item_id, answer in answers.items()]
    own = [one for one in turns if "@" not in one.item_id]
    made = replace(run(own, tuple(models)), altered=tuple(one for one in turns if "@" in one.item_id))
    return grounding_tables.grounding(study(bench, [made])), said


def test_every_measure_equals_a_plain_count(bench: Benchmark) -> None:
    table, said = simulated(bench, {"a": (0.7, 0.3), "b": (0.5, 0.5), "c": (0.9, 0.1)}, 3)
    for row in table.to_dicts():
        expected = plain_count(bench, said[row["model"]])
        names = ("cgr", "uar", "is", "net_grounding", "right_and_grounded")
        assert [row[name] for name in names] == pytest.approx(expected, abs=1e-9)


def test_a_refusal_counts_in_the_accuracy_beside_the_verdict(bench: Benchmark) -> None:
    items = [item for item in bench.items if item.kind == "detection"]
    key = bench.key("this test")[0]
    turns = [turn("m", item.item_id, key[item.item_id].answer if number else "refused")
             for number, item in enumerate(items)]  # fmt: skip
    altered = tuple(turn("m", item_id, (1,)) for item_id in altered_items.load(bench).items)
    (row,) = grounding_tables.grounding(study(bench, [replace(run(turns), altered=altered)])).to_dicts()
    assert row["accuracy"] == pytest.approx((len(items) - 1) / len(items))


def test_an_item_is_audited_once_it_is_answered_on_both_filled_pictures(bench: Benchmark) -> None:
    turns = [turn("m", item_id, (1,)) for item_id in (*bench.item, *altered_items.load(bench).items)]
    own = [one for one in turns if "@" not in one.item_id]
    lesion, elsewhere = (
        [one for one in turns if one.item_id.endswith(f"@{name}")] for name in ("target", "irrelevant")
    )
    made = replace(run(own), altered=(*lesion, *elsewhere[:20]))
    (row,) = grounding_tables.grounding(study(bench, [made])).to_dicts()
    assert (row["audited"], row["audited_share"]) == (20, pytest.approx(20 / PRESENT))


def test_other_answers_of_the_same_patient_are_no_comparison() -> None:
    """Patient 1 has two cases; of the two other patients, one is answered like them."""
    rows = [(1, 1), (1, 1), (2, 1), (3, 2)]
    frame = pl.DataFrame({
        "model": "m", "protocol": "p", "repeat": 0, "rotation": 0, "kind": "detection", "finding": "edema",
        "view": "pa", "sex": "f", "answer": [[1]] * 4, "cluster": [row[0] for row in rows],
        "first": [[row[1]] for row in rows],
    })  # fmt: skip
    assert with_partners(frame)["same"].to_list() == pytest.approx([1 / 2, 1 / 2, 2 / 3, 0])


@pytest.mark.parametrize(("answers", "said"), [(50, OTHER), (500, READS), (None, None)])
def test_the_published_class_needs_more_than_a_few_changed_answers(answers: int | None, said: str | None) -> None:
    """One answer in a hundred changes: of 50 answers, 60 % of bootstrap samples have no change; of 500, 1 %."""
    assert published_class(0.01, answers, 0.9, 0.95) == said


def test_the_rate_of_flips_on_asking_the_original_again_is_recovered(bench: Benchmark) -> None:
    rng, repeats, rates = np.random.default_rng(4), 5, {"never": 0.0, "at times": 0.2, "coin": 0.5}
    turns = []
    for name, rate in rates.items():
        for number, item_id in enumerate(bench.item):
            usual = 1 + number % 2
            answers = [usual, *(3 - usual if rng.random() < rate else usual for _ in range(repeats - 1))]
            turns += [turn(name, item_id, (said,), repeat=repeat) for repeat, said in enumerate(answers)]
        turns += [turn(name, item_id, (1,)) for item_id in altered_items.load(bench).items]
    own = [one for one in turns if "@" not in one.item_id]
    made = run(own, tuple(rates))
    made = replace(made, about={**made.about, "repeats": repeats},
                   altered=tuple(one for one in turns if "@" in one.item_id))  # fmt: skip
    for row in grounding_tables.grounding(study(bench, [made])).to_dicts():
        counted = np.mean([one.parsed != own[number - one.repeat].parsed for number, one in enumerate(own)
                           if one.model == row["model"] and one.repeat])  # fmt: skip
        assert row["flips_again"] == pytest.approx(counted)
        assert row["flips_again_low"] - 1e-9 <= rates[row["model"]] <= row["flips_again_high"] + 1e-9


def test_coins_are_seldom_said_to_use_the_lesion_and_the_published_classes_let_them_pass() -> None:
    """``benchmarks/grounding/coins.py`` simulates 1,000 runs of each."""
    passed = {}
    for rate in (0.5, 0.85, 0.9, 0.95):
        table = table_of({f"run {number}": (rate, rate, rate) for number in range(200)}, 60, seed=5)
        assert table.height == 200
        assert table.filter(looks=USES).height <= 10
        passed[rate] = table.filter(published_class=READS).height
    assert passed[0.5] <= 2
    assert min(passed[0.85], passed[0.9], passed[0.95]) > 20


def test_what_six_models_owe_to_the_lesion_is_recovered() -> None:
    """``benchmarks/grounding/study.py`` does the same with phantoms, all conditions and a fresh seed."""
    table = table_of({model.name: model.rates for model in SIX}, 400, seed=1)
    for model, row in zip(SIX, table.to_dicts(), strict=True):
        assert (row["model"], row["looks"]) == (model.name, model.verdict)
        for name, planted in (("net_grounding", model.net_grounding), ("cgr", model.cgr), ("is", model.stability)):
            width = row[f"{name}_high"] - row[f"{name}_low"]
            assert abs(row[name] - planted) < 0.8 * width + 1e-9, (model.name, name)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((0.3, 0.2, 0.4), USES), ((0.09, 0.01, 0.17), "undecided"), ((0.2, -0.01, 0.4), "undecided"),
        ((0.02, -0.03, 0.07), NOT_SHOWN), ((0.5, None, None), "undecided"), ((None, None, None), None),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_the_interval(numbers: tuple[Any, Any, Any], said: str | None) -> None:
    assert verdict(*numbers) == said


def test_numbers_of_patients_that_a_verdict_needs_are_those_of_the_tables(bench: Benchmark) -> None:
    rates: Any = {"looks": (1.0, 0.0, 1.0), "yes": (1.0, 1.0, 1.0)}
    found = {count: table_of(rates, count, seed=1)["looks"].to_list() for count in (9, 10, 27, 28)}
    assert found == {9: ["undecided"] * 2, 10: [USES, "undecided"], 27: [USES, "undecided"], 28: [USES, NOT_SHOWN]}
    assert (LEAST_CLUSTERS, NOT_SHOWN_PATIENTS) == (10, 28)
    assert few_audited(bench, bench.items) is None
    assert few_audited(bench, bench.items[:27]) == (
        "27 patients can be audited with target and irrelevant pictures: enough for the verdict 'uses the lesion', too "
        "few for 'not shown to use it', which needs 28 or more."
    )
    few = few_audited(bench, bench.items[:9])
    assert few is not None
    assert few.startswith("No verdict on whether a model looks: 9 patients can be audited")
    effusions = [item for item in bench.items if item.finding == "effusion"]
    [one, *_] = (item for item in bench.items if item.finding == "edema")
    few = few_audited(bench, [*effusions[:9], one])
    assert few is not None
    assert few.startswith("No verdict on whether a model looks: 10 patients can be audited")
    assert "9 of them in findings with enough patients for the mean, and a verdict needs 10" in few
    few = few_audited(bench, [*effusions[:12], one])
    assert few is not None
    assert "12 of them in findings with enough patients for the mean: enough for the verdict 'uses the lesion'" in few


def test_an_estimate_says_which_verdict_will_be_missing(bench: Benchmark, cli: Any) -> None:
    asked = ("--models", "baseline/first", "--protocol", "independent", "--limit", "20")
    for conditions, count in (("original", 0), ("original,target,irrelevant", 1)):
        code, out, _ = cli("estimate", bench.folder, *asked, "--condition", conditions)
        assert (code, out.count("20 patients can be audited")) == (0, count)
        assert ("no difference between two models can be shown.\n" in out) == (count == 1), "all its cases are present"


def test_the_terminal_shows_a_row_a_model(tables: dict[str, pl.DataFrame]) -> None:
    from rich.console import Console

    from chexqa.eval.grounding.terminal_table import grounding_table
    from chexqa.eval.report.display_notes import plain_table

    console = Console(record=True, width=100)
    [table] = grounding_table(tables, plain_table)
    console.print(table)
    text = console.export_text()
    assert re.search(r"pixels +100\.0 +100\.0 +uses the lesion", text)
    assert grounding_table({}, plain_table) == []


@pytest.mark.long
def test_every_number_of_the_report_leads_to_both_pictures(
    asked: Path, tmp_path: Path, chromium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    assert main.run(["report", str(asked), "-o", str(tmp_path / "report")]) == 0
    with playwright_api().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(QUIET))
        page = browser.new_page()
        page.set_default_timeout(60_000)  # a busy machine is no failure
        page.goto((tmp_path / "report" / "index.html").as_uri())
        page.locator("#grounding > summary").click()
        page.locator("details[data-table=grounding] > summary").click()
        row = page.locator("details[data-table=grounding] tbody tr", has_text="pixels")
        row.wait_for()
        empty = row.locator("td", has_text=re.compile("^–$")).count()
        assert row.locator("a").count() == row.locator("td, th").count() - empty
        row.locator("a", has_text="uses the lesion").click()
        page.locator("#count", has_text=re.compile(f"^{PRESENT} of ")).wait_for()
        assert page.locator("#cards > li").first.locator("img, canvas").count() == 2
        page.go_back()
        page.locator("details[data-table=not_audited] > summary").click()
        reasons = page.locator("details[data-table=not_audited] tbody tr", has_text="no place")
        reasons.first.locator("td a", has_text="no place").click()
        page.locator("#count", has_text=re.compile(f"^{ABSENT // 2} of ")).wait_for()
        page.locator("#cards .flag", has_text="not asked with the target picture: no place").first.wait_for()
        browser.close()


def test_a_finding_with_few_patients_does_not_take_the_interval_of_the_others_away() -> None:
    rows = {name: ("effusion",) * 12 + (name,) for name in ("edema", "effusion")}
    for other, findings in rows.items():
        frame = pl.DataFrame({
            "model": "m", "protocol": "p", "finding": findings, "cluster": range(13), "right": True,
            "target": [True] * 12 + [False], "irrelevant": False,
        })  # fmt: skip
        net = net_grounding(Sample("patients", 13), frame)
        assert net.macro.value[0] == pytest.approx(1 if other == "edema" else 12 / 13)
        assert not np.isnan(net.macro.columns("x")["x_low"].to_list()[0] or np.nan)
        assert net.cells.height == len(set(findings))
        assert net.findings.tolist() == [1]


@pytest.mark.parametrize(
    ("sizes", "findings", "patients", "has_interval"),
    [((9, 2, 1), 2, 11, True), ((12, 2, 1), 1, 12, True), ((9, 1), 1, 9, False), ((1,) * 12, 12, 12, False)],
)
def test_a_finding_with_one_audited_patient_takes_no_verdict_from_the_others(
    sizes: tuple[int, ...], findings: int, patients: int, has_interval: bool
) -> None:
    """The model says yes to every original and irrelevant picture, and no to every target picture."""
    names = [str(place) for place, size in enumerate(sizes) for _ in range(size)]
    row = table_of({"looks": (1.0, 0.0, 1.0)}, len(names), 1, names).row(0, named=True)
    assert (row["findings"], row["patients"], row["audited"]) == (findings, patients, len(names))
    assert row["looks"] == (USES if has_interval else UNDECIDED)
    assert (row["net_grounding"], row["net_grounding_low"] is not None) == (1, has_interval)


def test_true_removal_is_of_twins_of_right_cases() -> None:
    edema = [(1, 1, True), (1, 2, True), (2, 1, True), (2, 2, False), (3, 1, False), (3, 2, True), (4, 1, True)]
    rows = [("edema", *row) for row in edema] + [("effusion", 4, 2, True)]
    frame = pl.DataFrame({
        "model": "m", "protocol": "p", "repeat": 0, "rotation": 0, "kind": "detection",
        "finding": [row[0] for row in rows], "cluster": [row[1] for row in rows], "answer": [[row[2]] for row in rows],
        "right": [row[3] for row in rows],
    })  # fmt: skip
    _, found = right_without_lesion(Sample("patients", 5), frame)
    assert found.value.tolist() == [0.5], (
        "one of two right cases with a twin; a wrong case and one without a twin of its finding are out"
    )
