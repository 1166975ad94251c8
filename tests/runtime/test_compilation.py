"""What starting a run changes for a while is as it was afterwards."""

import gc

import pytest

from trustax.runtime.compilation import without_garbage_collection


@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_collection_is_restored_even_after_an_error(is_on: bool) -> None:
    (gc.enable if is_on else gc.disable)()
    try:
        with pytest.raises(ValueError, match="True"), without_garbage_collection():
            raise ValueError(f"garbage collection is off: {not gc.isenabled()}")
        assert gc.isenabled() == is_on
    finally:
        gc.enable()
