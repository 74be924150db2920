#include "bench/matrix_command.h"

#include <fstream>

#include "bench/matrix/by_daemon.h"
#include "bench/matrix/document.h"
#include "bench/matrix/plain.h"
#include "bench/matrix/table.h"
#include "bench/version.h"
#include "bench/work/run_facts.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/base/exit_status.h"
#include "transport/shim/nvml.h"

namespace onecopy::bench {
namespace {

// The system's library tells nothing about a driver that was named.
std::string DriverVersion(const std::string& cuda_library) {
  if (!cuda_library.empty()) return {};
  const Result<shim::NvmlInfo> info = shim::QueryNvml();
  return info.ok() ? info->driver_version : std::string();
}

}  // namespace

Result<int> MeasureMatrix(const MatrixArguments& arguments, const std::function<bool()>& stopped,
                          const ProgramIo& io) {
  const std::string& cuda_library = arguments.daemon.cuda_library;
  Matrix matrix;
  matrix.samples = arguments.samples;
  ONECOPY_ASSIGN_OR_RETURN(matrix.bytes, ParseBytes(arguments.size));
  ONECOPY_RETURN_IF_ERROR(CheckSize(matrix.bytes, {}));
  ByDaemonOptions daemon{.daemon = arguments.daemon, .stopped = stopped};
  ONECOPY_ASSIGN_OR_RETURN(daemon.daemon.program, DaemonProgram(arguments.onecopyd));
  PlainOptions plain{.stopped = stopped};
  ONECOPY_ASSIGN_OR_RETURN(plain.api, shim::LoadCuda(cuda_library));
  ONECOPY_ASSIGN_OR_RETURN(matrix.gpus, ListGpus(*plain.api));
  ONECOPY_RETURN_IF_ERROR(CheckSize(matrix.bytes, matrix.gpus));
  std::ofstream json;
  if (!arguments.json_file.empty()) {  // before minutes of measuring, not after
    json.open(arguments.json_file, std::ios::binary);
    if (!json) {
      return Status(Code::kInvalidArgument, reasons::kIo,
                    arguments.json_file + " cannot be written");
    }
  }
  matrix.cuda_version = plain.api->driver_version;
  matrix.driver_version = DriverVersion(cuda_library);
  matrix.pairs = EveryPair(matrix.gpus.size());
  const RunFacts facts = LookAround(daemon.daemon, ONECOPY_VERSION);
  plain.began = daemon.began = [&](const std::string& what) { io.progress << what << std::endl; };
  ONECOPY_RETURN_IF_ERROR(MeasurePlain(plain, &matrix));
  if (!stopped()) ONECOPY_RETURN_IF_ERROR(MeasureByDaemon(daemon, &matrix));
  PrintMatrix(matrix, io.out);
  io.out.flush();
  if (json.is_open() && !(json << MatrixDocument(matrix, facts)).flush()) {
    return Status(Code::kInternal, reasons::kIo, "writing " + arguments.json_file + " failed");
  }
  if (stopped()) return ExitStatusOf(Code::kCancelled);
  return AnyFailed(matrix) ? ExitStatusOf(Code::kUnknown) : 0;
}

}  // namespace onecopy::bench
