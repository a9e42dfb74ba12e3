#include "kube/scheduler/caches.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "json/dom.h"
#include "kube/objects/read.h"

namespace berth::kube {

// A kind of object: where it is, and what is done with one that came or went.
struct Caches::Kind {
  std::string_view name;
  std::string_view path;
  std::string_view selector;
  bool needed;   // before anything is decided
  bool storage;  // a change concerns volumes
  Result<void> (*told)(Harbour& harbour, json::Element object, Time now);
  void (*gone)(Harbour& harbour, const ObjectEvent& event, Time now);
};

class Caches::Sink : public ObjectSink {
 public:
  Sink(Caches& caches, const Kind& kind)
      : caches_(caches),
        kind_(kind),
        reflector_(caches.client_, caches.client_.timers(), caches.client_.chance(),
                   {.path = std::string(kind.path), .selector = std::string(kind.selector)},
                   *this) {}

  void on_object(const ObjectEvent& event) override {
    caches_.news_ = true;
    const Time now = caches_.now_();
    if (event.change == Change::deleted) {
      kind_.gone(caches_.harbour_, event, now);
    } else {
      const auto root = parser_.parse(event.object);
      const Result<void> told =
          root.ok() ? kind_.told(caches_.harbour_, *root, now) : Result<void>(root.error());
      if (!told.ok()) {
        caches_.log_("error", fmt::format("{} {} cannot be read: {}", kind_.name, event.key,
                                          told.error().message()));
      }
    }
    if (kind_.storage) {
      caches_.harbour_.storage_changed(now);
    }
  }

  void on_synced() override {
    caches_.news_ = true;
    trouble_.clear();
    if (kind_.storage) {
      caches_.storage_told();
    }
  }

  void on_trouble(std::string_view what) override {
    caches_.news_ = true;
    caches_.log_("warning", fmt::format("{}: {}", kind_.name, what));
    if (!reflector_.synced()) {
      trouble_ = what;
      if (kind_.storage) {
        caches_.storage_told();
      }
    }
  }

  Reflector& reflector() { return reflector_; }
  const Reflector& reflector() const { return reflector_; }
  const Kind& kind() const { return kind_; }
  const std::string& trouble() const { return trouble_; }

