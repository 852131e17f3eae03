"""Making of localization maps: a maker shows where in a radiograph it sees a finding, and it is run on every case.

Read ``registry`` (makers and plugins), then ``make_maps`` (writing of maps), ``cases_to_map``, ``geometry`` (from the
radiograph to a model's input and back) and ``prompts`` (the wording of findings).
"""
