"""Places: coordinates in a reply, the frames that models give them in, and how right a place is.

Read ``frames`` (units and orders of numbers), ``reply`` (coordinates in a text), ``target`` (the place to be found),
``score`` (a place against its target) and ``markers`` (the proof that a model's frame is the declared one).
"""
