"""Results of localization questions (answers that are a point, a box or an outline).

The results show how often the place of a present finding is right, and how often an absent finding gets a place.

- ``place_rows``: answers as rows of a table.
- ``frame_proofs``: which models use the declared coordinate system.
- ``guessers``: scores of guessing.
- ``place_table``: scores with their intervals; ``one_cell``: hit rates of models, maps and readers on the grid.
- ``terminal_table``: the headline on the terminal.
- ``gallery_drawings``: places over the radiographs of the report's gallery.
"""
