"""Localization answers: points, boxes or outlines on a radiograph, scored against the right place.

- ``coordinate_systems``: units and orders of coordinates.
- ``target``: the right place; ``score``: a place compared with it; ``run_scores``: all places of runs.
- ``markers``: the proof that a model uses the declared coordinate system.
- ``average``: where a finding usually lies; ``common``: the place that readers have in common.
- ``drawn_places``: places drawn over a radiograph; ``pictures``: the size of an item's picture.

``chexqa.eval.prompts.parser_places`` reads coordinates from a reply.
"""
