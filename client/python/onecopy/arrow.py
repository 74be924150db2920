"""onecopy.formats.arrow, by the name that programs use."""

import sys

from .formats import arrow as _module
from .formats.arrow import *  # noqa: F403  (what checkers of types see)

sys.modules[__name__] = _module
