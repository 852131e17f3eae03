"""``index.html`` of a report: what its sections hold, their plots and tables, and the page's style and scripts.

Read ``sections`` (order of the page), then ``render`` and ``page.html.j2``. ``html_tables`` makes its tables.
"""
