"""A report for people: a page with plots, and tables on the terminal.

Read ``write``, then ``build`` and the package ``page`` (the page itself). ``plots``, ``limit_plots`` and
``scatter_plots`` draw the plots that are saved as files. The modules ``display*`` print on the terminal.
"""
