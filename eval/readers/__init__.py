"""Readers beside models: readers as a random sample, and keys that a reviewed sample corrects.

Read ``obuchowski_rockette`` (the analysis), ``jackknife`` (scores without one patient after the other) and
``random_readers`` (the table); then ``reviewed`` (which answers of reviewers count) and
``prediction_powered``; ``second_reader`` (another reader's masks, by kind).
"""
