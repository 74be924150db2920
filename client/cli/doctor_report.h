// The doctor's findings, for people and for programs.
#pragma once

#include <ostream>

#include "client/cli/output/document.h"
#include "client/doctor/facts.h"
#include "client/doctor/finding.h"

namespace onecopy::cli {

// A block for each finding: its code, what was seen, what to do; then the verdict in one line.
void PrintDiagnosis(std::ostream& out, const doctor::Diagnosis& diagnosis);

// {"works": …, "findings": […], "facts": {…}}
Json DiagnosisToJson(const doctor::Diagnosis& diagnosis, const doctor::Facts& facts);

}  // namespace onecopy::cli
