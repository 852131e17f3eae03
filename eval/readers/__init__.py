"""Human readers: comparison with models, accuracy of models by reviewers' answers, and agreement of masks with the key.

- Comparison of models with a random sample of readers: ``jackknife`` (scores without each patient in turn),
  ``obuchowski_rockette`` (analysis of variance) and ``random_readers`` (the table).
- Accuracy of models by the answers of expert reviewers: ``reviewed`` (the reviewed sample) and ``prediction_powered``
  (the estimate).
- Agreement of the key with another reader's masks: ``mask_verdicts`` (the answers that masks give) and
  ``second_reader`` (the agreement).
"""
