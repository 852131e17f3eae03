"""Who is asked and how: the registry of models, clients, rate limits and health checks.

Read ``registry`` and ``models.yaml``, then ``client`` (litellm) and ``openai_http`` (the direct way to OpenAI-like
servers). ``data_policy`` decides who may see which data; ``adapters`` fits prompts to what a model takes.
"""
