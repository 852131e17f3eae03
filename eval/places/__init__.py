"""Places: frames of coordinates, and how right a place is.

Read ``frames`` (units and orders of numbers), ``target`` (the place to be found), ``score`` (a place against its
target), ``run_scores`` (all places of runs), ``markers`` (the proof that a model's frame is the declared one) and
``average`` (where a finding usually is). Coordinates in a reply are read by ``chexqa.eval.prompts.parser_places``.
"""
