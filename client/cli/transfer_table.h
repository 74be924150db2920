// Transfers, a line each.
#pragma once

#include <map>
#include <ostream>
#include <vector>

#include "onecopy/transfer.h"

namespace onecopy::cli {

// `rates` has bytes per second of running transfers, where they are known; ended ones have theirs
// in the receipt.
void PrintTransfers(std::ostream& out, const std::vector<TransferInfo>& transfers,
                    const std::map<TransferId, double>& rates = {});

}  // namespace onecopy::cli
