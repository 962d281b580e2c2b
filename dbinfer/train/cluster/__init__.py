"""Chief, parameter servers and workers of one training: TensorFlow's ParameterServerStrategy and ClusterCoordinator."""
