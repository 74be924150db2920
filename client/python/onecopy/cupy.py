"""onecopy.integrations.cupy, by the name that programs use."""

import sys

from .integrations import cupy as _module
from .integrations.cupy import *  # noqa: F403  (what checkers of types see)

sys.modules[__name__] = _module
