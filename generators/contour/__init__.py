"""Drawing of the questions on outlines: outlines with errors, four outlines to choose from, and coloured points.

Read ``plan``, then ``edits`` (an edit), ``edit_sampler`` (drawing one) and ``edit_sets`` (the four pictures).
``points`` plans the coloured points, ``raking`` balances draws, ``small_lesions`` makes the pictures of small lesions.
"""
