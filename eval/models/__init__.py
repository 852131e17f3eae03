"""Models, and the ways to call them: registry, clients, rate limits and health checks.

Read ``registry`` and ``models.yaml``, then ``client`` (litellm) and ``openai_http`` (direct requests to
OpenAI-compatible servers). ``data_policy`` decides where pictures may be sent; ``adapters`` fits prompts to a model.
"""
