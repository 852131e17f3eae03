"""Other people's files: CheXpercept's own release and results, Hugging Face datasets, VLMEvalKit's tables."""
