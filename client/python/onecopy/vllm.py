"""onecopy.integrations.vllm, by the name that programs use."""

import sys

from .integrations import vllm as _module
from .integrations.vllm import *  # noqa: F403  (what checkers of types see)
from .integrations.vllm import __getattr__ as __getattr__

sys.modules[__name__] = _module
