"""onecopy.integrations.ray, by the name that programs use."""

import sys

from .integrations import ray as _module
from .integrations.ray import *  # noqa: F403  (what checkers of types see)

sys.modules[__name__] = _module
