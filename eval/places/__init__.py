"""Places: frames of coordinates, and the score of a place.

Read ``frames`` (units and orders of numbers), ``target`` (the right place), ``score`` (a place compared with the right
one), ``run_scores`` (all places of runs), ``markers`` (the proof that a model uses the declared frame) and ``average``
(where a finding usually lies). ``chexqa.eval.prompts.parser_places`` reads coordinates from a reply.
"""
