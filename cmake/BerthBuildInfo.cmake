# Run at every build (cmake -P): writes OUTPUT with version, revision and compiler, and touches it only if they changed.
execute_process(
  COMMAND git -C ${SOURCE} describe --always --abbrev=12 --exclude=* --dirty=+
  OUTPUT_VARIABLE revision
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
  RESULT_VARIABLE failed)
if(failed)
  set(revision unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "cli/build_info.h"

namespace berth::cli {

const std::string_view kVersion = "@VERSION@";
const std::string_view kRevision = "@revision@";
const std::string_view kCompiler = "@COMPILER@";

}  // namespace berth::cli
]] @ONLY)
