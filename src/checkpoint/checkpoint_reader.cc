// SPDX-License-Identifier: Apache-2.0
//
// Reads checkpoint files, whoever wrote them. The FlatBuffers verifier makes
// sure that offsets stay inside the file; everything else that a field may
// claim is checked here, before memory is taken for it.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/path_text.h"
#include "base/throw.h"
#include "checkpoint/checkpoint_format.h"
#include "checkpoint_generated.h"

namespace strop {
namespace {

// Values are copied from the file as they are.
static_assert(std::endian::native == std::endian::little,
              "checkpoints are little-endian, and so must be the machine");

// A tensor of the file: what it is, and where its bytes are.
struct StoredTensor {
  TensorInfo info;
  std::span<const std::byte> bytes = {};
  bool requires_grad = false;
};
// In ascending order of names; the names are views of the file.
using StoredTensors = std::map<std::string_view, StoredTensor>;

// Bytes that may still be copied out of a file. No two things in a checkpoint
// share bytes, so more than the file has is a file that wants much memory
// from few bytes.
class CopyBudget {
 public:
  explicit CopyBudget(size_t bytes = 0) : left_(bytes) {}
  bool Take(size_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  size_t left_;
};

bool IsLoadable(DataType type) {
  return DispatchType(AllTypes{}, type, []<class T>() {});
}

std::string_view View(const flatbuffers::String* text) {
  return {text->c_str(), text->size()};
}

// A name from the file for an error: names may be long.
std::string Quote(std::string_view name) {
  constexpr size_t kLongest = 100;
  if (name.size() <= kLongest) return fmt::format("\"{}\"", name);
  return fmt::format("\"{}...\"", name.substr(0, kLongest));
}

// Copies into new memory, which is zero. Zeros are not written: moments of rows
// that no batch has named take no memory (OwnedTensor).
void CopyNonzero(std::span<const std::byte> source, std::byte* target) {
  constexpr size_t kPiece = 1024;
  static constexpr std::array<std::byte, kPiece> kZeros = {};
  while (!source.empty()) {
    const size_t size = std::min(kPiece, source.size());
    if (std::memcmp(source.data(), kZeros.data(), size) != 0) {
      std::memcpy(target, source.data(), size);
    }
    source = source.subspan(size);
    target += size;
  }
}

void CopyValues(const StoredTensor& source, const Tensor& target) {
  CopyNonzero(source.bytes, target.bytes().data());
  if (source.info.type != DataType::kBool) return;
  // A C++ bool must be 0 or 1.
  for (std::byte& value : target.bytes()) {
    if (value != std::byte{0}) value = std::byte{1};
  }
}

class CheckpointReader {
 public:
  CheckpointReader(std::span<const std::byte> bytes,
                   const std::filesystem::path& path,
                   const Environment& environment)
      : bytes_(bytes),
        path_(path),
        environment_(environment),
        inline_budget_(bytes.size()) {}

  ParameterStore Read() {
    const fbs::Checkpoint& root = VerifiedRoot();
    if (root.version() != 1 && root.version() != kCheckpointVersion) {
      Fail("version {} is not supported; versions 1 and {} are", root.version(),
           kCheckpointVersion);
    }
    ParameterStore store(environment_);
    if (root.module_state()) ReadModuleState(*root.module_state(), &store);
    if (root.optimizer_groups()) {
      for (const fbs::OptimizerGroup* group : *root.optimizer_groups()) {
        ReadGroup(*group, &store);
      }
    }
    if (root.property_bag()) ReadProperties(*root.property_bag(), &store);
    TakeLearningRates(&store);
    return store;
  }

 private:
  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> text,
                         Args&&... args) const {
    Throw(ErrorCode::kInvalidFile, "{}: {}",
          path_.empty() ? std::string("checkpoint in memory")
                        : fmt::format("checkpoint \"{}\"", PathText(path_)),
          fmt::format(text, std::forward<Args>(args)...));
  }

  const fbs::Checkpoint& VerifiedRoot() {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes_.data());
    constexpr size_t kHeaderBytes = 8;
    if (bytes_.size() < kHeaderBytes ||
        !fbs::CheckpointBufferHasIdentifier(data)) {
      Fail("not a checkpoint: {} bytes without the identifier \"{}\" at byte 4",
           bytes_.size(), fbs::CheckpointIdentifier());
    }
    if (bytes_.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) {
      Fail("it has {} bytes; the format ends at {}", bytes_.size(),
           FLATBUFFERS_MAX_BUFFER_SIZE);
    }
    flatbuffers::Verifier verifier(data, bytes_.size());
    // Writers fill up to a multiple of 4; without this a file that lost only
    // such filling would pass.
    if (bytes_.size() % 4 != 0 || !fbs::VerifyCheckpointBuffer(verifier)) {
      Fail("verification failed: its {} bytes are damaged or truncated",
           bytes_.size());
    }
    return *fbs::GetCheckpoint(data);
  }

