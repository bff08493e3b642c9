"""From moments to parameters: the eigenpairs of the whitened third moment."""
