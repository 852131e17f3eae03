"""Gallery of a report: every item that was asked, with pictures, key and all answers, on a separate page.

The report's page links to it, ``gallery.html``, and holds none of it. Read ``address`` (how other pages link to a
choice of items), then ``entries`` (what is shown) and ``files``. ``index``, ``records``, ``pictures`` and ``drawings``
make its data; ``data.js``, ``list.js``, ``item.js`` and ``main.js`` show them.
"""
