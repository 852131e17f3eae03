"""Records of results for others: what a journal's checklist asks for, Every Eval Ever, and the Hugging Face hub.

Read ``checklist`` (MI-CLEAR-LLM and what a reviewer asks for) and ``case_flow`` (cases in and out), which a report
holds; then ``every_eval_ever`` and ``huggingface_results``, which ``chexqa run export`` writes.
"""
