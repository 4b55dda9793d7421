"""What Numba compiled, as machine code that needs no Numba."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype, from_dtype

from projseg.kernels.runtime.call_types import NONE
from projseg.kernels.runtime.machine_code import machine_code
from projseg.kernels.runtime.stored_code import FORM, StoredKernel, processor_stamp

_WORD_BITS: Final = 64


def stored_kernel(compiled: Any, source: int) -> StoredKernel | None:
    """Return a compiled kernel in the form it is kept in; None if it needs Numba to run.

    Parameters
    ----------
    compiled : CompileResult
        As Numba made or loaded it.
    source : int
        The stamp of its sources.
    """
    signature, processor = compiled.signature, processor_stamp()
    arguments = [text_of(one) for one in signature.args]
    results = _results(signature.return_type)
    texts = [text for text in arguments if text is not None]
    if processor is None or results is None or len(texts) < len(arguments):
        return None
    content = compiled.library._get_compiled_object()
    code = machine_code(content, compiled.fndesc.llvm_func_name)
    if code is None:
        return None
    is_tuple = isinstance(signature.return_type, types.BaseTuple)
    return StoredKernel(FORM, processor, source, texts, results, is_tuple, code)


def text_of(numba_type: Any) -> str | None:
    """Return a type as `call_types.type_of` writes it of a value of the type."""
    if isinstance(numba_type, types.Array):
        if not numba_type.aligned:
            return None
        dtype = as_dtype(numba_type.dtype)
        suffix = "" if numba_type.mutable else "r"
        return f"{dtype.kind}{dtype.itemsize}{numba_type.layout}{numba_type.ndim}{suffix}"
    if isinstance(numba_type, types.NoneType):
        return NONE
    if type(numba_type) in (types.Integer, types.Float, types.Boolean):
        dtype = as_dtype(numba_type)
        return f"s{dtype.kind}{dtype.itemsize}"
    return None


def numba_type_of(text: str) -> Any:
    """Return the type of which `text_of` is the text."""
    if text == NONE:
        return types.none
    if text.startswith("s"):
        return from_dtype(np.dtype(text[1:]))
    plain = text.removesuffix("r")
    layout: Any = plain[2]
    item = from_dtype(np.dtype(plain[:2]))
    return types.Array(item, int(plain[3:]), layout, readonly=plain != text)


def _results(numba_type: Any) -> list[str] | None:
    """Return the types of what is returned: nothing, a scalar, or a tuple of whole words."""
    if isinstance(numba_type, types.NoneType):
        return []
    if not isinstance(numba_type, types.BaseTuple):
        text = None if isinstance(numba_type, types.Array) else text_of(numba_type)
        return None if text is None else [text]
    items: Any = numba_type
    texts = [text_of(one) for one in items if getattr(one, "bitwidth", None) == _WORD_BITS]
    found = [text for text in texts if text is not None]
    return found if len(found) == len(items) else None
