// NVIDIA's management library, opened at run time: what the CUDA driver does not tell. Opens no
// context and needs no GPU memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::shim {

struct NvmlGpu {
  std::string uuid;     // "GPU-5f…"
  std::string address;  // PCI, as the library writes it: "00000000:1B:00.0"
  std::string name;
  uint64_t bar1_bytes = 0;          // 0: not told
  std::optional<bool> persistence;  // empty: not told
};

struct NvmlInfo {
  std::string driver_version;  // "580.65.06"
  std::vector<NvmlGpu> gpus;
};

// Opens `path`, or libnvidia-ml.so.1 where that is empty, asks about every GPU, and shuts the
// library down again. Any thread; may take a second. FAILED_PRECONDITION with the reason NO_DRIVER
// where the library is not there or lacks a function, DRIVER_FAILED with its own words where it
// does not answer. A question that one GPU does not answer leaves its field empty.
Result<NvmlInfo> QueryNvml(const std::string& path = {});

// What NVLink has carried, by the library's counters. Keeps the library open. Any thread; a
// question may take a millisecond.
class Nvlink {
 public:
  // As QueryNvml. A library without such counters opens, and then answers nothing.
  static Result<std::shared_ptr<Nvlink>> Open(const std::string& path = {});
  ~Nvlink();
  Nvlink(const Nvlink&) = delete;
  Nvlink& operator=(const Nvlink&) = delete;

  // Bytes of payload that the GPU has sent since some beginning, over all links; to a KiB. Nothing
  // without counters.
  std::optional<uint64_t> SentBytes(const std::string& uuid) const;
  // Whether NVLink joins the two; nothing if unknown.
  std::optional<bool> Joins(const std::string& uuid, const std::string& other) const;

 private:
  struct State;
  explicit Nvlink(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace onecopy::shim
