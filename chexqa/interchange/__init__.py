"""Import and export of other projects' formats: CheXpercept's release, Hugging Face datasets, VLMEvalKit's tables.

Read ``layout`` and ``release`` (import of a release), then ``release_export``, ``huggingface`` and ``vlmevalkit``.
``croissant`` and ``dataset_card`` write the metadata and the card of a data set, from facts that the user gives
(``dataset_about``). ``foreign`` and ``tables`` read other projects' benchmarks for an audit. ``folders`` makes the
folders that exports write.
"""
