"""What is measured: one scenario a file, registered by its decorator."""
