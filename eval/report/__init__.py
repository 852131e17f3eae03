"""Report for people: a page with plots, and tables on the terminal.

Read ``write``, then ``page_parts`` (order of the page), ``build`` and ``page``. ``html_tables``, ``plots`` and
``methods`` make its parts. The modules ``display*`` print on the terminal.
"""
