"""What all rooms share: errors, progress, reports, and processes of their own for strangers' files."""
