"""Other people's files: CheXpercept's own release, Hugging Face datasets, VLMEvalKit's tables.

Read ``layout`` and ``release`` (reading a release), then ``release_export``, ``huggingface`` and ``vlmevalkit``.
``foreign`` and ``tables`` read what others made for an audit. ``folders`` makes the folders that exports write.
"""
