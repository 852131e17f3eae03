"""Contour items: outlines with errors, the sets of four pictures, and the coloured points.

Read ``plan``, then ``edits`` (an edit), ``edit_sampler`` (drawing one) and ``edit_sets`` (the four pictures).
``points`` plans the coloured points, ``raking`` balances draws, ``small_lesions`` makes the pictures of small lesions.
"""
