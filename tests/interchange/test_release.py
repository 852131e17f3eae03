"""CheXpercept's own release: what is kept of it, what is asked of a model, what is refused; and written back."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer, Reply
from release_files import entry, read_index, write_index, write_release
from runs import PATIENT, QUICK

from chexqa.contract import benchmark
from chexqa.contract.items import Item, Picture
from chexqa.eval.models import registry
from chexqa.eval.prompts import protocols
from chexqa.eval.prompts.protocols import PriorReply, render
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig
from chexqa.interchange import layout
from chexqa.interchange.release import case_id_of

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_release(tmp_path / "release")


@pytest.fixture
def bench(release: Path, cli: Cli) -> benchmark.Benchmark:
    out = release.parent / "bench"
    code, printed, err = cli("import", "chexpercept", release, "-o", out)
    assert (code, err) == (0, "")
    assert "7 cases, 33 items" in printed
    return benchmark.load(out)


def items_of(bench: benchmark.Benchmark, key_id: str) -> dict[str, Any]:
    return {item.kind: item for item in bench.items if item.case_id == case_id_of(key_id)}


def test_an_imported_release_passes_validation_and_is_credentialed(bench: benchmark.Benchmark, cli: Cli) -> None:
    code, printed, _ = cli("validate", bench.folder)
    assert code == 0
    assert "7 cases, 33 items" in printed
    assert bench.about["access"] == {"open": 0, "credentialed": 7}
    assert bench.about["data"] == "real"
    assert bench.about["counts"]["paths"] == {
        "cardiomegaly": {"lesion_free": 1, "revision_free": 1, "revision_required": 1},
        "effusion": {"lesion_free": 1, "revision_free": 1, "revision_required": 2},
    }


def test_questions_options_answers_and_pictures_are_the_releases(bench: benchmark.Benchmark, release: Path) -> None:
    key_id = "effusion_p3"
    entries, items = read_index(release), items_of(bench, key_id)
    answers, cases = bench.key("this test")
    assert list(items) == [
        "detection", "contour_evaluation", "revision_expansion", "revision_contraction", "revision_result",
        "distribution", "location", "severity", "comparison",
    ]  # fmt: skip
    for kind, item in items.items():
        part = layout.asked(entries[key_id], kind)
        assert part is not None
        texts = [option.text for option in item.options]
        context = "Coloured points show where the mask may be changed.\n\n" if kind == "revision_expansion" else ""
        assert layout.with_list(item.question, texts) == context + part["question"]
        index = part["answer_index"]
        assert answers[item.item_id].answer == (tuple(index) if isinstance(index, list) else (index,))
    assert [option.color for option in items["revision_expansion"].options] == ["green", "red", "blue", None]
    pictures = release / "chexpercept" / key_id
    shown = items["revision_result"].turn_images
    assert (
        bench.image_bytes(shown[2].image)
        == next((pictures / "contour_qa" / "contour_revision_qa").glob("option_3_*.png")).read_bytes()
    )
    case = cases[case_id_of(key_id)]
    assert (case.source_case_id, case.path, case.patient_id) == (key_id, "revision_required", None)
    assert case.measures["release"] == {"pair_id": "p3", "dicom_id": "dicom-3"}


def test_nothing_in_the_items_gives_the_answer_away(bench: benchmark.Benchmark) -> None:
    text = (bench.folder / "items.jsonl").read_text()
    for word in ("mask_answer", "mask_fake", "true", "p3", "dicom"):
        assert word not in text.replace('"multi":true', "")


def words_of(message: protocols.Message) -> str:
    return "\n".join(part for part in message.parts if isinstance(part, str))


def test_a_turn_reads_as_in_the_release_between_announcements_and_answer_form(bench: benchmark.Benchmark) -> None:
    conversation = next(rows for rows in protocols.conversations(bench, "oracle_passed")
                        if rows[0].case_id == case_id_of("effusion_p3"))  # fmt: skip
    said = [PriorReply("Answer: 1", (1,))] * 2
    message = render(bench, "oracle_passed", conversation, said)[-1]
    assert words_of(message) == (
        "Picture 3: the same radiograph and mask, with coloured points.\n"
        "Coloured points show where the mask may be changed.\n\n"
        "Towards which points would you expand the mask?\n\n"
        "Options:\n(1) green point\n(2) red point\n(3) blue point\n(4) None\n\n"
        + bench.conversation_texts["multi"]
    )  # fmt: skip
    result = render(bench, "oracle_passed", conversation, [PriorReply("Answer: 1", (1,))] * 4)[-1]
    assert "Options:\n(1) 1st mask\n(2) 2nd mask\n(3) 3rd mask\n(4) 4th mask\n" in words_of(result)
    assert sum(isinstance(part, Picture) for part in result.parts) == 4


def test_wrong_stages_are_replaced_where_the_release_replaces_them(bench: benchmark.Benchmark) -> None:
    """A model that is wrong throughout: its history at the first question of each stage."""
    conversation = next(rows for rows in protocols.conversations(bench, "oracle_passed")
                        if rows[0].case_id == case_id_of("effusion_p3"))  # fmt: skip
    answers = bench.key("this test")[0]
    wrong = [
        next((option.n,) for option in item.options if (option.n,) != answers[item.item_id].answer)
        for item in conversation
    ]
    said = [PriorReply(f"I say {n}.\nAnswer: {n}", (n,)) for (n,) in wrong]

    def history(place: int) -> list[str]:
        rows = render(bench, "oracle_passed", conversation, said[:place])
        return [words_of(row) for row in rows if row.role == "assistant"]

    own = [one.text for one in said]
    right = ["Answer: 1", "Answer: 1", "Answer: 1, 3", "Answer: 4", "Answer: 4"]
    assert history(1) == [right[0]]
    assert history(2) == right[:2]
    assert history(3) == [*right[:2], own[2]]  # nothing is replaced between expansion and contraction
    assert history(4) == right[:4]
    assert history(5) == right
    assert history(8) == [*right, *own[5:8]]  # nor inside stage 4


class ReleaseServer(FakeServer):
    """Knows questions of several lines, with the release's lists of options."""

    def _check(self, body: dict[str, Any]) -> Item:
        digests: list[str] = []
        for message in body["messages"]:
            if message["role"] == "user":
                digests += self._pictures(message["content"], len(digests))
        lines = body["messages"][-1]["content"][-1]["text"]
        known = [entries[0][0] for (seen, question), entries in self._expected.items()
                 if seen == tuple(digests) and f"{question}\n(1) " in lines]  # fmt: skip
        assert len(known) == 1, lines
        return known[0]