  void ReadModuleState(const fbs::ModuleState& state, ParameterStore* store) {
    if (!state.requires_grad_params()) {
      Fail("the list of trainable parameters is missing");
    }
    if (!state.frozen_params()) {
      Fail("the list of frozen parameters is missing");
    }
    store->is_nominal = state.is_nominal_state();
    store->has_external_data = state.has_external_data();
    if (store->has_external_data) OpenExternalData();

    StoredTensors tensors;
    for (const fbs::Tensor* tensor : *state.requires_grad_params()) {
      StoredTensor stored = ReadTensor(*tensor, store->is_nominal);
      stored.requires_grad = true;
      tensors.try_emplace(View(tensor->name()), stored);
    }
    for (const fbs::Tensor* tensor : *state.frozen_params()) {
      const StoredTensor stored = ReadTensor(*tensor, store->is_nominal);
      tensors.try_emplace(View(tensor->name()), stored);
    }

    std::vector<TensorInfo> infos;
    for (const auto& [name, tensor] : tensors) infos.push_back(tensor.info);
    if (!store->is_nominal) store->values = TensorBlock(infos);
    auto value = store->values.tensors().begin();
    for (const auto& [name, tensor] : tensors) {
      Parameter& parameter = store->parameters.emplace_back();
      parameter.name = name;
      parameter.requires_grad = tensor.requires_grad;
      if (store->is_nominal) {
        parameter.value =
            Tensor(tensor.info.type, tensor.info.shape, /*data=*/nullptr);
      } else {
        parameter.value = *value++;
        CopyValues(tensor, parameter.value);
      }
    }
  }

  void OpenExternalData() {
    if (path_.empty()) {
      Fail(
          "its tensors lie in a file beside it, which a checkpoint in memory "
          "has not: load it from its path");
    }
    external_ = environment_.files().Open(ExternalDataPath(path_));
    external_budget_ = CopyBudget(external_->bytes.size());
  }

  StoredTensor ReadTensor(const fbs::Tensor& tensor, bool may_lack_data) {
    if (!tensor.name()) Fail("a tensor has no name");
    const std::string_view name = View(tensor.name());
    if (name.empty()) Fail("a tensor has an empty name");
    TakeInline(name.size(), name);

    StoredTensor stored = {.info = ReadInfo(tensor, name)};
    const uint64_t size = DataTypeSize(stored.info.type);
    const auto count = static_cast<uint64_t>(stored.info.shape.element_count());
    if (tensor.external_data_offset() != -1) {
      stored.bytes = ExternalBytes(tensor, name, count, size);
    } else if (!tensor.raw_data()) {
      Fail("tensor {} has no data", Quote(name));
    } else {
      const auto& raw = *tensor.raw_data();
      stored.bytes = std::as_bytes(std::span(raw.data(), raw.size()));
      const bool fits = raw.size() % size == 0 && raw.size() / size == count;
      if (!fits && !(may_lack_data && raw.size() == 0)) {
        Fail(
            "tensor {} of type {} and shape {} has {} bytes of data instead "
            "of {} times {}",
            Quote(name), DataTypeName(stored.info.type),
            stored.info.shape.ToString(), raw.size(), count, size);
      }
      TakeInline(raw.size(), name);
    }
    return stored;
  }

  TensorInfo ReadInfo(const fbs::Tensor& tensor, std::string_view name) const {
    const auto type = static_cast<DataType>(tensor.data_type());
    if (!IsLoadable(type)) {
      Fail("tensor {} has the unsupported element type {}", Quote(name),
           DataTypeName(type));
    }
    if (!tensor.dims()) Fail("tensor {} has no dimensions", Quote(name));
    const auto& stored = *tensor.dims();
    if (stored.size() > Shape::kMaxRank) {
      Fail("tensor {} has {} dimensions; at most {} are supported", Quote(name),
           stored.size(), Shape::kMaxRank);
    }
    // A damaged file may have them at any multiple of 4, hence the copy.
    std::vector<int64_t> dims(stored.size());
    if (!dims.empty()) {
      std::memcpy(dims.data(), stored.Data(), dims.size() * sizeof(int64_t));
    }
    try {
      return {type, Shape(dims)};
    } catch (const Error& error) {
      Fail("tensor {}: {}", Quote(name), error.what());
    }
  }

  std::span<const std::byte> ExternalBytes(const fbs::Tensor& tensor,
                                           std::string_view name,
                                           uint64_t count, uint64_t size) {
    const int64_t offset = tensor.external_data_offset();
    if (!external_) {
      Fail(
          "tensor {} has its data outside, at {}, but the file says that "
          "nothing is outside",
          Quote(name), offset);
    }
    const uint64_t available = external_->bytes.size();
    if (offset < 0 || static_cast<uint64_t>(offset) > available ||
        count > (available - offset) / size) {
      Fail(
          "tensor {} has {} times {} bytes at offset {} of its external data "
          "\"{}\", which ends at {}",
          Quote(name), count, size, offset, PathText(ExternalDataPath(path_)),
          available);
    }
    if (!external_budget_.Take(count * size)) {
      Fail("tensor {} shares external data with another tensor", Quote(name));
    }
    return external_->bytes.subspan(offset, count * size);
  }

