// What `berth simulate` can play, and which of its options go with what. An option that would be
// ignored is refused: nobody should believe that it had an effect.
//
// Thread-safety: pure functions.
#pragma once

#include "base/result.h"
#include "cli/command.h"

namespace berth::cli {

enum class SimulationKind { trace, generated, cluster, scenario };

// The kind that the words ask for. Errors: two kinds at once; an option that the kind ignores, with
// the kinds that it belongs to.
Result<SimulationKind> simulation_kind(const Arguments& arguments);

}  // namespace berth::cli
