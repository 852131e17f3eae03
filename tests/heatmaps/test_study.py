"""A study of map makers: recognition, thresholds of other patients, and conclusions that recover what was planted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.metrics import f1_score, roc_auc_score

from chexqa.eval.heatmaps import conclusions, grading, influence, metrics, recognition, study, targets, tuned
from chexqa.eval.heatmaps.map_files import map_name
from chexqa.imaging import masks

pytestmark = pytest.mark.xdist_group("heatmap_study")

Cli = Callable[..., tuple[int, str, str]]
SIDE, FINDINGS = 64, ("effusion", "edema", "opacity", "atelectasis")
# By model: domain, localization (chance of a map that points at the lesion), recognition (shift of present scores).
PLANTED = {"cxr one": ("cxr", 0.95, 3.0), "cxr two": ("cxr", 0.85, 2.0), "general one": ("general", 0.5, 0.8),
           "general two": ("general", 0.35, 0.3)}  # fmt: skip


def planted(folder: Path, cases: int = 40) -> tuple[Path, dict[str, Path]]:
    """Cases of four findings, half of them absent, and a folder of maps for each model of :data:`PLANTED`.

    A map points at the lesion with the planted chance, which is halved for the smaller half of the lesions.
    """
    random, lines = np.random.default_rng(7), []
    boxes: dict[str, tuple[int, int, int]] = {}
    cv2.imwrite(str(folder / "x.png"), random.integers(0, 255, (SIDE, SIDE)).astype(np.uint8))
    for finding in FINDINGS:
        for number in range(cases):
            case, mask = f"{finding}{number}", None
            if number % 2:
                size = int(random.integers(6, 26))
                boxes[case] = (int(random.integers(0, SIDE - size)), int(random.integers(0, SIDE - size)), size)
                drawn = np.zeros((SIDE, SIDE), bool)
                drawn[boxes[case][0] : boxes[case][0] + size, boxes[case][1] : boxes[case][1] + size] = True
                mask = masks.to_rle(drawn)
            name = f"{case}.png"
            (folder / name).write_bytes((folder / "x.png").read_bytes())
            lines.append({"case_id": case, "image": name, "finding": finding, "present": bool(number % 2),
                          "mask": mask, "patient_id": case, "source": "phantom", "access": "open"})  # fmt: skip
    (folder / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = {}
    for model, (domain, skill, shift) in PLANTED.items():
        out = made[model] = folder / model
        out.mkdir()
        scores = ["case_id,finding,present,score"]
        for line in lines:
            case, finding = line["case_id"], line["finding"]
            top, left, size = boxes.get(case, (0, 0, 1))
            hit = random.random() < skill * (1.0 if size > 15 else 0.5)
            at = (top + size // 2, left + size // 2) if hit else tuple(random.integers(0, SIDE, 2))
            values = np.full((16, 16), 0.1, np.float32)
            values[at[0] // 4, at[1] // 4] = 1
            np.savez(out / map_name(case, finding), map=values)
            scores.append(f"{case},{finding},{int(line['present'])},{random.normal(shift * line['present'], 1):.4f}")
        (out / "scores.csv").write_text("\n".join(scores) + "\n")
        about = {"schema_version": 1, "tool_version": "0", "maker": model, "family": "planted", "domain": domain,
                 "weights": None, "prompts": {"name": "plain", "hash": "0" * 64}, "cases": "planted"}  # fmt: skip
        (out / "maker.json").write_text(json.dumps(about))
    return folder / "cases.jsonl", made


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from chexqa.cli.main import run

    folder = tmp_path_factory.mktemp("planted")
    cases, maps = planted(folder)
    out = folder / "graded"
    assert run(["heatmaps", "grade", *map(str, maps.values()), "--masks", str(cases), "-o", str(out)]) == 0
    return out


def test_the_three_conclusions_recover_what_was_planted(graded: Path) -> None:
    sizes = pl.read_csv(graded / "lesion_size.csv")
    gaps = sizes.filter((pl.col("size") == conclusions.SMALL_MINUS_LARGE) & pl.col("model").str.starts_with("cxr"))
    assert (gaps["pointing_high"] < 0).all()
    domains = pl.read_csv(graded / "domains.csv")
    by_domain = {row["domain"]: row for row in domains.to_dicts()}
    assert by_domain["cxr"]["pointing_least"] > by_domain["general"]["pointing_greatest"]
    assert by_domain["cxr"]["models"] == by_domain["general"]["models"] == 2
    found = pl.read_csv(graded / "correlations.csv").filter(pl.col("scope") == "models").to_dicts()
    assert found[0]["correlation"] > 0.9
    assert found[0]["points"] == 4
    assert found[0]["least_without_one"] > 0.8
    assert found[0]["correlation_low"] is None
    # Maps and scores were drawn apart from each other, so within findings nothing is to be found.
    within = pl.read_csv(graded / "correlations.csv").filter(pl.col("scope").str.starts_with("within"))
    assert (within["correlation"].abs() < 0.4).all()
    known = pl.read_csv(graded / "recognition.csv").filter(pl.col("finding") == recognition.MACRO)
    assert known["recognition_auc"].to_list() == sorted(known["recognition_auc"], reverse=True)
    assert (known["recognition_auc_low"] < known["recognition_auc"]).all()
    page = (graded / "maps.html").read_text()
    assert page.count("<svg") == 3
    assert "a software test" in page
    rows = pl.read_parquet(graded / "heatmaps.parquet")
    assert rows["domain"].unique().sort().to_list() == ["cxr", "general"]
    assert (rows["components"] == 1).all()
    assert json.loads((graded / "heatmaps.json").read_text())["models"][0]["unused_files"] == []


def test_the_interval_of_thirds_follows_from_each_thirds_own_variance() -> None:
    random = np.random.default_rng(4)
    rows = [{"model": "m", "finding": finding, "case_id": f"{finding}{number}", "patient_id": f"{finding}{number}",
             "picture": f"{finding}{number}", "state": "graded", "lesion_share": float(number),
             "pointing": float(random.random() < 0.2 + 0.04 * number)}
            for finding in FINDINGS for number in range(15)]  # fmt: skip
    frame = conclusions.with_thirds(pl.DataFrame(rows, schema=grading.COLUMNS))
    table = conclusions.sizes(frame)
    gap = table.row(by_predicate=pl.col("size") == conclusions.SMALL_MINUS_LARGE, named=True)
    ends = frame.filter(pl.col("size") != "medium").group_by("finding", "size").agg(pl.col("pointing"))
    variance = sum(np.var(values, ddof=1) / len(values) for values in ends["pointing"].to_list()) / len(FINDINGS) ** 2
    assert (gap["pointing_high"] - gap["pointing_low"]) / 2 == pytest.approx(2 * variance**0.5, rel=0.04)


def test_every_column_of_the_tables_has_a_meaning(graded: Path) -> None:
    identities = {"case_id", "item_id", "patient_id", "study_id", "picture"}
    for name in study.TABLES:
        path = graded / name
        frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
        shown = {column for column in frame.columns if "_at_0." not in column} - identities - {"notice"}
        assert all(study.meaning(column) for column in shown), name
    assert 'title="pointing game: share of maps' in (graded / "maps.html").read_text()


@pytest.mark.long
def test_recognition_is_scikit_learns_at_thresholds_of_other_patients(graded: Path) -> None:
    folder = graded.parent
    truth = targets.of_masks(folder / "cases.jsonl")
    scores = recognition.read_scores("m", folder / "general one", truth)
    assert scores is not None
    table = recognition.summarise(scores)
    for row in table.filter(pl.col("finding") != recognition.MACRO).to_dicts():
        part = recognition.clustered(scores.filter(pl.col("finding") == row["finding"]))
        present, score, fold = (part[name].to_numpy() for name in ("present", "score", "fold"))
        assert row["recognition_auc"] == pytest.approx(roc_auc_score(present, score))
        said = np.zeros(len(score), bool)
        for one in range(recognition.FOLDS):
            others, own = fold != one, fold == one
            tried = [(f1_score(present[others], score[others] >= cut), cut) for cut in score[others]]
            said[own] = score[own] >= max(tried)[1]
        assert row["f1"] == pytest.approx(f1_score(present, said))
        assert row["accuracy"] == pytest.approx((said == present).mean())


def test_patients_are_divided_alike_wherever_the_data_lies(graded: Path, tmp_path: Path) -> None:
    found = []
    for folder in (graded.parent, tmp_path):
        lines = [json.loads(line) for line in (graded.parent / "cases.jsonl").read_text().splitlines()]
        for line in lines:
            (tmp_path / line["image"]).write_bytes((graded.parent / line["image"]).read_bytes())
        for line in lines[::2]:
            del line["patient_id"]  # these are divided by the names of their radiographs
        (folder / "some.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        truth = targets.of_masks(folder / "some.jsonl")
        scores = recognition.read_scores("m", graded.parent / "cxr one", truth)
        assert scores is not None
        found.append(recognition.clustered(scores))
    assert found[0]["fold"].n_unique() == recognition.FOLDS
    assert found[0].equals(found[1])


def test_few_cases_have_an_area_but_no_threshold_of_other_patients() -> None:
    rows = [("m", "effusion", f"{number}", f"{number}", None, f"{number}", number > 1, number / 4) for number in (1, 2)]
    for row in recognition.summarise(pl.DataFrame(rows, schema=recognition.COLUMNS, orient="row")).to_dicts():
        assert (row["recognition_auc"], row["recognition_auc_low"], row["f1"], row["accuracy"]) == (
            1.0,
            None,
            None,
            None,
        )


def test_the_interval_of_an_area_holds_it_in_95_percent_of_samples() -> None:
    random, held, truth = np.random.default_rng(3), 0, 0.7602499389  # the normal distribution's share below 1 / sqrt(2)
    for _ in range(400):
        score = np.concatenate([random.normal(1, 1, 40), random.normal(0, 1, 60)])
        found = influence.estimate(influence.area(score, np.arange(100) < 40, np.arange(100), 100))
        held += found.low is not None and found.high is not None and found.low <= truth <= found.high
    assert 0.92 <= held / 400 <= 0.985


def test_a_patients_influence_is_the_change_when_the_patient_is_left_out() -> None:
    random = np.random.default_rng(5)
    cluster, present, score = random.integers(0, 30, 90), random.random(90) < 0.5, random.normal(size=90)
    score[present] += 1
    whole = influence.area(score, present, cluster, 30)
    without = [influence.area(score[cluster != one], present[cluster != one], cluster[cluster != one], 30).value
               for one in range(30)]  # fmt: skip
    assert np.corrcoef(whole.influence, whole.value - np.array(without))[0, 1] > 0.99


def test_the_interval_of_a_mean_over_patients_is_students() -> None:
    values = np.random.default_rng(8).random(influence.LEAST)
    mean = influence.ratio(values, np.ones(values.size), np.arange(values.size), values.size)
    found = influence.difference(mean, influence.Score(0.0, np.zeros(values.size)))
    expected = stats.t.interval(0.95, values.size - 1, values.mean(), stats.sem(values))
    assert (found.low, found.high) == (pytest.approx(expected[0]), pytest.approx(expected[1]))


def test_recognition_and_localization_that_follow_the_logarithm_of_size_are_not_related_at_one_size() -> None:
    random, shares = np.random.default_rng(9), 10 ** np.linspace(-4, 0, 60)
    size = np.log10(shares) / 4 + 1  # from 0 to 1
    pointing, score = (size + random.normal(0, 0.05, 60) for _ in range(2))
    about = [{"model": "m", "finding": "edema", "case_id": f"{place}", "picture": f"{place}"} for place in range(120)]
    rows = [one | {"state": "graded", "lesion_share": shares[place], "components": 1, "pointing": pointing[place]}
            for place, one in enumerate(about[:60])]  # fmt: skip
    told = [one | {"present": place < 60, "score": score[place] if place < 60 else (place - 60) / 60}
            for place, one in enumerate(about)]  # fmt: skip
    one_row = pl.DataFrame({"model": "m", "finding": "edema", "pointing": 0.5, "recognition_auc": 0.5})
    frames = pl.DataFrame(rows, schema=grading.COLUMNS), pl.DataFrame(told, schema=recognition.COLUMNS)
    found = dict(conclusions.correlations(frames[0], one_row, frames[1], one_row).select("scope", "correlation").rows())
    assert found["within findings"] > 0.9
    assert abs(found["within findings, same lesion size"]) < 0.3


def test_tuned_thresholds_are_those_of_other_patients(graded: Path) -> None:
    rows = pl.read_parquet(graded / "heatmaps.parquet").filter(pl.col("model") == "cxr one")
    kept, random = recognition.clustered(rows), np.random.default_rng(6)
    # In `mixed`, every patient has another best threshold, so a threshold shows from which patients it comes.
    mixed = rows.with_columns(pl.Series(name, random.random(rows.height)) for name in metrics.SWEPT["iou"])
    for tried in (rows, mixed):
        every = recognition.clustered(tuned.with_tuned(tried)[0])
        for finding in FINDINGS:
            part = every.filter(pl.col("finding") == finding)
            values = part.select(metrics.SWEPT["iou"]).to_numpy()
            for place, fold in enumerate(part["fold"]):
                best = values[part["fold"].to_numpy() != fold].mean(axis=0).argmax()
                assert part["iou_tuned"][place] == pytest.approx(values[place, best])
    again, sweep = tuned.with_tuned(rows)
    assert again["dice_tuned"].to_list() == rows["dice_tuned"].to_list()
    assert sweep.height == len(FINDINGS) * len(metrics.THRESHOLDS)
    chosen = dict(sweep.group_by("finding").agg(pl.col("chosen").sum()).rows())
    assert chosen == dict(kept.group_by("finding").agg(pl.col("fold").n_unique()).rows()), "once for each part"


def test_a_sweep_is_the_segmentation_at_each_threshold() -> None:
    random = np.random.default_rng(2)
    mask = random.random((40, 40)) < 0.3
    for stored in (random.random((9, 9)), random.integers(0, 11, (40, 40)) / 10):  # tenths: equal to the thresholds
        values = metrics.fit(stored, (40, 40))
        found: dict[str, Any] = metrics.grade_map(values, mask, (), None)
        for place, threshold in enumerate(metrics.THRESHOLDS):
            one = metrics.segment(values, threshold)
            assert found[metrics.SWEPT["iou"][place]] == pytest.approx((one & mask).sum() / (one | mask).sum())
            assert found[metrics.SWEPT["dice"][place]] == pytest.approx(
                2 * (one & mask).sum() / (one.sum() + mask.sum())
            )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("case_id,score\neffusion1,high\n", "line 2: the score 'high' is not a number"),
        ("case_id,score\neffusion1,0.5\neffusion1,0.4\n", "line 3: the case 'effusion1' has a second score"),
        ("case_id,value\n", "the column 'score' is missing"),
    ],
)
def test_scores_that_are_none_are_refused(graded: Path, tmp_path: Path, cli: Cli, lines: str, message: str) -> None:
    maps = tmp_path / "maps"
    maps.mkdir()
    np.save(maps / "effusion1_effusion.npy", np.eye(4))
    (maps / "scores.csv").write_text(lines)
    code, _, err = cli("heatmaps", "grade", maps, "--masks", graded.parent / "cases.jsonl", "--allow-partial", "-o",
                       tmp_path / "out")  # fmt: skip
    assert code == 2
    assert message in " ".join(err.split())
    assert not (tmp_path / "out").exists()
