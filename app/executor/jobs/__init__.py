"""Jobs as their executor runs them: fit, score and predict over datasets."""
