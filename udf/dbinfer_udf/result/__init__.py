"""From a network's output to what SQL functions return."""
