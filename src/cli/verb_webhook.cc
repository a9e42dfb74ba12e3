#include <csignal>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "config/scheduler_file.h"
#include "config/value.h"
#include "kube/client/access.h"
#include "kube/webhook/webhook.h"
#include "net/target.h"
#include "sim/files.h"

namespace berth::cli {

namespace {

constexpr Option kOptions[] = {
    {.name = "--kubeconfig",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "how the cluster is reached (default: $KUBECONFIG, else the pod's service account, "
             "else ~/.kube/config)"},
    {.name = "--context",
     .kind = ValueKind::text,
     .value = "NAME",
     .help = "of the kubeconfig (default: its current one)"},
    {.name = "--listen",
     .kind = ValueKind::text,
     .value = "ADDRESS",
     .help = "host:port for the API server, probes and metrics, always with TLS",
     .fallback = ":8443"},
    {.name = "--namespace",
     .kind = ValueKind::text,
     .value = "NAME",
     .help = "where the service and the accounts berth-scheduler and berth-agent are",
     .fallback = "berth-system"},
    {.name = "--service",
     .kind = ValueKind::text,
     .value = "NAME",
     .help = "of the service that leads to this process",
     .fallback = "berth-webhook"},
    {.name = "--url",
     .kind = ValueKind::text,
     .value = "URL",
     .help =
         "https://host:port by which the API server reaches this process where no service leads "
         "to it; the webhook configurations are changed to it"},
    {.name = "--config",
     .kind = ValueKind::file,
     .value = "FILE",
     .help = "the scheduler's configuration (docs/kubernetes.md): its name, sharing, privileged "
             "shares, whole devices are the same for both"},
    {.name = "--scheduler-user",
     .kind = ValueKind::text,
     .value = "USER",
     .help = "who writes grants (default: the account berth-scheduler of --namespace)"},
    {.name = "--runtime-class",
     .kind = ValueKind::text,
     .value = "NAME",
     .help = "for pods that ask for a GPU and name none; an empty one leaves them as they are",
     .fallback = "nvidia"},
    {.name = "--certificate-life",
     .kind = ValueKind::text,
     .value = "TIME",
     .help = "of the certificates it makes; new ones come at half of it",
     .fallback = "14d"},
};

constexpr Example kExamples[] = {
    {"berth webhook", "in the cluster, as deploy/kubernetes runs it"},
    {"berth webhook --kubeconfig ~/.kube/config --listen 10.1.2.3:8443 --url https://10.1.2.3:8443",
     "beside the cluster, for a try: the API server has to reach that address"},
};

constexpr Duration kShortestLife{10'000};
constexpr Duration kLongestLife{365LL * 86'400'000};

std::string account(const std::string& name_space, std::string_view name) {
  return fmt::format("system:serviceaccount:{}:{}", name_space, name);
}

Result<config::SchedulerSettings> read_settings(const Arguments& arguments) {
  const auto path = arguments.value("--config");
  if (!path) {
    return config::SchedulerSettings{};
  }
  TRY(const std::string text, sim::read_input_file(*path));
  return config::read_scheduler_file(text, *path);
}

Result<Duration> certificate_life(const std::string& text) {
  const auto life = config::parse_duration(text);
  if (!life.ok() || *life < kShortestLife || *life > kLongestLife) {
    return invalid_argument(
        fmt::format("--certificate-life {} is no time between 10s and 365d, such "
                    "as 14d",
                    printable(text)));
  }
  return *life;
}

Result<kube::WebhookOptions> webhook_options(const Arguments& arguments) {
  kube::WebhookOptions options;
  TRY(options.access, kube::find_access({.kubeconfig = arguments.value("--kubeconfig").value_or(""),
                                         .context = arguments.value("--context").value_or("")},
                                        kube::process_environment()));
  const std::string name_space = *arguments.value("--namespace");
  kube::ReviewRules& rules = options.rules;
  TRY(const config::SchedulerSettings settings, read_settings(arguments));
  rules.scheduler_name = settings.scheduler_name;
  rules.assigns_whole = settings.whole_devices_by_berth;
  rules.pod.allow_privileged_shares = settings.allow_privileged_shares;
  rules.pod.sharing_enabled = settings.sharing;
  rules.pod.gpumem_factor_mib = settings.gpumem_factor_mib;
  rules.scheduler_user =
      arguments.value("--scheduler-user").value_or(account(name_space, "berth-scheduler"));
  rules.agent_user = account(name_space, "berth-agent");
  rules.runtime_class = *arguments.value("--runtime-class");
  TRY(options.certificate_life, certificate_life(*arguments.value("--certificate-life")));
  options.listen = *arguments.value("--listen");
  options.names = {fmt::format("{}.{}.svc", *arguments.value("--service"), name_space)};
  if (const auto url = arguments.value("--url")) {
    TRY(const net::Address address, net::parse_url(*url));
    if (address.scheme != net::Address::Scheme::https) {
      return invalid_argument(fmt::format(
          "--url {} does not begin with https://: an API server calls webhooks by TLS only",
          printable(*url)));
    }
    options.url = *url;
    while (options.url.ends_with('/')) {
      options.url.pop_back();
    }
    options.names = {address.host};
  }
  return options;
}

ExitCode webhook(const Arguments& arguments, Console& console) {
  auto options = webhook_options(arguments);
  if (!options.ok()) {
    console.err << "berth webhook: " << options.error().to_string() << "\n";
    return ExitCode::usage;
  }
  options->tell = [&console](std::string_view line) {
    console.err << "berth webhook: " << line << std::endl;  // a line of log is seen at once
  };
  const Interrupt interrupt;
  std::signal(SIGPIPE, SIG_IGN);
  auto started = kube::Webhook::start(*std::move(options));
  if (!started.ok()) {
    console.err << "berth webhook: " << started.error().to_string() << "\n";
    return ExitCode::failed;
  }
  console.err << "berth webhook: listening at " << (*started)->address() << std::endl;
  (*started)->run(*Interrupt::flag());
  return ExitCode::done;
}

}  // namespace

constinit const Command kWebhookCommand{
    .name = "webhook",
    .summary = "review pods for a Kubernetes API server",
    .description =
        "Answers the admission reviews of an API server: pods with our scheduler's name get their "
        "sizes per container, the environment by which they see their devices, and the runtime "
        "class; what cannot be meant is refused, with every reason at once. Grants stay the "
        "scheduler's to write.\n\n"
        "It makes a certificate of its own, keeps its authority in the webhook configurations "
        "(berth-webhook) and makes a new one in time. Probes: /livez, /readyz; figures: /metrics.",
    .options = kOptions,
    .examples = kExamples,
    .run = webhook,
};

}  // namespace berth::cli
