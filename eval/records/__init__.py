"""Records of results for others: papers, journals' checklists, Every Eval Ever, and the Hugging Face hub.

- A report has ``methods`` (paragraphs for a paper), ``checklist`` and ``case_flow`` (cases in and out).
- ``chexqa run export`` writes ``every_eval_ever`` and ``huggingface_results``.
"""
