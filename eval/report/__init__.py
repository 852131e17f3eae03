"""The report for readers: a page with plots and a gallery, and tables on the terminal.

Read ``write``, then ``page_parts`` (order of the page), ``build`` and ``page``. ``html_tables``, ``plots``, ``gallery``
and ``methods`` make its parts; ``display`` is for the terminal.
"""
