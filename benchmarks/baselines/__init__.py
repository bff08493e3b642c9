"""Other methods, written to be as fast as ours can be: the same kernels, the same cores, the same float32."""
