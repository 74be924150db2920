// A copy between a file and a buffer, ordered as a user's program would.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bench/ceiling/payload_file.h"
#include "bench/daemons/node.h"
#include "bench/measure/mover.h"
#include "bench/work/transfer_mover.h"
#include "onecopy/file_copy.h"

namespace onecopy::bench {

// Files of so many bytes take long enough for a floor.
inline constexpr uint64_t kJudgedFileBytes = uint64_t{64} << 20;

struct FileMoverParams {
  Node node;                            // the file's
  std::optional<Node> buffers = {};     // the buffer's; absent: the same
  std::string memory = "host";          // or a GPU's UUID
  std::string path = "storage-bounce";  // or a pattern for it
  std::string file = {};                // which does not exist yet, and goes with the object
  bool writes = false;                  // into a file, which is new each time
  bool cold = false;                    // what is read is not in the page cache
  // Without the second descriptor, which lets the daemon past the page cache.
  bool through_cache = false;
};

// By that path. `Moved::seconds` are the receipt's; CPU time is that of the daemons, where they are
// the bench's own, and of this process while it waited.
class FileMover final : public Mover {
 public:
  // RESOURCE_EXHAUSTED without room for the payload in memory or on the disk.
  static Result<std::unique_ptr<FileMover>> Create(const FileMoverParams& params, uint64_t bytes);

  // Whether the path can be taken; else FAILED_PRECONDITION with the reason against it.
  Status Plan();

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  FileMover(const FileMoverParams& params, std::unique_ptr<PayloadFile> file, Client client,
            End end)
      : params_(params), file_(std::move(file)), client_(std::move(client)), end_(std::move(end)) {}
  std::optional<double> CpuSeconds() const;
  FileCopyOptions Options() const;
  Result<Receipt> Copy();
  Result<Receipt> CopyThroughCache();

  const FileMoverParams params_;
  std::unique_ptr<PayloadFile> file_;
  Client client_;  // of the file's node
  End end_;
};

}  // namespace onecopy::bench
