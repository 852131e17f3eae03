"""Human readers and models: comparison with readers as a random sample, and accuracy corrected by expert review.

Read ``obuchowski_rockette`` (the analysis of variance), ``jackknife`` (scores that leave out one patient at a time) and
``random_readers`` (the table); then ``reviewed`` (which answers of reviewers count), ``prediction_powered`` (accuracy
by the reviewers), ``mask_verdicts`` (a benchmark's items answered by another reader's masks) and ``second_reader`` (how
often these answers agree with the key).
"""
