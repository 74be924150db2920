"""onecopy.integrations.numba, by the name that programs use."""

import sys

from .integrations import numba as _module
from .integrations.numba import *  # noqa: F403  (what checkers of types see)

sys.modules[__name__] = _module
