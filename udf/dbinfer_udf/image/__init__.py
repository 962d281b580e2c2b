"""One image: what its file says of itself, its pixels within limits, resized and drawn."""
