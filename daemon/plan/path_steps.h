// Inside the planner: the steps of a path.
#pragma once

#include <string>

#include "daemon/plan/candidates.h"

namespace onecopy::plan {

// Which ends go through pinned slots.
struct Staging {
  bool source = false;
  bool destination = false;

  // Whether it stages an end that is host memory already.
  bool Needless(const Ends& ends) const;
};

bool IsHost(const MemoryCapability& memory);
// Memory with a copy engine. Neither host memory nor a GPU's is what lies behind a client's
// dma-buf.
bool IsGpu(const MemoryCapability& memory);
// Memory of a client's process, which its own library copies, through a slab: ordinary memory, or a
// GPU's of a kind that no other process can map.
bool IsProcess(const MemoryCapability& memory);
// What the user of memory of such a kind does to have a copy fewer.
const char* ProcessRemedy(const std::string& kind);

// The memory's name in steps, and with its node for people: "GPU-5f… of east".
std::string StepName(const MemoryCapability& memory);
std::string Describe(const MemoryCapability& memory, const NodeCapability& node);

// One pass, two through a slot, or three through one of each end.
Path PathInNode(const Rung& rung, const Ends& ends, Staging staging);

// Between a file and host memory, or by way of a slot.
Path PathOfFile(const Rung& rung, const Ends& ends, const FileEnd& file);
// Between a file and a GPU's memory, which the drive reaches.
Path PathOfDirectFile(const Rung& rung, const Ends& ends, const FileEnd& file);

// From a file into memory of a GPU, which the drive reaches, and from there to another GPU's.
Path PathThroughNearGpu(const Rung& rung, const Ends& ends, const FileEnd& file,
                        const MemoryCapability& near);

// Of a path over a link: the file's own steps, from or into the slot, in place of one copy there;
// and its name, which then says so.
void CountFile(const Ends& ends, const FileEnd& file, Path* path);

// At which ends of a wire the daemon itself encrypts and decrypts, a pass of its own each.
struct Sealing {
  bool source = false;
  bool destination = false;
};

// Over a link: a carrier with sockets adds the kernel's buffers on both sides of the wire.
Path PathOverLink(const Rung& rung, const Ends& ends, const std::string& link, Staging staging,
                  bool emulated, Sealing sealing = {});

// Over another link's sockets, with buffers of that link's own at both ends of the wire.
Path PathThroughLinkBuffers(const Rung& rung, const Ends& ends, const std::string& link);

}  // namespace onecopy::plan
