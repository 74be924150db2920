"""onecopy.formats.orc, by the name that programs use."""

import sys

from .formats import orc as _module
from .formats.orc import *  # noqa: F403  (what checkers of types see)

sys.modules[__name__] = _module
