"""Safe reading and writing of any file; all other packages import this one, and it imports only schemas.

Read ``errors``, then ``opening`` (the only way to read) and ``atomic`` (the only way to write), then ``jsonio``.
``limits`` holds the bounds on input, ``redact`` hides secrets, ``say`` and ``terminal`` print, ``workers`` starts
processes.
"""
