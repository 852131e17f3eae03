"""Prompts sent to models, and the parser of their replies.

Read ``protocols``, then ``option_order`` and ``subset``; ``answer_parser`` reads replies with the help of ``parser_*``.
"""
