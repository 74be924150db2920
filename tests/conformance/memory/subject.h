// What the conformance suite of onecopy::Memory needs to know about the implementation that it
// runs on. Each test program links the suite and one subject.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/core/contracts/memory.h"

namespace onecopy::testing {

using Bytes = std::vector<unsigned char>;

// Memory of a client, and what it passes.
struct Shared {
  ImportRequest request;
  std::function<Bytes()> read;  // the piece, as the client sees it
  std::shared_ptr<void> keep;   // the client's memory lives as long
};

class Subject {
 public:
  virtual ~Subject() = default;

  virtual Memory& memory() = 0;

  // UUIDs of its devices; one empty name for host memory.
  virtual std::vector<std::string> devices() = 0;

  // Whether onecopy allocates such memory, or takes only what clients have.
  virtual bool allocates() const { return true; }
  // New memory, zeroed, for the suite to use; any thread.
  virtual Result<std::unique_ptr<Region>> Make(const std::string& device, uint64_t bytes) {
    return memory().Allocate(device, bytes);
  }

  // The largest allocation that this machine surely grants.
  virtual uint64_t large_bytes() = 0;

  // Forms in which clients share such memory.
  virtual std::vector<std::string> forms() = 0;
  // A client's memory on `device` that holds `content` from `offset` on.
  virtual Shared Share(const std::string& form, const std::string& device, uint64_t offset,
                       const Bytes& content) = 0;

  // Requests that must fail with INVALID_ARGUMENT (BAD_HANDLE), each with what is wrong with it.
  virtual std::vector<std::pair<std::string, Shared>> BadRequests() = 0;

  // What copies are made by, in steps.
  virtual std::string copied_by() const = 0;
};

// A fresh one; on null the suite is skipped, and `why` says why.
std::unique_ptr<Subject> MakeSubject(std::string& why);

}  // namespace onecopy::testing
