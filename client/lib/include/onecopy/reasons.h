// The stable names by which Status::reason() says what went wrong: onecopy::reasons::kPeerDown and
// the like.
#pragma once

#include "onecopy/language.h"
#include "transport/core/reasons.h"
