"""Localization maps (saliency, similarity, cross-attention) graded against masks, beside radiologists' own marks."""
