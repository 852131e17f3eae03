"""Gallery of a report: every item that was asked, with pictures, key and all answers, on a page of its own.

Read ``address`` (how other pages link to a choice of items), then ``files``, ``index`` and ``records``.
"""
