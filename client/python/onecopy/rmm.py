"""onecopy.integrations.rmm, by the name that programs use."""

import sys

from .integrations import rmm as _module
from .integrations.rmm import *  # noqa: F403  (what checkers of types see)

sys.modules[__name__] = _module
