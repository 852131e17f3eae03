"""Making of localization maps: a maker shows where in a radiograph it sees a finding, and is run on every case.

Read ``registry`` (what a maker is, and plugins), then ``make_maps`` (which maps are written and when),
``cases_to_map``, ``geometry`` (from the radiograph to a model's input and back) and ``prompts`` (the wording of
findings).
"""
