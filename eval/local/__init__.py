"""Models that are Python objects: a user's callable, or open weights run by transformers.

A model is called in this process or in worker processes. Read ``pool`` (requests, queue, batches), then ``hosts`` and
``worker`` (where a call runs), ``load_and_call`` (one call), ``callable_address`` (where a callable comes from),
``replies`` and ``conversation``.
"""