def test_a_run_asks_every_case_of_an_imported_release(bench: benchmark.Benchmark, tmp_path: Path) -> None:
    with ReleaseServer(bench, "oracle_passed", lambda request: Reply("Answer: 1")) as server:
        order = RunConfig(bench, (registry.adhoc("m", server.url),), "oracle_passed", tmp_path / "run", policy=QUICK,
                      patience=PATIENT)  # fmt: skip
        (progress,) = runner.run(order)
    assert (progress.unfinished, server.problems) == (0, [])
    assert len(server.requests) == 33


def test_export_gives_the_release_back(bench: benchmark.Benchmark, release: Path, cli: Cli) -> None:
    out = release.parent / "again"
    code, printed, err = cli("export", bench.folder, "--format", "chexpercept", "-o", out)
    assert (code, printed) == (0, f"7 cases: {out}\n")
    assert "7 cases from data sets with credentialed access, which you may give only to people who signed" in err
    before, after = read_index(release), read_index(out)
    for made in before.values():  # what is never asked on the revision-free path is not kept
        contour = made.get("contour_qa")
        if contour and contour["no_deformation"]:
            contour["initial_context"] = ""
            for name in [name for name in contour if name.startswith("contour_revision")]:
                del contour[name]
    assert after == before
    compare = filecmp.dircmp(release / "chexpercept", out / "chexpercept")
    assert not compare.left_only + compare.right_only + compare.diff_files
    for key_id in before:
        one, other = release / "chexpercept" / key_id, out / "chexpercept" / key_id
        names = sorted(path.relative_to(one) for path in one.rglob("*.png"))
        assert names == sorted(path.relative_to(other) for path in other.rglob("*.png"))
        assert all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_a_benchmark_of_our_own_survives_export_and_import(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    for command in (
        ("export", tiny_benchmark, "--format", "chexpercept", "-o", tmp_path / "release"),
        ("import", "chexpercept", tmp_path / "release", "-o", tmp_path / "back", "--access", "open"),
    ):
        assert cli(*command)[0] == 0  # fmt: skip
    before, after = benchmark.load(tiny_benchmark), benchmark.load(tmp_path / "back")
    assert after.is_phantom
    (key,) = {case.source_case_id for case in after.key("x")[1].values() if "edema" in case.source_case_id
              and case.path == "lesion_free"}  # fmt: skip
    assert key.startswith("edema_phantom-c")
    ours = [item for item in before.items if item.kind != "grid_cell"]
    case_of = {item.case_id: case_id_of(f"{item.finding}_phantom-{item.case_id}") for item in ours}
    assert len(after.items) == len(ours)
    for item in ours:
        other = after.item[f"{case_of[item.case_id]}/{item.kind}"]
        assert other.question == f"{item.question}\n\nOptions:"
        assert [(o.color, o.image) for o in other.options] == [(o.color, o.image) for o in item.options]
        if item.kind != "revision_result":
            assert [o.text for o in other.options] == [o.text for o in item.options]
        assert [(p.role, p.image) for p in other.turn_images] == [(p.role, p.image) for p in item.turn_images]
        assert after.key("x")[0][other.item_id].answer == before.key("x")[0][item.item_id].answer


def test_phantoms_and_real_cases_are_not_imported_together(tmp_path: Path, cli: Cli) -> None:
    release = write_release(tmp_path / "release", prefix="phantom-")
    assert cli("import", "chexpercept", release, "-o", tmp_path / "one")[0] == 0
    assert benchmark.load(tmp_path / "one").is_phantom
    entries = read_index(release)
    write_index(release, {**entries, "effusion_real": entry("effusion", "lesion_free", 9)})
    code, _, err = cli("import", "chexpercept", release, "-o", tmp_path / "two")
    assert code == 2
    assert "import them separately" in err


def test_a_case_with_a_missing_or_damaged_picture_is_left_out_with_the_reason(release: Path, cli: Cli) -> None:
    pictures = release / "chexpercept"
    (pictures / "effusion_p1" / "detection_qa" / "xray.png").unlink()
    overlay = pictures / "effusion_p2" / "contour_qa" / "contour_eval_qa" / "xray_with_mask.png"
    overlay.write_bytes(overlay.read_bytes()[:60])
    (pictures / "effusion_p3" / "detection_qa" / "xray.png").write_text("no picture")
    out = release.parent / "bench"
    code, printed, err = cli("import", "chexpercept", release, "-o", out)
    assert code == 0
    assert "3 cases left out" in err
    assert "4 cases" in printed
    skipped = {row["source_case_id"]: row["reason"] for row in map(json.loads, (out / "skipped.jsonl").open())}
    assert skipped == {
        "effusion_p1": "the picture detection_qa/xray.png: no such file.",
        "effusion_p2": "the picture contour_qa/contour_eval_qa/xray_with_mask.png is damaged; "
        "restore the original picture.",
        "effusion_p3": "the picture detection_qa/xray.png is not a PNG file; restore the original picture.",
    }
    assert cli("validate", out)[0] == 0


def change(release: Path, key_id: str, *place: str, value: Any) -> None:
    entries = read_index(release)
    part: Any = entries[key_id]
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    if value is None and place[-1] not in ("detection_qa", "contour_qa"):
        del part[place[-1]]
    write_index(release, entries)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            ("detection_qa", "answer_index"),
            "Yes",
            "effusion_p3: field 'detection_qa.answer_index': \"Yes\" must be a",
        ),
        (("detection_qa",), None, "effusion_p3: field 'detection_qa'"),
        (("contour_qa",), None, "the finding is present but there is no contour_qa"),
        (("contour_qa", "contour_revision_qa_expansion", "answer_index"), 3, "must be a list"),
        (("attribute_extraction_qa", "location", "answer_options"), ["one"], "must be a list of 2 or more entries"),
    ],
)
def test_an_entry_that_does_not_fit_the_layout_is_refused_by_key_and_field(
    release: Path, cli: Cli, place: tuple[str, ...], value: Any, message: str
) -> None:
    change(release, "effusion_p3", *place, value=value)
    out = release.parent / "bench"
    code, _, err = cli("import", "chexpercept", release, "-o", out)
    assert code == 2
    assert message in err
    assert not out.exists()
    assert not [path for path in release.parent.iterdir() if path.suffix == ".tmp"]


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("detection_qa", "answer_index"), 9, "lesion_free"),
        (("contour_qa", "contour_eval_qa", "relative_path"), "../../../secret.png", "lies outside the case's folder"),
        (("contour_qa", "contour_eval_qa", "relative_path"), "/etc/passwd", "passwd: no such file"),
        (("contour_qa", "contour_eval_qa", "relative_path"), "a\0.png", r"a\x00.png' contains a NUL character"),
        (("contour_qa", "contour_revision_qa_contraction"), None, "the revision_contraction question is missing"),
        (
            ("contour_qa", "contour_revision_qa_expansion", "answer_index"),
            [7],
            "is [7], but its options are numbered 1 to 4",
        ),
        (("attribute_extraction_qa", "location", "question"), "Where?", None),
    ],
)
def test_a_case_that_cannot_be_asked_is_left_out(
    release: Path, cli: Cli, place: tuple[str, ...], value: Any, reason: str | None
) -> None:
    change(release, "effusion_p3", *place, value=value)
    out = release.parent / "bench"
    code, _, err = cli("import", "chexpercept", release, "-o", out)
    rows = [json.loads(line) for line in (out / "skipped.jsonl").open()] if out.exists() else []
    if reason is None:  # a question that does not list its options takes their words from the options themselves
        assert (code, rows) == (0, [])
        item = items_of(benchmark.load(out), "effusion_p3")["location"]
        assert (item.question, item.options[3].text) == ("Where?", "None of the above")
    elif reason == "lesion_free":  # an answer that is neither yes nor no
        assert "is 9, but its options are numbered 1 to 2" in rows[0]["reason"]
    else:
        assert reason in rows[0]["reason"]
    assert "Traceback" not in err


