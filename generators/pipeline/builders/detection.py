"""Builder of items that ask whether the finding is present."""

from __future__ import annotations

from chexqa.contract.evidence import LesionEvidence
from chexqa.contract.kinds import Kind
from chexqa.generators.pipeline.builders.registry import CaseToBuild, builds


@builds("detection")
def detection(case: CaseToBuild, kind: Kind) -> None:
    """Add a detection item if the case has a question path."""
    if case.path is None or case.perception is None:
        return
    share = 0.0 if case.survey.size is None else case.survey.size.lesion_share
    case.builder.ask(
        kind,
        case.builder.words(kind, "yes", "no"),
        (1,) if case.present else (2,),
        turn=[case.radiograph],
        alone=[case.radiograph],
        evidence=LesionEvidence(lesion_share=share),
        difficulty={"lesion_share": share} if case.present else {},
    )
