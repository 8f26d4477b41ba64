// SPDX-License-Identifier: Apache-2.0
#include "run_state.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/throw.h"

namespace strop {
namespace {

constexpr std::string_view kPrefix = "strop.train.";
constexpr std::string_view kSchedule = "schedule";
constexpr std::string_view kScales = "scales";  // a list as JSON
// A double as hexadecimal text: properties hold floats only.
constexpr std::string_view kLossSum = "loss_sum";

struct Field {
  std::string_view name;
  int64_t RunState::*member;
  int64_t least;
};
constexpr Field kFields[] = {
    {"samples", &RunState::samples, 1},
    {"batch_size", &RunState::batch_size, 1},
    {"accumulate", &RunState::accumulate, 1},
    {"seed", &RunState::seed, INT64_MIN},
    {"shuffle", &RunState::shuffle, 0},
    {"epochs", &RunState::epochs, 0},
    {"steps", &RunState::steps, 0},
    {"warmup", &RunState::warmup, 0},
    {"threads", &RunState::threads, 1},
    {"first_step", &RunState::first_step, 0},
    {"epoch", &RunState::epoch, 0},
    {"batch", &RunState::batch, 0},
    {"step", &RunState::step, 0},
    {"epoch_rows", &RunState::epoch_rows, 0},
};

std::string PropertyName(std::string_view name) {
  return std::string(kPrefix) + std::string(name);
}

std::vector<std::string> ParseList(std::string_view name,
                                   const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    Throw(ErrorCode::kInvalidFile, "property \"{}\" is no list of texts",
          PropertyName(name));
  }
}

}  // namespace

void RunState::Save(CheckpointState* state) const {
  for (const Field& field : kFields) {
    state->SetProperty(PropertyName(field.name), this->*field.member);
  }
  state->SetProperty(PropertyName(kSchedule), schedule);
  state->SetProperty(PropertyName(kScales), nlohmann::json(scales).dump());
  state->SetProperty(PropertyName(kLossSum), fmt::format("{:a}", loss_sum));
}

bool RunState::Load(const CheckpointState& state) {
  if (!state.HasProperty(PropertyName(kSchedule))) return false;
  auto get = [&]<class T>(std::string_view name, T* value) {
    const std::string property = PropertyName(name);
    const Property stored = state.GetProperty(property);
    if (!std::holds_alternative<T>(stored)) {
      Throw(ErrorCode::kInvalidFile, "property \"{}\" has the wrong type",
            property);
    }
    *value = std::get<T>(stored);
  };
  for (const Field& field : kFields) {
    get(field.name, &(this->*field.member));
    if (this->*field.member < field.least) {
      Throw(ErrorCode::kInvalidFile, "property \"{}\" is {}; the least is {}",
            PropertyName(field.name), this->*field.member, field.least);
    }
  }
  get(kSchedule, &schedule);
  std::string list, sum;
  get(kScales, &list);
  scales = ParseList(kScales, list);
  get(kLossSum, &sum);
  loss_sum = std::strtod(sum.c_str(), nullptr);
  return true;
}

}  // namespace strop
