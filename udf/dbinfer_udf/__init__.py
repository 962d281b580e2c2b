"""Code that runs inside database backends: decode > preprocess > infer > postprocess."""
