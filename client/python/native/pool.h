// A pool of shared memory, and its pieces with Python's buffer protocol.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/pool.h"

namespace onecopy::python {

// Needs the GIL, as its buffer's methods; goes back to the pool with its last view.
class PoolPiece {
 public:
  PoolPiece(std::shared_ptr<Pool> pool, void* data, uint64_t bytes)
      : pool_(std::move(pool)), data_(data), bytes_(bytes) {}
  ~PoolPiece();
  PoolPiece(const PoolPiece&) = delete;
  PoolPiece& operator=(const PoolPiece&) = delete;

  uint64_t address() const { return reinterpret_cast<uintptr_t>(data_); }
  uint64_t bytes() const { return bytes_; }
  // The buffer's id, as it is now, and where in it the piece begins.
  std::pair<std::string, uint64_t> Place() const;

 private:
  const std::shared_ptr<Pool> pool_;
  void* const data_;
  const uint64_t bytes_;
};

// Needs the GIL, and is without it while the daemon works. Thread-safe.
class PoolHandle {
 public:
  explicit PoolHandle(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}
  ~PoolHandle();

  std::unique_ptr<PoolPiece> Allocate(uint64_t bytes);
  void Grow(uint64_t bytes);
  uint64_t Trim(uint64_t keep_bytes);
  // Their buffers, as `onecopy --json` prints them, by address.
  std::vector<std::string> Slabs() const;
  std::string Statistics() const;  // a document, with the fields' names as keys

 private:
  std::shared_ptr<Pool> pool_;
};

// The slots of a piece's type that give out views.
PyType_Slot* PoolPieceSlots();

}  // namespace onecopy::python
