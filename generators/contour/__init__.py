"""Contour items: drawn outlines, errors put into them, and the sets of pictures to choose from.

Read ``plan``, then ``edits`` (one error), ``edit_sampler`` (which error) and ``edit_sets`` (which pictures together).
``points`` plans the marked points, ``raking`` balances them, ``small_lesions`` is the way for small ones.
"""
