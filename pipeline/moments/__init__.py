"""The paper: Algorithm 1 and nothing else, and what Theorem 1 says of its result.

Equations are counted as its TeX counts them; steps are those of Algorithm 1.

==================  =========================  ===============  =======================================
symbol              equation, or step          file             class or function
==================  =========================  ===============  =======================================
x, nnz(x)           section 3                  `words.py`       `WordView`
M2                  5, 16; step 1, pass 1      `pairs.py`       `Pairs`, `exact_m2`, `sketched_m2`
nu, omega; W        8; steps 2 and 3           `whitening.py`   `exact_whitening`, `sketched_whitening`
a sketch of Omega   none: one pass is enough   `sample.py`      `read_sample`, `sample_product`
M3(W, W, W)         9, 17, 18; step 4, pass 2  `triples.py`     `Triples`, `WhitenedMoments`
lambda, u           10; step 5                 `tensor.py`      `decompose`
mu, O; pi           10; steps 6, 7 and 9       `recover.py`     `word_topics`, `topic_weights`
M2L(WU, WU)         11, 20; step 8, pass 3     `labels.py`      `LabelPairs`, `label_moments`
Q, P[l | h]         12, 21; steps 8 and 9      `recover.py`     `label_topics`
P[d | h], P[h | d]  13, 14                     `posterior.py`   `posterior`
P[l | d]            15                         `posterior.py`   `TopicModel`
Theorem 1           section 4                  `guarantee.py`   `guarantee`
error bars          none: measured             `error_bars.py`  `half_directions`, `word_error_bars`
all, in order       Algorithm 1                `method.py`      `MomentMethod` and its stages
its result                                     `topics.py`      `MomentTopics`
==================  =========================  ===============  =======================================
"""
