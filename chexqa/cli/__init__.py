"""Command line: ``main`` has the table of commands, every other module one command or group.

Read ``main`` first: it imports a command only when it is called.
Commands of models and reports are in ``eval/cli``.
"""
