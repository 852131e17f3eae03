"""Results on places: how often a finding is found where it is, and how often it is placed where it is not.

Read ``place_rows`` (the rows that count), ``frame_proofs`` (which models' coordinates can be trusted), ``guessers``
(what a guesser reaches), ``place_table`` (the numbers with their intervals), ``terminal_table`` (the headline on the
terminal) and ``drawn_places`` (answers over a radiograph).
"""
