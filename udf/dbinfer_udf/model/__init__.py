"""A model: what it is, where and how it runs, tried before it is believed."""
