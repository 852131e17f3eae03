"""Reader studies: the items and instructions that readers get, and the results of their answers.

- ``design``, ``feedback``: what readers are asked, and their training.
- ``reader_run``: the study as a run.
- ``self_agreement``: each reader's agreement with their own earlier answers.
- ``about_readers``: experience, display and conditions of readers, and the study's table.
"""
