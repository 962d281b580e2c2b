"""A network larger than a device: its variables lie split over several processes, with Keras' ModelParallel and JAX."""
