"""Command line: ``main`` has the table of commands; each other module defines a few commands or one group.

Read ``main`` first: it imports a command's module only when the command is called. The commands for models and reports
are in ``eval/cli``.
"""
