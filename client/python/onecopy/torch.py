"""onecopy.integrations.torch, by the name that programs use."""

import sys

from .integrations import torch as _module
from .integrations.torch import *  # noqa: F403  (what checkers of types see)

sys.modules[__name__] = _module
