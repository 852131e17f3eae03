"""Interventions: radiographs of a benchmark with the lesion filled, with other lung tissue filled, or mirrored.

Read ``altered_items`` for the files and their items, then ``alter_case`` for the altered pictures of a case.

- ``clean_places`` finds other lung tissue that can be filled in instead of the lesion.
- ``other_lung`` finds the mirrored place of a mask in the other lung.
- ``fills`` and ``textures`` make the filling.
- ``partial_and_mirror`` computes the keys of the altered pictures.
- ``card_lines`` writes what the benchmark's card says about these pictures.
"""
