"""Random choices for questions on outlines: wrong outlines, four outlines to choose from, coloured points.

Read ``plan``, then ``edits`` (one edit), ``edit_sampler`` (a random edit), ``edit_sets`` (the edits of the four
pictures). ``field`` says where outlines may go, ``points`` plans the coloured points, and ``small_lesions`` makes the
pictures of small lesions. ``raking`` computes the weights of random choices, so that each value of a property is
chosen with its intended share.
"""
