"""Command line: ``main`` has the table of commands; each other module holds a few commands or one group.

Read ``main`` first: it imports a command only when it is called. The commands for models and reports are in
``eval/cli``.
"""
