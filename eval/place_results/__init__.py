"""Results on places: how often the place of a present finding is right, and how often an absent finding gets a place.

Read ``place_rows`` (the rows that count), ``frame_proofs`` (which models' coordinates can be trusted), ``guessers``
(scores of guessing), ``place_table`` (the numbers with their intervals), ``terminal_table`` (the headline on the
terminal) and ``drawn_places`` (answers over a radiograph).
"""
