"""How far two runs of a network agree: the measure of each task, and the images to measure it on."""
