// What every receipt has to say, whatever the transfer.
#pragma once

#include <string>
#include <vector>

#include "onecopy/client.h"
#include "tests/support/node.h"

namespace onecopy::testing {

// A path that was tried before the one that succeeded, and moved nothing.
struct TriedBefore {
  std::string path;
  std::string outcome;
};

struct ExpectedReceipt {
  std::string path;
  uint64_t bytes = 0;
  bool checksum = false;  // asked for
  std::string link = {};  // where the path is no tcp one: what carries it
  bool emulated = false;  // a software device does
  std::vector<TriedBefore> before = {};
};

// Copies of host memory over such a path: 1 of "local" to 5 of "tcp-staged".
size_t CopiesOf(const std::string& path);

// Requires, by Catch's CHECK, that this document is the receipt of a transfer that succeeded that
// way: each step with all bytes (those of encryption, too, as the receipt tells of it), from the
// source to the destination without a gap, lanes that add up to the bytes, a checksum that was
// verified where asked for, every path of fewer copies refused with its reason, and the attempts.
void CheckReceipt(const Json& receipt, const ExpectedReceipt& expected);
void CheckReceipt(const TransferInfo& transfer, const ExpectedReceipt& expected);

// Runs a transfer by gRPC. The receipt of a ring has no lanes, and does not name refused paths.
Result<TransferInfo> RunNegotiated(Client& client, const TransferRequest& request);

// A failure of that code, reason and exit status, as a command prints it.
void CheckRefused(const CommandResult& result, int exit_status, const std::string& code,
                  const std::string& reason);

}  // namespace onecopy::testing
