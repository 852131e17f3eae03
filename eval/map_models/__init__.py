"""Models that make localization maps, by family, and known checkpoints; torch is imported only when a model is loaded.

Read ``model_list`` (how a maker is chosen), then the families: ``clip_models`` and ``clip_maps`` (cosine of patches and
text), ``gradients`` (Grad-CAM), ``classifier``, ``local_contrastive`` and ``query_decoder``. ``weights`` and
``text_models`` read folders of weights. ``map_models.yaml`` lists known checkpoints.
"""
