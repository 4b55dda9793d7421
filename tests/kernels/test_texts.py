import numpy as np
import selecting as oracle
from hypothesis import given
from hypothesis import strategies as st

from projseg.kernels.texts.text_bytes import text_hash


@given(st.binary(max_size=50), st.binary(max_size=9), st.binary(max_size=9))
def test_a_hash_is_the_oracles_wherever_the_text_stands(text, before, after):
    content = np.frombuffer(before + text + after, np.uint8)
    start = np.uint64(len(before))
    hashed = text_hash(content, start, start + np.uint64(len(text)))
    assert hashed == oracle.text_hash(text)
