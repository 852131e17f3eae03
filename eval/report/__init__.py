"""The report people look at: a page with plots and a gallery, and tables on the terminal.

Read ``write``, then ``outline`` (what stands where), ``build`` and ``page``.
``html_tables``, ``plots``, ``gallery`` and ``methods`` make its parts; ``display`` is for the terminal.
"""
