"""Human readers beside models: readers as a random sample, and keys corrected by a reviewed sample.

Read ``obuchowski_rockette`` (the analysis of variance), ``jackknife`` (scores that leave out one patient at a time) and
``random_readers`` (the table); then ``reviewed`` (which answers of reviewers count), ``prediction_powered``, and
``second_reader`` (another reader's masks, by kind).
"""
