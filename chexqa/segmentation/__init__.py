"""Masks of lungs and heart predicted by a segmentation model of the user, for cases without these masks.

Read ``fill_in`` (which masks are added to a manifest), then ``clean_up`` (how a prediction becomes a mask).
``onnx_model`` and ``python_model`` are the two kinds of model. chexqa comes without a model.
"""
