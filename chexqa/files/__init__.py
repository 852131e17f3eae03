"""Safe reading and writing of files. Every other package uses this package; it imports only the schemas.

Read ``errors``, then ``opening`` (the only way to read) and ``atomic`` (the only way to write), then ``jsonio``.
``limits`` holds the bounds on input, ``redact`` hides secrets, ``say`` and ``terminal`` print, ``workers`` starts
processes.
"""
