"""Gallery of a report: every item that was asked, with pictures, key and all answers, on a separate page.

The page is ``gallery.html``; the report's page links to it. Read ``address`` (how other pages link to a choice of
items), then ``files``, ``index`` and ``records``.
"""
