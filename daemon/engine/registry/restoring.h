// Puts back what an earlier process of this daemon has left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/kept.h"

namespace onecopy::engine {

// Engine thread, before anything is served; may block, on GPUs for as long as these take to open.
class Restoring {
 public:
  Restoring(Context& context, Kept& kept, Buffers& buffers, Grants& grants)
      : context_(context), kept_(kept), buffers_(buffers), grants_(grants) {}

  // Buffers with their ids, then views and grants. The log says what is there again, and what of
  // the earlier process is gone, and why.
  void Run();

 private:
  Status Restore(const BufferRecord& record);
  Status RestoreView(const BufferRecord& record);
  void Lose(const std::string& key, const BufferRecord& record, const Status& why);

  Context& context_;
  Kept& kept_;
  Buffers& buffers_;
  Grants& grants_;
  KeeperApi::Left left_;
  uint64_t restored_ = 0;
  uint64_t bytes_ = 0;
  uint64_t granted_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace onecopy::engine
