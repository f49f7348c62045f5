"""What a person runs: the course's functions, the training demos, and the benchmark."""
