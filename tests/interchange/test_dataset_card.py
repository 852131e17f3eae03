"""The card of an exported data set: what the user says of it, what is missing, the audit, and ``eval.yaml``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from handmade import Handmade

from chexqa.contract.benchmark import CARD_MARK
from chexqa.version import __version__

Cli = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]


def test_a_real_benchmark_names_what_nobody_gave(handmade: Handmade, tmp_path: Path, cli: Cli) -> None:
    handmade.case("a", "edema", "lesion_free", detection=(2,))
    bench, out = handmade.write("real"), tmp_path / "set"
    code, _, err = cli("export", bench, "--format", "huggingface", "-o", out)
    assert (code, "note: the metadata lack license, creators, url" in err) == (0, True)
    card = (out / "README.md").read_text()
    assert "**Not given**: license, creators, url" in card
    assert "has not been audited" in card
    assert "license" not in json.loads((out / "croissant.json").read_text())
    assert not (out / "card").exists()


def test_the_card_holds_the_users_facts_and_the_audit(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    (tiny_benchmark / "README.md").write_text(f"{CARD_MARK}\n\n# name 1\n\nWhat the audit found.\n\n## Figures\n")
    (tiny_benchmark / "card").mkdir()
    (tiny_benchmark / "card" / "a.svg").write_text("<svg/>")
    about = tmp_path / "about.yaml"
    about.write_text('license: CC-BY-4.0\ndoi: 10.5281/zenodo.7\ncitation: "@misc{x}"\nbiases: "one | site"\n')
    out = tmp_path / "set"
    assert cli("export", tiny_benchmark, "--format", "huggingface", "--about", about, "-o", out)[0] == 0
    card = (out / "README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    assert (front["license"], front["doi"]) == ("cc-by-4.0", "10.5281/zenodo.7")
    assert "What the audit found." in card
    assert "### Figures" in card
    assert "@misc{x}" in card
    assert "one \\| site" in card
    assert (out / "card" / "a.svg").read_text() == "<svg/>"
    tasks = yaml.safe_load((out / "eval.yaml").read_text())["tasks"]
    assert [task["id"] for task in tasks] == ["coarse", "fine", "semantic", "mean_of_levels", "grid"]
    croissant = json.loads((out / "croissant.json").read_text())
    assert croissant["identifier"] == "https://doi.org/10.5281/zenodo.7"
    assert croissant["rai:hasSyntheticData"] is True


def test_without_the_key_the_card_has_the_audits_summary_alone(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    told = "## Answers\n\nyes 90 %\n\n![hits](card/grid.svg)\n"
    (tiny_benchmark / "README.md").write_text(f"{CARD_MARK}\n\n# name 1\n\nNo leak was found.\n\n{told}")
    (tiny_benchmark / "card").mkdir()
    (tiny_benchmark / "card" / "grid.svg").write_text("<svg/>")
    out = tmp_path / "set"
    assert cli("export", tiny_benchmark, "--format", "huggingface", "--no-key", "-o", out)[0] == 0
    card = (out / "README.md").read_text()
    assert "No leak was found." in card
    assert ("90 %" in card, "grid.svg" in card, (out / "card").exists()) == (False, False, False)


def test_the_card_says_which_files_it_names_are_elsewhere(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    card = f"{CARD_MARK}\n\n# name 1\n\n## Changes\n\n`review_changes.jsonl` lists the changes.\n"
    (tiny_benchmark / "README.md").write_text(card)
    assert cli("export", tiny_benchmark, "--format", "huggingface", "-o", tmp_path / "set")[0] == 0
    assert "not in this data set: `review_changes.jsonl`." in (tmp_path / "set" / "README.md").read_text()


def test_the_users_name_and_addresses_stand_in_card_and_metadata(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    about, out = tmp_path / "about.yaml", tmp_path / "set"
    about.write_text(
        "name: Chests of our clinic\nurl: https://example.org/a_set\nbiases: 'a_b (see http://x.org/y_(z)).'\n"
    )
    assert cli("export", tiny_benchmark, "--format", "huggingface", "--about", about, "-o", out)[0] == 0
    card, croissant = (out / "README.md").read_text(), json.loads((out / "croissant.json").read_text())
    names = yaml.safe_load(card.split("---")[1])["pretty_name"], croissant["name"]
    assert {*names, yaml.safe_load((out / "eval.yaml").read_text())["name"]} == {"Chests of our clinic"}
    assert "# Chests of our clinic, version 1\n" in card
    assert "**Address**: <https://example.org/a_set>\n" in card
    assert "**Biases**: a\\_b (see <http://x.org/y_(z)>).\n" in card
    assert f"**Version**: 1, in `croissant.json` {croissant['version']}," in card


@pytest.mark.parametrize(
    ("text", "words"),
    [("licence: MIT\n", 'unknown field "licence"'), ("doi: https://doi.org/10.1/x\n", "field 'doi'"),
     ("creators: []\n", "field 'creators'"), ("- MIT\n", "about.yaml")],
)  # fmt: skip
def test_a_wrong_file_is_refused_in_one_sentence(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, text: str, words: str
) -> None:
    (tmp_path / "about.yaml").write_text(text)
    command = ("export", tiny_benchmark, "--format", "huggingface", "--about", tmp_path / "about.yaml")
    code, _, err = cli(*command, "-o", tmp_path / "set")
    assert (code, words in err, err.count("\n")) == (2, True, 1), err
    assert not (tmp_path / "set").exists()


def test_about_belongs_to_cards_only(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "about.yaml").write_text("license: MIT\n")
    command = ("export", tiny_benchmark, "--about", tmp_path / "about.yaml", "-o", tmp_path / "x.tsv")
    code, _, err = cli(*command, "--format", "vlmevalkit")
    assert (code, "remove --about" in err) == (2, True)


def test_a_folder_without_a_key_is_described_by_the_command_that_its_export_prints(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "about.yaml").write_text("license: CC-BY-4.0\ncitation: Us\n")
    bare = ("export", tiny_benchmark, "--no-key", "-o", "pub")
    assert cli(*bare, "--about", "about.yaml")[0] == 2
    code, said, _ = cli(*bare)
    command = said.rpartition("chexqa ")[2].split()
    assert (code, cli(*command)[0]) == (0, 0)
    assert json.loads((tmp_path / "pub" / "croissant.json").read_text())["citeAs"] == "Us"


def test_the_citation_names_this_version() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
