// Transfers, a line each.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "onecopy/transfer.h"

namespace onecopy::cli {

struct TransferTable {
  // Bytes per second of running transfers, where they are known; ended ones have theirs in the
  // receipt.
  std::map<TransferId, double> rates = {};
  // The node whose buffers go without its name, and the ends without what is told elsewhere.
  std::string here = {};
  std::optional<size_t> width = {};  // columns that there is room for; absent: any number
};

void PrintTransfers(std::ostream& out, const std::vector<TransferInfo>& transfers,
                    const TransferTable& options = {});

}  // namespace onecopy::cli
