// What the two importers share. Inside the room only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/import.h"
#include "config/manifest.h"

namespace berth::config {

// Where errors and remarks go.
struct ImportNotes {
  std::vector<std::string> errors;
  std::vector<std::string> remarks;

  // The value, or nothing and an error.
  template <typename T>
  std::optional<T> check(const Manifest& manifest, const Value& value, Result<T> read) {
    if (read.ok()) return *std::move(read);
    // A value's own readers have named the place.
    const std::string& message = read.error().message();
    errors.push_back(message.starts_with(std::string(manifest.file()) + ":")
                         ? message + " (" + manifest.title() + ")"
                         : manifest.remark(value, message));
    return std::nullopt;
  }
};

// One queue while it is put together.
struct QueuePart {
  core::QueueSpec spec;
  const Manifest* manifest = nullptr;  // empty: implied by others
  std::int64_t weight = 1000;          // thousandths
};

// Thousandths of devices, weights: never negative. What was rounded is remarked upon.
std::optional<std::int64_t> take_thousandths(ImportNotes& notes, Manifest& manifest,
                                             const yaml::Node* map, std::string_view key);
// metadata.creationTimestamp.
void take_created(ImportNotes& notes, Manifest& manifest, core::QueueSpec& spec);

// The integer weights of siblings from their thousandths, set in all of their dimensions: as they
// are where all are whole and at most 10000, else in proportion.
void set_weights(ImportNotes& notes, std::vector<QueuePart>& parts);

// Each appends queues. `manifests` are of the API group.
void import_kueue(std::vector<Manifest*> manifests, ImportNotes& notes,
                  std::vector<QueuePart>& parts);
void import_kai(const std::vector<Manifest*>& manifests, ImportNotes& notes,
                std::vector<QueuePart>& parts);

// What every object of a cluster has that is no configuration of a queue.
std::vector<NoEqual> with_common_reasons(std::vector<NoEqual> own);

}  // namespace berth::config
