"""Instructions on the first tab of a review workbook, for each kind of sheet."""

from __future__ import annotations

from chexqa.review.columns import MASK_REASONS, SheetKind

CREDENTIALED = (
    "These radiographs come under a data use agreement. Do not put this workbook, its pictures or the viewer on "
    "shared drives, in web sheets (such as Google Sheets or Excel for the web), in e-mail or in chats. Keep the "
    "folder on the computer for which you received it, and delete your copy after your sheet was imported."
)
TITLES: dict[SheetKind, str] = {
    "items": "Review of questions and proposed answers",
    "blind": "Questions to answer without a proposal",
    "readers": "Reader study",
    "training": "Training before a reader study",
    "repeat": "Reader study: questions asked again",
    "masks": "Review of lesion outlines",
    "adjudication": "Questions on which reviewers disagree",
    "wordings": "Questions in other words",
}
TASKS: dict[SheetKind, tuple[str, ...]] = {
    "items": (
        "Each row is a question with its options and the answer that was computed from the approved outline. Look"
        " at the picture first, then say whether the proposed answer is right. Sides are the patient's: the right"
        " lung is on the left of the picture. Questions of one case stand together.",
    ),
    "blind": (
        "Answer each question from the picture alone. The cases are shuffled. Sides are the patient's: the right "
        "lung is on the left of the picture.",
        "Finish and return this sheet before you open the next one: later sheets reveal answers to earlier questions.",
    ),
    "readers": (
        "Answer each question from the picture alone, as you would answer a colleague. Sides are the patient's: "
        "the right lung is on the left of the picture. Use no other reader's answers and no other help.",
        "Finish and return this sheet before you open the next one: later sheets reveal answers to earlier "
        "questions. "
        "Write down below when you begin and end each tab.",
    ),
    "training": (
        "Answer each question from the picture alone, as you would answer a colleague. Sides are the patient's: the "
        "right lung is on the left of the picture. After you have answered, the green column shows the key.",
        "These cases are not part of the study, and your answers to them count nowhere. Do this sheet first.",
    ),
    "repeat": (
        "You have answered these questions before, in another order. Answer them again from the picture alone, "
        "without looking at your earlier answers. The study measures how often your two answers are the same.",
        "Finish and return this sheet before you open the next one.",
    ),
    "masks": (
        "Each row shows a radiograph twice, the second time with an outline in cyan. Say whether the outline is "
        "as good as you would draw it: it follows the border of the finding, leaves out no part of it and takes "
        "in nothing else. If the finding is said to be absent, there is no outline: say whether it really is absent.",
    ),
    "adjudication": (
        "Each row is a question on which reviewers did not agree, with their verdicts. Decide, and give your "
        "reason in the comment. A corrected answer needs two people: it counts if a reviewer's last answer is the "
        "same, or if a second adjudicator gives it, too.",
    ),
    "wordings": (
        "Each row has a question as it is asked, and the same question in other words. Say whether both ask the same: "
        "the same finding, the same side and place, the same shares, and the same rule for what counts. Style does not "
        "matter. The options stay as they are.",
    ),
}
WORDING_VERDICTS = (
    ("accept", "Both ask the same: every radiograph has the same right answer under both wordings."),
    ("fix", "They nearly ask the same; write in the comment what has to be changed."),
    (
        "reject",
        "They do not ask the same: some radiographs have another right answer. Describe these radiographs in the "
        "comment.",
    ),
    ("unsure", "You have read both and cannot decide."),
)
PART = (
    "This is part {number} of {count}. The first part asks whether the finding is present. Attributes and cells of the "
    "grid follow, then one outline, points on it, and four outlines to choose from."
)
CORRECTION = (
    "These rows of your sheet could not be read; all other rows were read. The red column says what is wrong. "
    "Correct the yellow cells and send this file back. You need not change your first sheet.",
)
DISPUTED = (
    "Reviewers did not agree on these outlines. Each row shows their verdicts. Decide, and give your reason in "
    "the comment.",
)
COMMON = (
    "Fill in only the yellow columns; all others are locked against accidental changes. Leave rows that you "
    "have not done yet empty, and save often. You may send the workbook back at any time: finished rows count, "
    "and you can send the same file again when more rows are done.",
    "You may filter rows. Do not sort: answers or pictures could move to other rows. If a picture has moved, its "
    "margin shows the id of its row (the id is in the last columns).",
)
VIEWER = (
    "Pictures here are small. A number in the first column opens the row in the viewer ({viewer}, beside this "
    "file): full size, zoom, brightness and contrast, the arrow keys for the next row. It works without a "
    "network."
)
MASKS_CSV = (
    "Under 'optimal?' write y if the outline is optimal, or the finding is absent as said; otherwise write n, and "
    "the reason under 'reason': " + ", ".join(MASK_REASONS) + ". You can also write accept, fix, reject or unsure, as "
    "in the workbooks. Leave the other columns as they are, and save as csv in UTF-8.",
    "'plot_path' names the picture of each row; the .html file beside the sheet shows them with zoom and contrast.",
)
SINGLE = "Choose from the list in '{answer}', or type the option's number, or a cell of the grid such as F4."
MULTI = (
    "If several options are right, type their numbers there, such as 1, 3. You can also write yes under each right one "
    "in the columns option 1, option 2 and so on. If no option is right, choose the option that says so."
)
VERDICTS = (
    ("accept", "The question is clear and the proposed answer is right."),
    (
        "fix",
        "The question is clear, but the proposed answer is wrong: give the corrected answer and a reason. If the "
        "outline is wrong, choose the reason 'wrong contour'; no corrected answer is needed.",
    ),
    ("reject", "The question cannot be asked of this radiograph: give a reason."),
    ("unsure", "You have looked and cannot decide. An unsure verdict is better than a guess."),
)
MASK_VERDICTS = (
    ("accept", "The outline is optimal, or the finding is absent as said."),
    ("fix", "The finding is there, but the outline must be redrawn: give a reason that says what is wrong."),
    ("reject", "The case should not be used: the finding is wrong, or the picture is too poor."),
    ("unsure", "You have looked and cannot decide. An unsure verdict is better than a guess."),
)
_ITEMS_EXAMPLES = (
    (
        "accept",
        "'Is there any pleural effusion?' Proposed: 1. Yes. You see a blunted right costophrenic angle with a "
        "meniscus. Verdict: accept. Leave the rest empty.",
    ),
    (
        "fix, one right option",
        "'How much of the left lung does the opacity cover?' Proposed: 1. less than a third. You would say about a "
        "half. Verdict: fix; corrected answer: 2. from one third to two thirds; reason: wrong answer.",
    ),
    (
        "fix, several",
        "'At which points must the outline be moved outwards?' Proposed: 2. the blue point. You would move it at "
        "blue and at red (option 1). Verdict: fix; corrected answer: 1, 2; reason: wrong answer.",
    ),
    (
        "reject",
        "'In which of these places does the consolidation lie?' It is an effusion. Verdict: reject; reason: other; "
        "comment: effusion, no consolidation.",
    ),
)
_MASKS_EXAMPLES = (
    ("accept", "The line follows the border of the effusion within the width of your pen. Verdict: accept."),
    ("fix", "The line leaves out the part behind the heart. Verdict: fix; reason: part missing."),
    ("reject", "The finding is said to be absent, but you see it. Verdict: reject; reason: finding present."),
)
_BLIND_EXAMPLES = (
    ("one right option", "'Is there any pulmonary edema?' You see none. Answer: 2. No."),
    (
        "several",
        "'In which of these places does it lie?' The first and the third. Answer: 1, 3.",
    ),
    ("cannot be answered", "The lower lung is cut off. Leave the answer empty; reason: cannot tell; comment: cut off."),
)
EXAMPLES: dict[SheetKind, tuple[tuple[str, str], ...]] = {
    "items": _ITEMS_EXAMPLES,
    "blind": _BLIND_EXAMPLES,
    "readers": _BLIND_EXAMPLES,
    "training": _BLIND_EXAMPLES,
    "repeat": _BLIND_EXAMPLES,
    "masks": _MASKS_EXAMPLES,
    "adjudication": _ITEMS_EXAMPLES[:3],
    "wordings": (
        ("accept", "'Does this radiograph show edema?' and 'Is edema to be seen on this radiograph?' Verdict: accept."),
        (
            "reject",
            "'… fills at least a fifth of a part' and '… fills more than a quarter of a part'. Verdict: reject; "
            "comment: a share between a fifth and a quarter counts in the first only.",
        ),
    ),
}
