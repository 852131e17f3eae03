"""The review page: the rows of a sheet in one window, opened from disk or from this machine's own server.

Read ``write_page``, then ``rounds`` and ``rows`` (what a page shows), ``layers`` (what is drawn over a picture),
``source_pixels``, and ``page.js`` with the scripts beside it; then ``serve`` with ``answers`` and ``board``.
What a page saves is read by ``chexqa.review.collect``.
"""
