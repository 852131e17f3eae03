"""The audit: can a benchmark be answered without looking at the anatomy? And the card that says what it holds."""
