"""What is chosen from the data: kernels, scales of columns, numbers of components and penalties."""
