"""One builder for each kind of question: a case's measures as an item with its key.

Read ``registry`` and ``item_builder`` first, then the builders in the order of the questions: ``detection``,
``contour``, ``attributes``, ``grid``. Builders from outside the package are read by ``plugins``.
"""
