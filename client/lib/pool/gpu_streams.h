// The order of a GPU's streams, for a pool.
//
// Only work that the pool's callers have named a stream for counts, and only until that stream last
// gave memory back: an event is recorded there then, since at no later time the stream is known to
// exist. So streams may be destroyed, and none is asked what it does, which would spoil a capture.
// The legacy default stream alone always exists: its event is recorded when another one needs it.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/lib/memory/gpu_device.h"
#include "client/lib/pool/pool_core.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

// Thread-safe. The core knows streams by keys, which no two streams ever have in common. What a
// stream frees while it captures a graph is that graph's, whenever it is launched: it goes by a key
// of that capture and that stream, which nothing can follow or wait for until EndCaptures.
class GpuStreams final : public StreamOrder {
 public:
  explicit GpuStreams(GpuDeviceRef gpu) : gpu_(std::move(gpu)) {}
  ~GpuStreams() override;

  // Of memory that the stream asks for. For the legacy default stream (0, 1) no call of the driver.
  // FAILED_PRECONDITION (DRIVER_TOO_OLD, DRIVER_FAILED), and (STREAM_CAPTURING) for a thread's
  // default stream that captures, and for a capture that has failed.
  Result<StreamHandle> KeyOf(StreamHandle stream);
  // The same of memory that it gives back: what it was given until now may still use that.
  Result<StreamHandle> KeyOfFreeing(StreamHandle stream);

  // Before a stream goes: its key, and those of what it captured, whose graphs are launched no
  // more; none for the legacy default stream. FAILED_PRECONDITION (STREAM_CAPTURING).
  Result<std::vector<StreamHandle>> EndCaptures(StreamHandle stream);
  // The core knows these no more.
  void Forget(const std::vector<StreamHandle>& keys);

  // By their handles, of what `earlier` was given until now. FAILED_PRECONDITION (STREAM_CAPTURING)
  // where one of them captures.
  Status FollowNow(StreamHandle later, StreamHandle earlier);
  // The host waits for all streams of the GPU, of which no handle is named.
  Status WaitForAll() const;

  // FAILED_PRECONDITION (STREAM_CAPTURING) where one of them captures, or a stream does that the
  // legacy default one would wait for.
  Status Follow(StreamHandle later, StreamHandle earlier) override;
  Status Wait(StreamHandle stream) override;
  bool HasEnded(StreamHandle stream) override;

 private:
  struct Known {
    StreamHandle handle = 0;  // as it was last named
    CUevent freed = nullptr;  // when it last gave memory back; of a capture: when it was ended
    bool captures_end = false;
  };

  Status CheckDriver(StreamHandle stream) const;
  Result<StreamHandle> AskKey(StreamHandle stream);
  Result<StreamHandle> KeyOfCapture(StreamHandle stream);
  Status CheckDefault() const;
  Status Record(CUevent* event, CUstream stream) const;
  // That a stream was where it last freed something.
  Result<CUevent> EventOf(StreamHandle key) ONECOPY_REQUIRES(mutex_);

  const GpuDeviceRef gpu_;
  Mutex mutex_;
  std::unordered_map<StreamHandle, Known> known_ ONECOPY_GUARDED_BY(mutex_);  // by key
  // By a capture's number and a stream: those that one capture forks into run beside each other.
  std::map<std::pair<uint64_t, StreamHandle>, StreamHandle> captured_ ONECOPY_GUARDED_BY(mutex_);
  StreamHandle last_captured_ ONECOPY_GUARDED_BY(mutex_) = 0;
};

}  // namespace onecopy::client
