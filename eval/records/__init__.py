"""Records of results for others: papers, journals' checklists, Every Eval Ever, and the Hugging Face hub.

A report includes ``methods`` (paragraphs for a paper), ``checklist`` (MI-CLEAR-LLM and a reviewer's questions) and
``case_flow`` (cases in and out). ``chexqa
run export`` writes ``every_eval_ever`` and ``huggingface_results``.
"""
