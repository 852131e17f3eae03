"""Gallery of a report: every item that was asked, with pictures, key and all answers, on a page of its own.

The report's page links to it, ``gallery.html``, and holds none of it. Read ``address`` (how other pages link to a
choice of items), then ``files``, ``index`` and ``records``.
"""
