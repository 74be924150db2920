// What `cp` and `explain` have in common: two ends and a policy.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "client/cli/endpoint.h"
#include "client/cli/ranges_file.h"
#include "onecopy/client.h"
#include "onecopy/file_copy.h"

namespace onecopy::cli {

struct MoveOptions {
  std::string source;
  std::string destination;
  std::string ranges_file;  // empty: none
  Policy policy;
};

// Adds SRC, DST and the policy's options.
void AddMoveOptions(CLI::App& command, MoveOptions& options);
// The latter alone.
void AddPolicyOptions(CLI::App& command, MoveOptions& options);

struct MoveEnds {
  ParsedEndpoint source;
  ParsedEndpoint destination;
};

// Reads both ends, and refuses pairs that are not ours to copy (two files).
Result<MoveEnds> ParseEnds(const MoveOptions& options);

// Turns a file on the client's own node into a file here. INVALID_ARGUMENT (BAD_ENDPOINT) for two
// files, and for a range of a file here where there is a file of the whole name, too.
Result<MoveEnds> LocateFiles(MoveEnds ends, const std::string& own_node);

// As a file of this process: kFile, or kStream as standard input or output.
LocalFile ToLocalFile(const ParsedEndpoint& end, bool is_source);

// A failure of what was typed, with what may have been meant: a buffer with a similar name; "write
// ./word" if a word that is not a buffer of this node is, or may become, a file here; and that the
// end of a file's name was read as a range. Asks the daemon for its buffers.
Status Suggest(const Status& status, const MoveEnds& ends, Client& client);

// A destination buffer that does not exist, with the option of `cp` that makes it.
Status SuggestCreate(const Status& status, const MoveEnds& ends);

// The ranges that --ranges names; none where it is not there. A stream has none, and a file none of
// several buffers.
Result<RangeList> RangesOf(const MoveOptions& options, const MoveEnds& ends);

// What would happen, whatever the ends are.
Result<Plan> PlanMove(Client& client, const MoveEnds& ends, const FileCopyOptions& options,
                      const RangeList& ranges);

}  // namespace onecopy::cli
