// A pool of memory, of the host or of a GPU, and its pieces.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/pool.h"

namespace onecopy::python {

// Memory of a pool that goes back to it with its last view, in the order of the stream that it was
// allocated for. Needs the GIL, as its buffer's methods do, and is without it where it may wait.
class PoolPiece {
 public:
  // `keeps`: what must live as long as the piece, beside the pool; the stream is of it.
  PoolPiece(std::shared_ptr<Pool> pool, void* data, uint64_t bytes, StreamHandle stream,
            nanobind::object keeps);
  ~PoolPiece();
  PoolPiece(const PoolPiece&) = delete;
  PoolPiece& operator=(const PoolPiece&) = delete;

  uint64_t address() const { return reinterpret_cast<uintptr_t>(data_); }
  uint64_t bytes() const { return bytes_; }
  StreamHandle stream() const { return stream_; }
  bool on_host() const { return !pool_->cuda_device().has_value(); }
  // The buffer's id, as it is now, and where in it the piece begins.
  std::pair<std::string, uint64_t> Place() const;

  // What is given to `stream` from now on comes after what was given to the piece's until now.
  void HandTo(StreamHandle stream) const;
  // `stream` uses the piece, too, which goes back after what it was given by then. `owner` keeps it
  // from being destroyed; none: that may be, and then the host waits for the GPU instead.
  void UsedBy(StreamHandle stream, const nanobind::object& owner);
  // It goes back in the order of that stream, which is made to follow the present one, and of no
  // other: what uses it from now on must be given to that stream.
  void MoveTo(StreamHandle stream, const nanobind::object& owner);
  // It goes back when the GPU has done everything that it was given by then.
  void WaitAtEnd() { waits_ = true; }

  // For Python's collector of cycles.
  const std::vector<nanobind::object>& keeps() const { return keeps_; }
  void LetGo() { const auto gone = std::move(keeps_); }

 private:
  // Whether what the piece's stream is given from now on comes after all uses of the piece.
  bool SettleUses() const;

  std::shared_ptr<Pool> pool_;
  void* const data_;
  const uint64_t bytes_;
  StreamHandle stream_;
  bool waits_ = false;
  std::vector<StreamHandle> others_;  // that use it
  std::vector<nanobind::object> keeps_;
};

// Lets what the stream is given from now on come after what these others were given, or, where that
// cannot be or `all` is asked for, after all that the GPU was given, which the host waits for.
// False where neither can be: the memory must not be given back then.
bool ComesAfter(Pool& pool, StreamHandle stream, const std::vector<StreamHandle>& others, bool all);

// Needs the GIL, and is without it while the daemon works. Thread-safe.
class PoolHandle {
 public:
  explicit PoolHandle(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}
  ~PoolHandle();

  const std::shared_ptr<Pool>& pool() const { return pool_; }
  std::unique_ptr<PoolPiece> Allocate(uint64_t bytes, StreamHandle stream,
                                      const nanobind::object& keeps);
  // As Pool::AllocateIdle; of the default stream afterwards.
  std::unique_ptr<PoolPiece> AllocateIdle(uint64_t bytes, const nanobind::object& keeps);
  // As Allocate without an object: the caller gives it back.
  uint64_t AllocateBytes(uint64_t bytes, StreamHandle stream);
  void Deallocate(uint64_t address, uint64_t bytes, StreamHandle stream);
  // As PoolPiece::Place, of any bytes that lie in one piece; nothing where they do not.
  std::optional<std::pair<std::string, uint64_t>> Find(uint64_t address, uint64_t bytes) const;
  void Grow(uint64_t bytes);
  uint64_t Trim(uint64_t keep_bytes);
  void ReleaseStream(StreamHandle stream);
  // Their buffers, as `onecopy --json` prints them, by address.
  std::vector<std::string> Slabs() const;
  std::string Statistics() const;  // a document, with the fields' names as keys

 private:
  std::shared_ptr<Pool> pool_;
};

// The slots of a piece's type: views, of host memory, and what it keeps.
PyType_Slot* PoolPieceSlots();

}  // namespace onecopy::python
