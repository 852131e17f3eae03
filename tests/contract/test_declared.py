"""Kinds of question from plugins: declared in a benchmark, read back, and refused where they contradict themselves."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from chexqa.contract import benchmark
from chexqa.contract.declared import DeclaredEvidence, declaration, declared, measured
from chexqa.contract.evidence import Near
from chexqa.contract.items import Answer, Item, Option
from chexqa.contract.kinds import Kind
from chexqa.eval.local.callable_address import module_at
from chexqa.files.errors import InputError
from chexqa.files.jsonio import sha256
from chexqa.generators.pipeline.builders import plugins


@dataclass(frozen=True, kw_only=True)
class Ribs(DeclaredEvidence):
    """How many ribs are seen."""

    words = "{ribs} ribs are seen"
    near: ClassVar[Near] = {"ribs": ((9.0, 10.0),)}
    ribs: int = measured("ribs above the diaphragm", 0, 12)


KIND = Kind("ribs_seen", 1, None, None, "multi", Ribs, "which ribs are seen?", "ribs", ordered=True)


@pytest.fixture
def with_ribs(tiny_benchmark: Path) -> Path:
    """A benchmark whose first case has an item of a kind that the package does not have."""
    records = [json.loads(line) for line in (tiny_benchmark / "items.jsonl").read_text().splitlines()]
    own = {**records[0], "item_id": "own", "kind": KIND.name, "level": None, "stage": None, "multi": True}
    own["options"] = [Option(n, f"rib {n}", letter="ABC"[n - 1], side="left").to_record() for n in (1, 2, 3)]
    key = Answer("own", (1, 2), 0.25, 1.0, None, Ribs(ribs=9).to_record()).to_record()
    rewrite(tiny_benchmark, "items.jsonl", own)
    rewrite(tiny_benchmark, "answers.jsonl", key)
    change(tiny_benchmark, kinds=[declaration(KIND)])
    return tiny_benchmark


def change(folder: Path, **changes: Any) -> None:
    about = json.loads((folder / "benchmark.json").read_text())
    (folder / "benchmark.json").write_text(json.dumps(about | changes))


def rewrite(folder: Path, name: str, record: dict[str, Any]) -> None:
    """Put a record at the end of a file, in place of the one with its id."""
    lines = (folder / name).read_text().splitlines()
    kept = [line for line in lines if json.loads(line).get("item_id") != record["item_id"]]
    (folder / name).write_text("\n".join([*kept, json.dumps(record)]) + "\n")
    about = json.loads((folder / "benchmark.json").read_text())
    change(folder, files={**about["files"], name: sha256((folder / name).read_bytes())})


def test_a_declared_kind_is_read_back_as_it_was_declared(with_ribs: Path) -> None:
    bench = benchmark.load(with_ribs)
    kind, item = bench.kinds["ribs_seen"], bench.item["own"]
    assert declaration(kind) == declaration(KIND)
    assert (item.form.name, item.is_ordered, item.task) == ("multi", True, "ribs_seen")
    assert (item.options[1].letter, item.options[1].side) == ("B", "left")
    assert Item.from_record(item.to_record(), bench.kinds) == item
    assert "letter" not in bench.items[0].options[0].to_record()
    assert (item,) in benchmark.conversations(bench.items)
    found = kind.read(bench.key("the test")[0]["own"].evidence)
    assert found is not None
    assert (found.is_near(), found.is_hard()) == (True, False)
    assert found.sentence(item.options, next(iter(bench.key("the test")[1].values()))) == "9 ribs are seen"


def test_an_item_of_a_kind_that_nobody_declares_is_refused(with_ribs: Path) -> None:
    about = json.loads((with_ribs / "benchmark.json").read_text())
    del about["kinds"]
    (with_ribs / "benchmark.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"item 'own' is of the kind 'ribs_seen', which .* does not declare"):
        benchmark.load(with_ribs)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"ribs": 13}, "evidence with ribs 13, which is outside the bounds that its kind declares"),
        ({"ribs": "nine"}, "differs from its kind's declaration"),
        ({}, "field 'ribs' is missing"),
        ({"ribs": 9, "age": 3}, "evidence with the field 'age'"),
    ],
)
def test_evidence_that_a_kind_does_not_declare_is_refused(
    with_ribs: Path, evidence: dict[str, Any], message: str
) -> None:
    rewrite(with_ribs, "answers.jsonl", Answer("own", (1, 2), 0.25, 1.0, None, evidence).to_record())
    with pytest.raises(InputError, match=message):
        benchmark.load(with_ribs)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "detection"}, "declares the kind 'detection', but chexqa has a kind of this name"),
        ({"words": "{ribs.__class__} ribs"}, "is not a known placeholder here"),
        ({"near": {"lungs": [[0, 1]]}}, "a threshold for the field 'lungs', but this field is not a number"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        declared(declaration(KIND) | changed, "benchmark.json")


@dataclass(frozen=True, kw_only=True)
class RibNumbers(DeclaredEvidence):
    """Ribs in a type that evidence cannot have."""

    words = "{ribs}"
    ribs: tuple[int, ...] = measured("ribs above the diaphragm")


def declare(change: str) -> str:
    """Return the text of a plugin that declares ribs with a change."""
    return (
        "from dataclasses import replace; from test_declared import KIND, RibNumbers\n"
        "from chexqa.generators.pipeline.builders.plugins import question\n"
        f"question(replace(KIND, {change}), bank='ribs.yaml')\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ribs.py", None, "no such file"),
        ("no_such_module_of_ribs", None, "there is no such module or installed plugin"),
        ("ribs.py", "x = 1", "does not register a kind of question"),
        ("ribs.py", "x = 1\ny = z", r"cannot be loaded: NameError: name 'z' is not defined \(ribs.py, line 2\)"),
        ("ribs.py", "import json\n\njson.loads('x')", r"cannot be loaded: JSONDecodeError: .* \(ribs.py, line 3\)"),
        ("ribs.py", "raise SystemExit(3)", r"cannot be loaded: SystemExit: 3 \(ribs.py, line 1\)"),
        ("ribs.py", declare("form_name='singel'"), r"the form 'singel'; give form_name single, .* \(ribs.py, line 3\)"),
        ("ribs.py", declare("name='Ribs Seen'"), r"the name 'Ribs Seen' is not of the form .* line 3\)"),
        ("ribs.py", declare("level='fine'"), r"give level=None and stage=None \(ribs.py, line 3\)"),
        ("ribs.py", declare("name='detection'"), "chexqa has a kind of this name"),
        ("ribs.py", declare("evidence=RibNumbers"), "field 'ribs' has another type than int, float, str or bool"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str | None, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "test_declared", sys.modules[__name__])
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=f"--plugin .*{message}"):
        plugins.load([str(path) if name.endswith(".py") else name])


def test_a_module_that_cannot_be_imported_is_named_with_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_ribs.py").write_text("import json\n\njson.loads('x')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"\(broken_ribs.py, line 3\); correct the plugin"):
        plugins.load(["broken_ribs"])
    with pytest.raises(InputError, match=r"\(broken_ribs.py, line 3\)"):
        module_at("broken_ribs", "--python broken_ribs:answer")


def test_an_installed_plugin_is_taken_by_the_name_of_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ribs.yaml").write_text("en: {question: 'Which ribs are seen?', none: none}\n")
    (tmp_path / "installed_ribs.py").write_text(
        "from pathlib import Path\n"
        "from test_declared import KIND\n"
        "from chexqa.generators.pipeline.builders.plugins import question\n"
        "question(KIND, bank=Path(__file__).with_name('ribs.yaml'))(lambda case, kind: None)\n"
    )
    about = tmp_path / "installed_ribs-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-ribs\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[chexqa.kinds]\nribs = installed_ribs\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "test_declared", sys.modules[__name__])
    (found,) = plugins.load(["ribs"])
    assert found.kind is KIND
    assert plugins.texts_of([found], "en")["ribs_seen"]["none"] == "none"
    with pytest.raises(
        InputError,
        match="no texts in the question bank's language 'fr'; use a bank in a language of the plugin \\(en\\)",
    ):
        plugins.texts_of([found], "fr")
    with pytest.raises(InputError, match="the kind 'ribs_seen' is already registered by --plugin ribs;"):
        plugins.load(["ribs", "installed_ribs"])
