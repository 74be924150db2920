"""onecopy.formats.parquet, by the name that programs use."""

import sys

from .formats import parquet as _module
from .formats.parquet import *  # noqa: F403  (what checkers of types see)

sys.modules[__name__] = _module