@pytest.mark.parametrize("key_id", ["nonsense_p1", "effusion_", "effusion_../../x", "effusion", "effusion_p\0"])
def test_a_key_that_names_no_finding_or_leaves_the_folder_is_refused(release: Path, cli: Cli, key_id: str) -> None:
    write_index(release, {key_id: entry("effusion", "lesion_free", 1)})
    code, _, err = cli("import", "chexpercept", release, "-o", release.parent / "bench")
    assert code == 2
    assert "the entry's name must be <finding>_<pair id>" in err


def test_a_link_out_of_the_release_is_not_followed(release: Path, cli: Cli) -> None:
    secret = release.parent / "secret.png"
    picture = release / "chexpercept" / "effusion_p1" / "detection_qa" / "xray.png"
    picture.rename(secret)
    picture.symlink_to(secret)
    out = release.parent / "bench"
    assert cli("import", "chexpercept", release, "-o", out)[0] == 0
    (row,) = map(json.loads, (out / "skipped.jsonl").open())
    assert "a link that leads out of the release's folder" in row["reason"]


def test_a_release_without_a_usable_case_is_refused_with_the_first_case_and_its_problem(
    release: Path, cli: Cli
) -> None:
    write_index(release, {"effusion_p3": read_index(release)["effusion_p3"]})
    change(release, "effusion_p3", "contour_qa", "contour_revision_qa_contraction", value=None)
    code, _, err = cli("import", "chexpercept", release, "-o", release.parent / "bench")
    assert code == 2
    assert "the first is 'effusion_p3': the revision_contraction question is missing" in " ".join(err.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is not a JSON object of questions keyed by case"),
        ("{}", "is not a JSON object of questions keyed by case"),
        ("{", "not valid JSON"),
    ],
)
def test_an_index_that_is_none_is_refused(release: Path, cli: Cli, text: str, message: str) -> None:
    (release / "chexpercept.json").write_text(text)
    code, _, err = cli("import", "chexpercept", release, "-o", release.parent / "bench")
    assert code == 2
    assert message in err
