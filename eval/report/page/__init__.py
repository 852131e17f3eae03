"""Page of a report, ``index.html``: its sections with their plots and tables, its style and its scripts.

Read ``sections`` (order of the page), ``figures`` (plots as files), ``data`` (what the scripts read), then ``render``,
``page.html.j2`` and the scripts: ``base.js`` (data, view, numbers), ``plots.js``, ``tables.js``, ``leaderboard.js``
(first screen), ``views.js`` and ``effects.js`` (plots of each section), ``compare.js`` and ``page.js``.
"""
