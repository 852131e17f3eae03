"""``index.html`` of a report: what its sections hold, their plots and tables, and the page's style and scripts.

Read ``sections`` (order of the page, and the plots written as files by ``figures``), ``data`` (what the scripts read),
then ``render``, ``page.html.j2`` and the scripts: ``base.js`` (data, view, numbers), ``plots.js``, ``tables.js``,
``leaderboard.js`` (first screen), ``views.js`` (plots of each section), ``compare.js`` and ``page.js``.
"""
