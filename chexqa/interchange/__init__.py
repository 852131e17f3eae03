"""Import and export of other projects' formats: CheXpercept's release, Hugging Face datasets, VLMEvalKit's tables.

Read ``layout`` and ``release`` (reading a release), then ``release_export``, ``huggingface`` and ``vlmevalkit``.
``croissant`` writes metadata; ``dataset_about`` holds the facts that only the user knows, ``dataset_card`` the card.
``foreign`` and ``tables`` read other projects' benchmarks for an audit. ``folders`` makes the folders that exports
write.
"""
