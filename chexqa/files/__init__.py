"""Reading and writing, safely, with nothing of radiographs in it; imported by everything, imports only schemas.

Read ``errors``, then ``opening`` (the one way to read) and ``atomic`` (the one way to write), then ``jsonio``.
``limits`` holds every bound on input, ``redact`` takes secrets out, ``say`` and ``terminal`` print, ``workers`` starts
processes.
"""
