"""The training loop: early stopping, checkpoints, mixed precision and data-parallel processes."""
