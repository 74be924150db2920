// Counts every call of this process that moves payload, below and independent of what the movers
// report.
//
// The linker sends our own code's calls of sendmsg, recvmsg, pread (a client's memory with holes is
// copied by that) and onecopy_copy_bytes and _strided through here (onecopy_use_ledger in
// tests/support/CMakeLists.txt); gRPC's, in its own library, it leaves alone.
#pragma once

#include <cstdint>

namespace onecopy::testing {

struct Ledger {
  uint64_t copied = 0;    // by processors, the kernel's part in it too, and by GPUs' engines
  uint64_t sent = 0;      // from memory into the kernel
  uint64_t received = 0;  // from the kernel into memory

  // What has been counted so far.
  static Ledger Now();
  // For calls that the linker cannot redirect: those through a table of functions.
  static void CountCopy(uint64_t bytes);

  // Passes of `payload` bytes: a send and its receive are two copies and, between them, one wire.
  // Frames around the payload make it a little more than a whole number.
  double Copies(uint64_t payload) const {
    return static_cast<double>(copied + sent + received + received) / static_cast<double>(payload);
  }

  friend Ledger operator-(const Ledger& a, const Ledger& b) {
    return {a.copied - b.copied, a.sent - b.sent, a.received - b.received};
  }
};

}  // namespace onecopy::testing