  void ReadGroup(const fbs::OptimizerGroup& stored, ParameterStore* store) {
    if (!stored.group_name()) Fail("an optimizer group has no name");
    const std::string_view name = View(stored.group_name());
    TakeInline(name.size(), name);
    if (!stored.optimizer_states()) {
      Fail("optimizer group {} has no list of states", Quote(name));
    }
    const auto [position, is_new] =
        store->groups.try_emplace(std::string(name));
    if (!is_new) Fail("optimizer group {} is there twice", Quote(name));

    OptimizerGroup& group = position->second;
    // Updates are counted from 0; a double, which bias corrections use, holds
    // this many exactly.
    constexpr int64_t kMostSteps = int64_t{1} << 53;
    if (stored.step() < 0 || stored.step() > kMostSteps) {
      Fail("optimizer group {} has made {} steps", Quote(name), stored.step());
    }
    group.step = stored.step();
    group.initial_learning_rate = stored.initial_learning_rate();
    group.learning_rate = group.initial_learning_rate;

    std::map<std::string_view, StoredTensors> parameters;
    for (const fbs::ParameterOptimizerState* state :
         *stored.optimizer_states()) {
      if (!state->param_name()) {
        Fail("a state of optimizer group {} has no parameter name",
             Quote(name));
      }
      const std::string_view parameter = View(state->param_name());
      TakeInline(parameter.size(), parameter);
      if (!state->momentums()) {
        Fail("the state of parameter {} in optimizer group {} has no moments",
             Quote(parameter), Quote(name));
      }
      StoredTensors moments;
      for (const fbs::Tensor* moment : *state->momentums()) {
        const StoredTensor tensor =
            ReadTensor(*moment, /*may_lack_data=*/false);
        moments.try_emplace(View(moment->name()), tensor);
      }
      parameters.try_emplace(parameter, std::move(moments));
    }
    LoadMoments(parameters, &group);
  }

  // Copies the moments of all parameters of a group into one block.
  static void LoadMoments(
      const std::map<std::string_view, StoredTensors>& parameters,
      OptimizerGroup* group) {
    std::vector<TensorInfo> infos;
    for (const auto& [parameter, moments] : parameters) {
      for (const auto& [name, tensor] : moments) infos.push_back(tensor.info);
    }
    const TensorBlock& block = group->blocks.emplace_back(infos);
    auto target = block.tensors().begin();
    for (const auto& [parameter, moments] : parameters) {
      Moments& loaded = group->parameters[std::string(parameter)];
      for (const auto& [name, tensor] : moments) {
        CopyValues(tensor, *target);
        loaded.emplace(name, *target++);
      }
    }
  }

  void ReadProperties(const fbs::PropertyBag& bag, ParameterStore* store) {
    if (bag.ints()) {
      for (const fbs::IntProperty* property : *bag.ints()) {
        store->properties[PropertyName(property->name())] = property->value();
      }
    }
    if (bag.floats()) {
      for (const fbs::FloatProperty* property : *bag.floats()) {
        store->properties[PropertyName(property->name())] = property->value();
      }
    }
    if (bag.strings()) {
      for (const fbs::StringProperty* property : *bag.strings()) {
        std::string name = PropertyName(property->name());
        if (!property->value()) {
          Fail("property {} has no value", Quote(name));
        }
        const std::string_view value = View(property->value());
        TakeInline(value.size(), name);
        store->properties[std::move(name)] = std::string(value);
      }
    }
  }

  std::string PropertyName(const flatbuffers::String* name) {
    if (!name) Fail("a property has no name");
    TakeInline(name->size(), View(name));
    return name->str();
  }

  void TakeLearningRates(ParameterStore* store) const {
    for (auto& [name, group] : store->groups) {
      const auto rate = Take<float>(LearningRateProperty(name), store);
      const auto step = Take<int64_t>(LearningRateStepProperty(name), store);
      if (rate && step == group.step) group.learning_rate = *rate;
    }
  }

  // Takes a property of type T out of the store, if it is there.
  template <class T>
  static std::optional<T> Take(const std::string& name, ParameterStore* store) {
    const auto property = store->properties.find(name);
    if (property == store->properties.end()) return std::nullopt;
    const T* stored = std::get_if<T>(&property->second);
    if (stored == nullptr) return std::nullopt;
    const T value = *stored;
    store->properties.erase(property);
    return value;
  }

  void TakeInline(size_t bytes, std::string_view name) {
    if (inline_budget_.Take(bytes)) return;
    Fail("{} shares its bytes with something else in the file", Quote(name));
  }

  const std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
  const Environment& environment_;
  std::optional<FileContents> external_;
  CopyBudget inline_budget_;
  CopyBudget external_budget_;
};

}  // namespace

ParameterStore ParseCheckpoint(std::span<const std::byte> bytes,
                               const std::filesystem::path& path,
                               const Environment& environment) {
  return CheckpointReader(bytes, path, environment).Read();
}

}  // namespace strop
