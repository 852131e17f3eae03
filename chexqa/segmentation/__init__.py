"""Lungs and hearts from a segmentation model that the user has, for cases that lack them.

Read ``fill_in`` (a manifest's missing masks), then ``clean_up`` (what is done to a prediction).
``onnx_model`` and ``python_model`` are the two kinds of model. chexqa has no model of its own.
"""
