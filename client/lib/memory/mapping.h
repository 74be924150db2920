// A buffer's memory in this process, and the daemon's word on it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/lib/memory/given_memory.h"
#include "client/lib/session/connection.h"
#include "onecopy/buffer.h"
#include "onecopy/mapped_buffer.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::client {

// The mapped bytes. Whether they may still be used is not known here.
class MappedMemory {
 public:
  virtual ~MappedMemory() = default;

  void* data() const { return data_; }
  std::optional<int> cuda_device() const { return cuda_device_; }

  // ABORTED (MEMORY_FAULT) once a thread touched bytes that were not there. Any thread.
  virtual Status CheckIntact() const { return OkStatus(); }

  // Once, before the destructor, which gives nothing back.
  virtual Status Unmap() = 0;

 protected:
  MappedMemory(void* data, std::optional<int> cuda_device)
      : data_(data), cuda_device_(cuda_device) {}

 private:
  void* const data_;
  const std::optional<int> cuda_device_;
};

// Host memory. FAILED_PRECONDITION where the system maps no such file.
Result<std::unique_ptr<MappedMemory>> MapHost(GivenMemory& given);

// Asks the daemon for it and maps it; see Client::MapBuffer.
class Mapping {
 public:
  static Result<std::unique_ptr<Mapping>> Make(std::shared_ptr<Connection> connection,
                                               const std::string& node, const std::string& buffer,
                                               const MapOptions& options);
  ~Mapping() { static_cast<void>(Unmap()); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const MappedMemory& memory() const { return *memory_; }
  const BufferInfo& info() const { return info_; }
  int lease() const { return lease_.get(); }
  Status CheckValid() const;
  // The memory first, then the lease: the daemon hears of what has been done.
  Status Unmap();

 private:
  Mapping(std::shared_ptr<Connection> connection, BufferInfo info, os::UniqueFd lease,
          std::unique_ptr<MappedMemory> memory)
      : connection_(std::move(connection)),
        info_(std::move(info)),
        lease_(std::move(lease)),
        memory_(std::move(memory)) {}

  const std::shared_ptr<Connection> connection_;  // whose session the mapping lives in
  const BufferInfo info_;
  os::UniqueFd lease_;
  std::unique_ptr<MappedMemory> memory_;
};

}  // namespace onecopy::client