 private:
  Caches& caches_;
  const Kind& kind_;
  json::DomParser parser_;
  std::string trouble_;  // since the start, while it was never synced
  Reflector reflector_;
};

namespace {

template <typename Map, typename Object>
void keep(Map& map, Object object) {
  std::string key = object.meta.namespace_name.empty()
                        ? object.meta.name
                        : Census::key(object.meta.namespace_name, object.meta.name);
  map.insert_or_assign(std::move(key), std::move(object));
}

template <typename Map>
void drop(Map& map, std::string_view key) {
  if (const auto found = map.find(key); found != map.end()) {
    map.erase(found);
  }
}

}  // namespace

std::span<const Caches::Kind> Caches::kinds() {
  using json::Element;
  static constexpr std::array<Kind, 9> kKinds{{
      {"pods", "/api/v1/pods",
       "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed", true, false,
       [](Harbour& harbour, Element object, Time now) -> Result<void> {
         TRY(const Pod pod, read_pod(object));
         harbour.pod_changed(pod, now);
         return success();
       },
       [](Harbour& harbour, const ObjectEvent& event, Time now) {
         harbour.pod_gone(event.key, event.uid, now);
       }},
      {"nodes", "/api/v1/nodes", "", true, false,
       [](Harbour& harbour, Element object, Time now) -> Result<void> {
         TRY(const Node node, read_node(object));
         harbour.node_changed(node, now);
         return success();
       },
       [](Harbour& harbour, const ObjectEvent& event, Time now) {
         harbour.node_gone(event.key, event.uid, now);
       }},
      {"namespaces", "/api/v1/namespaces", "", true, false,
       [](Harbour& harbour, Element object, Time) -> Result<void> {
         TRY(const Namespace one, read_namespace(object));
         harbour.namespace_changed(one);
         return success();
       },
       [](Harbour& harbour, const ObjectEvent& event, Time) { harbour.namespace_gone(event.key); }},
      {"persistentvolumeclaims", "/api/v1/persistentvolumeclaims", "", false, true,
       [](Harbour& harbour, Element object, Time) -> Result<void> {
         TRY(VolumeClaim one, read_volume_claim(object));
         keep(harbour.storage().claims, std::move(one));
         return success();
       },
       [](Harbour& harbour, const ObjectEvent& event, Time) {
         drop(harbour.storage().claims, event.key);
       }},
      {"persistentvolumes", "/api/v1/persistentvolumes", "", false, true,
       [](Harbour& harbour, Element object, Time) -> Result<void> {
         TRY(Volume one, read_volume(object));
         keep(harbour.storage().volumes, std::move(one));
         return success();
       },
       [](Harbour& harbour, const ObjectEvent& event, Time) {
         drop(harbour.storage().volumes, event.key);
       }},
      {"storageclasses", "/apis/storage.k8s.io/v1/storageclasses", "", false, true,
       [](Harbour& harbour, Element object, Time) -> Result<void> {
         TRY(StorageClass one, read_storage_class(object));
         keep(harbour.storage().classes, std::move(one));
         return success();
       },
       [](Harbour& harbour, const ObjectEvent& event, Time) {
         drop(harbour.storage().classes, event.key);
       }},
      {"csinodes", "/apis/storage.k8s.io/v1/csinodes", "", false, true,
       [](Harbour& harbour, Element object, Time) -> Result<void> {
         TRY(CsiNode one, read_csi_node(object));
         keep(harbour.storage().csi_nodes, std::move(one));
         return success();
       },
       [](Harbour& harbour, const ObjectEvent& event, Time) {
         drop(harbour.storage().csi_nodes, event.key);
       }},
      {"csidrivers", "/apis/storage.k8s.io/v1/csidrivers", "", false, true,
       [](Harbour& harbour, Element object, Time) -> Result<void> {
         TRY(CsiDriver one, read_csi_driver(object));
         keep(harbour.storage().csi_drivers, std::move(one));
         return success();
       },
       [](Harbour& harbour, const ObjectEvent& event, Time) {
         drop(harbour.storage().csi_drivers, event.key);
       }},
      {"csistoragecapacities", "/apis/storage.k8s.io/v1/csistoragecapacities", "", false, true,
       [](Harbour& harbour, Element object, Time) -> Result<void> {
         TRY(CsiCapacity one, read_csi_capacity(object));
         keep(harbour.storage().csi_capacities, std::move(one));
         return success();
       },
       [](Harbour& harbour, const ObjectEvent& event, Time) {
         drop(harbour.storage().csi_capacities, event.key);
       }},
  }};
  return kKinds;
}

Caches::Caches(Client& client, Harbour& harbour, std::function<Time()> now, Log log)
    : client_(client), harbour_(harbour), now_(std::move(now)), log_(std::move(log)) {
  for (const Kind& kind : kinds()) {
    sinks_.push_back(std::make_unique<Sink>(*this, kind));
  }
  storage_told();
}

Caches::~Caches() = default;

void Caches::start() {
  for (const auto& sink : sinks_) {
    sink->reflector().start();
  }
}

void Caches::read_again() {
  for (const auto& sink : sinks_) {
    if (sink->kind().needed) {
      sink->reflector().read_again();
    }
  }
}

bool Caches::ready() const {
  for (const auto& sink : sinks_) {
    if (sink->kind().needed && !sink->reflector().synced()) {
      return false;
    }
  }
  return true;
}

bool Caches::live() const {
  return std::ranges::all_of(sinks_, [](const auto& sink) {
    return !sink->kind().needed || sink->reflector().figures().live;
  });
}

std::vector<std::string> Caches::troubles() const {
  std::vector<std::string> texts;
  for (const auto& sink : sinks_) {
    if (!sink->trouble().empty()) {
      texts.push_back(fmt::format("{}: {}", sink->kind().name, sink->trouble()));
    } else if (sink->kind().needed && !sink->reflector().synced()) {
      texts.push_back(fmt::format("{}: not read yet", sink->kind().name));
    }
  }
  return texts;
}

bool Caches::take_news() { return std::exchange(news_, false); }

std::vector<Caches::Row> Caches::figures() const {
  std::vector<Row> rows;
  for (const auto& sink : sinks_) {
    rows.push_back({std::string(sink->kind().name), sink->reflector().figures()});
  }
  return rows;
}

// Whether everything of storage was told, and else what is missing.
void Caches::storage_told() {
  std::string problem;
  for (const auto& sink : sinks_) {
    if (!sink->kind().storage || sink->reflector().synced() || !problem.empty()) {
      continue;
    }
    problem = sink->trouble().empty()
                  ? fmt::format("{} are not read yet", sink->kind().name)
                  : fmt::format("{} cannot be read: {}", sink->kind().name, sink->trouble());
  }
  if (problem != harbour_.storage().storage_problem) {
    harbour_.storage().storage_problem = std::move(problem);
    harbour_.storage_changed(now_());
  }
}

}  // namespace berth::kube
