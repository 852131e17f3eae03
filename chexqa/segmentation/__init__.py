"""Prediction of missing masks of lungs and heart by a segmentation model of the user.

Read ``fill_in`` (which masks are added to a manifest), then ``clean_up`` (how a prediction becomes a mask).
``onnx_model`` and ``python_model`` are the two kinds of model. chexqa comes without a model.
"""
