// From facts to findings.
#pragma once

#include "client/doctor/facts.h"
#include "client/doctor/finding.h"

namespace onecopy::doctor {

// A pure function. The table of its findings is in README.md. The path works where a daemon's probe
// moved GPU memory from a peer over RDMA hardware: what would block it is then a note, because it
// did not. Without such a probe NOT_PROVEN is among the findings.
Diagnosis Diagnose(const Facts& facts);

}  // namespace onecopy::doctor
