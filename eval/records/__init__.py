"""Records of results for others: journals' checklists, Every Eval Ever, and the Hugging Face hub.

Read ``checklist`` (MI-CLEAR-LLM and a reviewer's questions) and ``case_flow`` (cases in and out), which a report holds;
then ``every_eval_ever`` and ``huggingface_results``, which ``chexqa run export`` writes.
"""
