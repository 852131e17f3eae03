"""Gallery of a report: every item that was asked, with pictures, key and all answers, on a separate page.

The page is ``gallery.html``; the report's page links to it. Read ``address`` (how other pages link to filtered
items), then ``entries`` (the items that are shown) and ``files``. ``index``, ``records``, ``pictures``, ``pixels``,
``drawings``, ``stressed`` and ``thin_drawings`` make the gallery's data. ``data.js``, ``list.js``, ``item.js`` and
``main.js`` show the data.
"""
