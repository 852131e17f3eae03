"""Human readers and models: comparison with a random sample of readers, and accuracy corrected by expert review.

- ``obuchowski_rockette`` (analysis of variance), ``jackknife`` (scores that leave out one patient at a time) and
  ``random_readers`` (the table) belong to the comparison.
- ``reviewed`` (which answers of reviewers count) and ``prediction_powered`` (accuracy by the reviewers) belong to the
  correction.
- ``mask_verdicts`` answers a benchmark's items by another reader's masks, and ``second_reader`` shows how often these
  answers agree with the key.
"""
