// What `onecopy` prints for people about transfers, plans and errors.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "client/cli/output/document.h"

namespace onecopy::cli {

// A compact block: what moved and how fast, the path, each step, the lanes, and why nothing better
// (without the paths that would have been worse, or do not apply; JSON has them all).
void PrintReceipt(std::ostream& out, const Move& move);

// The path that would be taken, its steps, and every other path with the reason why not.
void PrintPlan(std::ostream& out, const std::string& source, const std::string& destination,
               const Plan& plan);

// One line for each, and below it what could be done.
// Its path and steps alone, as of a transfer that has not reached its end.
void PrintPlannedPath(std::ostream& out, const Plan& plan);

void PrintRefusals(std::ostream& out, const std::vector<Refusal>& refusals);

// "onecopy: …", and what to do about it; with every refusal.
void PrintError(std::ostream& err, const Status& error);

}  // namespace onecopy::cli
