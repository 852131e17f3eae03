"""Review page: the rows of a sheet in one browser window, opened from disk or from a server on this machine.

Read ``write_page``, then ``rows`` (the content of a page), ``layers`` (drawings over a picture), ``source_pixels``
(radiographs at full bit depth), and ``page.js`` with the scripts beside it. Then read ``serve`` (the server) with
``answers`` and ``board``. ``chexqa.review.collect`` reads the files that a page saves.
"""
