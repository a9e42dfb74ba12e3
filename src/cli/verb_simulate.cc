#include <ostream>
#include <string>
#include <vector>

#include "cli/simulate_kinds.h"
#include "cli/simulate_load.h"
#include "cli/simulate_scenario.h"
#include "cli/simulate_trace.h"
#include "cli/simulate_week.h"
#include "cli/simulate_words.h"
#include "cli/verbs.h"

namespace berth::cli {

namespace {

constexpr Option kOptions[] = {
    {.name = "--nodes", .kind = ValueKind::file, .value = "FILE", .help = "node list (CSV)"},
    {.name = "--pods", .kind = ValueKind::file, .value = "FILE", .help = "pod list (CSV)"},
    {.name = "--policy",
     .kind = ValueKind::list,
     .value = "NAME,...",
     .help = "policies to compare (`berth policies` lists them)",
     .fallback = "pack",
     .choices = policy_names},
    {.name = "--seeds",
     .kind = ValueKind::text,
     .value = "A-B",
     .help = "orders of arrival: 42, 42,43 or 42-51",
     .fallback = "42"},
    {.name = "--arrival",
     .kind = ValueKind::text,
     .value = "PERCENT",
     .help = "how much of the fleet's GPUs the work asks for in the end",
     .fallback = "130"},
    {.name = "--generate",
     .kind = ValueKind::text,
     .value = "SPEC",
     .help = "instead: a fleet scaled to nodes=N,devices=D under lasting load with departures "
             "(decisions=N,fill=LOW-HIGH,life=SECONDS)"},
    {.name = "--jobs",
     .kind = ValueKind::text,
     .value = "N",
     .help = "runs side by side (default: one per core)"},
    {.name = "--bound",
     .help = "compute what no scheduler can beat, and show it beside the result"},
    {.name = "--check", .help = "recompute every derived figure after every event: slow"},
    {.name = "--report",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "write a self-contained HTML report"},
    {.name = "--record",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "keep every decision for `berth replay`"},
    {.name = "--load",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "instead: a shared cluster under the work of a YAML file with a section `load:`, for "
             "as long as it says"},
    {.name = "--fleet",
     .kind = ValueKind::file,
     .value = "FLEET",
     .help = "with --load: SPEC (8x80GiB:H100), or a YAML file with a section `fleet:`"},
    {.name = "--queues",
     .kind = ValueKind::file,
     .value = "FILE[,FILE]",
     .help = "with --load: the quota tree (docs/queues.md); two files are compared under the same "
             "work"},
    {.name = "--seed",
     .kind = ValueKind::text,
     .value = "N",
     .help = "with --load: what all chance is drawn from (default: the load's `seed`)"},
    {.name = "--scenario",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "instead: play scenario files and check what they expect (docs/scenarios.md)",
     .repeats = true},
    {.name = "--scenario-help", .help = "print the reference of the scenario language"},
    {.name = "--output",
     .letter = 'o',
     .kind = ValueKind::choice,
     .value = "FORMAT",
     .help = "table, wide (every run), json or yaml",
     .fallback = "table",
     .choices = [] { return std::vector<std::string>{"table", "wide", "json", "yaml"}; }},
};

constexpr Example kExamples[] = {
    {"berth simulate --nodes bench/data/openb/openb_node_list_gpu_node.csv "
     "--pods bench/data/openb/openb_pod_list_default.csv",
     "the published trace of a production cluster under policy pack"},
    {"berth simulate --nodes nodes.csv --pods pods.csv --policy pack,fgd,best-fit --seeds 42-51 "
     "--bound --report report.html",
     "three policies on your own fleet, with a report and the bound"},
    {"berth simulate --nodes nodes.csv --pods pods.csv -o json", "the same figures for a script"},
    {"berth simulate --fleet docs/examples/week/fleet.yaml --load docs/examples/week/load.yaml "
     "--queues docs/examples/week/queues.yaml,docs/examples/week/queues-guarantees.yaml "
     "--report week.html",
     "a week of a shared cluster under two quota trees: who waited, why, and what was evicted"},
    {"berth simulate --scenario tests/scenario/leases/B19.yaml",
     "what happens in a scenario and why; status 1 if an expectation is not met"},
};

ExitCode simulate(const Arguments& arguments, Console& console) {
  if (arguments.has("--scenario-help")) return print_scenario_help(console);
  const Result<SimulationKind> kind = simulation_kind(arguments);
  if (!kind.ok()) return report_error(console, "simulate", kind.error());
  switch (*kind) {
    case SimulationKind::trace: return simulate_trace(arguments, console);
    case SimulationKind::generated: return simulate_load(arguments, console);
    case SimulationKind::cluster: return simulate_week(arguments, console);
    case SimulationKind::scenario: return simulate_scenario(arguments, console);
  }
  return ExitCode::usage;
}

}  // namespace

constinit const Command kSimulateCommand{
    .name = "simulate",
    .summary = "play a trace of GPU work, a week of a shared cluster, or scenario files",
    .description =
        "The scheduler's own engine decides, in virtual time. With --nodes and --pods work arrives "
        "in a random order, one pod at a time, until it has asked for --arrival percent of the "
        "fleet's GPUs; each policy places what it can and the rest is refused.\n\n"
        "Node lists have the columns sn, cpu_milli, memory_mib, gpu, model. Pod lists have name, "
        "cpu_milli, memory_mib, num_gpu, gpu_milli and, if wanted, gpu_spec, qos, pod_phase, "
        "creation_time, deletion_time, scheduled_time. bench/data/openb holds a published "
        "trace.\n\n"
        "With --generate the node list gives the mix of node types and the pod list the mix of "
        "work: pods are drawn from it at random, live for exponential times and hold the "
        "allocation between LOW and HIGH percent (90-95). Without nodes= and devices= the fleet "
        "stays as it is.\n\n"
        "With --load jobs come and go for days, queues share the fleet between them, and what was "
        "lent is taken back (docs/simulate-week.md).\n\n"
        "Exit status: 0 done; 1 an expectation of a scenario is not met, an output cannot be "
        "written, or it was cancelled; 2 a word or a file is wrong.",
    .options = kOptions,
    .examples = kExamples,
    .run = simulate,
};

}  // namespace berth::cli
