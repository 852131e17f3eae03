"""What is sent to a model and how its reply is read.

Read ``protocols``, then ``option_order`` and ``subset``; ``answer_parser`` reads replies with the help of ``parser_*``.
"""
