"""Base class for the dataset classes of an exported folder for VLMEvalKit: it loads tables and grades replies.

The exported folder (``vlmevalkit_folder``) has two dataset classes. Both derive from :class:`Questions`; one also
derives from VLMEvalKit's ``ImageBaseDataset`` (items alone), the other from ``ImageMTDataset`` (cases as
conversations). VLMEvalKit's classes build the messages.
"""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from chexqa.eval.harnesses import alone
from chexqa.files.jsonio import Record, read_text, write_lines
from chexqa.files.limits import MAX_TABLE_BYTES
from chexqa.files.opening import read_whole

# Beginning of the text that VLMEvalKit stores in place of a reply after its last attempt.
FAILED = "Failed to obtain answer"
CASES = "_cases"  # end of the name of the dataset with conversations
_OVERALL = "all kinds"


class Questions:
    """Mixin for a dataset class of VLMEvalKit: it loads tables from ``folder`` and grades replies as chexqa does."""

    folder: ClassVar[Path]

    def load_data(self, dataset: str) -> Any:
        """Return the table as a frame of pandas; no cell is read as a missing value."""
        import pandas as pd

        table = io.BytesIO(read_whole(self.folder / f"{dataset}.tsv", MAX_TABLE_BYTES))
        return pd.read_csv(table, sep="\t", dtype=str, keep_default_na=False)

    def post_build(self, dataset: str) -> None:
        """Make the pictures' paths absolute; VLMEvalKit calls this after it has read the table."""
        data: Any = self.data  # type: ignore[attr-defined]  # a member of VLMEvalKit's base class
        names = [[one] if isinstance(one, str) else one for one in data["image_path"]]
        data["image_path"] = [[str(self.folder / "images" / name) for name in row] for row in names]

    def evaluate(self, eval_file: str, **judge_kwargs: Any) -> Any:
        """Return a pandas frame with accuracy and other measures of each kind of question.

        ``eval_file`` is VLMEvalKit's file of results. The replies are also written beside it as predictions for
        ``chexqa grade``, with the ending ``.predictions.jsonl``. Questions without a reply are counted in the column
        ``failed`` and have no prediction. If the table was exported with ``--no-key``, only the columns ``items`` and
        ``failed`` have numbers.
        """
        import pandas as pd

        path = Path(eval_file)
        name = str(getattr(self, "dataset_name", ""))
        model = path.stem.removesuffix(f"_{name}")
        protocol = "end_to_end" if name.endswith(CASES) else "independent"
        replies = list(_replies(_records(path)))
        write_lines(
            path.with_suffix(".predictions.jsonl"),
            ({"item_id": doc["item_id"], "text": reply, "model": model, "protocol": protocol,
              **({"benchmark": doc["benchmark"]} if "benchmark" in doc else {})}  # earlier exports do not name it
             for doc, reply in replies if reply is not None),
        )  # fmt: skip
        kinds = dict.fromkeys([doc["kind"] for doc, _ in replies])
        groups = {kind: [one for one in replies if one[0]["kind"] == kind] for kind in kinds} | {_OVERALL: replies}
        return pd.DataFrame([{"kind": kind, **_scores(rows)} for kind, rows in groups.items()])


def _records(path: Path) -> list[Record]:
    """Return the rows of a file of results, which VLMEvalKit writes as .json, .tsv or .xlsx."""
    import pandas as pd

    if path.suffix == ".json":
        return list(json.loads(read_text(path)))
    data = io.BytesIO(read_whole(path, MAX_TABLE_BYTES))
    if path.suffix == ".tsv":
        frame = pd.read_csv(data, sep="\t", dtype=str, keep_default_na=False)
    else:
        frame = pd.read_excel(data, dtype=str, keep_default_na=False)
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _replies(rows: list[Record]) -> Iterator[tuple[Record, str | None]]:
    """Yield every question with the model's reply; the reply is None if the model never gave one."""
    for row in rows:
        docs, said = json.loads(row["chexqa"]), row["prediction"]
        if isinstance(docs, dict):
            docs, said = [docs], [said]
        elif isinstance(said, str):
            said = ast.literal_eval(said)
        for doc, reply in zip(docs, said, strict=True):
            text = str(reply)
            yield doc, None if text.startswith(FAILED) else text


def _scores(rows: list[tuple[Record, str | None]]) -> Mapping[str, float]:
    counts = {"items": len(rows), "failed": sum(reply is None for _, reply in rows)}
    if any("answer" not in doc for doc, _ in rows):
        return counts
    graded = [alone.process_results(doc, [reply or ""]) for doc, reply in rows]
    return {
        "accuracy": sum(one["accuracy"] for one in graded) / len(rows),
        "corrected": alone.corrected([one["corrected"] for one in graded]),
        "readable": sum(one["readable"] for one in graded) / len(rows),
        **counts,
    }
