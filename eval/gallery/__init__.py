"""Gallery of a report: every item that was asked, with pictures, key and all answers, on a separate page.

The page is ``gallery.html``; the report's page links to it. Read ``address`` (how other pages link to filtered items),
then ``entries`` (the items that are shown) and ``files``. The other modules make the page's data, and the scripts
(``.js``) show them.
"""
