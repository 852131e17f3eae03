"""Prompts sent to models, and the parser of their replies.

Read ``protocols`` (a case's items as a conversation), then ``option_order``. ``answer_parser`` reads the replies, with
the modules ``parser_*``.
"""
