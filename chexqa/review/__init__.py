"""Expert review: work dealt into spreadsheets, taken back row by row, compared, and applied to a new version."""
