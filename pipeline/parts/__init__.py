"""Parts of a label's score: each one file with all that it sums, learns, scores, saves and says.

`part.py` is the protocol, `heads.py` the registry. `learning.py` takes the parts through a fit, `choosing.py`
makes their choices on held-out documents, and `blend.py` is what remains.
"""
