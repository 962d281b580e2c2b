"""The zoo: Keras networks with their manifests."""
