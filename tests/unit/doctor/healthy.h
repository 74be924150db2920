// A node on which the one-copy path works, for tests to spoil.
#pragma once

#include "client/doctor/facts.h"

namespace onecopy::doctor {

// Two GPUs, each below a switch with its InfiniBand or RoCE device; a daemon with one peer, and a
// probe that moved GPU memory from it. Nothing is found there.
Facts HealthyFacts();

// The same without a daemon.
Facts HealthyFactsWithoutDaemon();

}  // namespace onecopy::doctor
