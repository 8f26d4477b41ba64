// SPDX-License-Identifier: Apache-2.0
//
// Writes checkpoint files. FlatBuffers are built back to front, so the order
// of the calls below is the layout of the file; it is that of ONNX Runtime,
// byte for byte.
#include <array>
#include <utility>

#include "base/throw.h"
#include "checkpoint/checkpoint_format.h"
#include "checkpoint_generated.h"

namespace strop {
namespace {

template <class T>
using Offsets = std::vector<flatbuffers::Offset<T>>;

uint64_t ParameterBytes(const ParameterStore& store) {
  uint64_t bytes = 0;
  for (const Parameter& parameter : store.parameters) {
    bytes += parameter.value.byte_count();
  }
  return bytes;
}

class CheckpointWriter {
 public:
  CheckpointWriter(const ParameterStore& store, bool include_optimizer_state,
                   bool external)
      : store_(store),
        include_optimizer_state_(include_optimizer_state),
        external_(external),
        size_(UpperBound()),
        builder_(size_) {}

  SerializedCheckpoint Write() {
    const auto module_state = WriteModuleState();
    const auto groups = WriteGroups();
    const auto properties = WriteProperties();
    const auto group_list = builder_.CreateVector(groups);

    fbs::CheckpointBuilder root(builder_);
    root.add_version(kCheckpointVersion);
    root.add_module_state(module_state);
    root.add_optimizer_groups(group_list);
    root.add_property_bag(properties);
    fbs::FinishCheckpointBuffer(builder_, root.Finish());

    const auto buffer =
        std::make_shared<flatbuffers::DetachedBuffer>(builder_.Release());
    return {.bytes = std::as_bytes(std::span(buffer->data(), buffer->size())),
            .has_external_data = external_,
            .external_data = std::move(external_data_),
            .owner = buffer};
  }

 private:
  // Bytes that the file takes at most. Throws where the format ends.
  size_t UpperBound() const {
    // What a table with its vtable, its places in lists, lengths and filling
    // takes, apart from its text and data.
    constexpr uint64_t kTableBytes = 128 + Shape::kMaxRank * sizeof(int64_t);
    uint64_t bytes = kTableBytes * 4;
    if (!external_ && !store_.is_nominal) bytes += ParameterBytes(store_);
    for (const Parameter& parameter : store_.parameters) {
      bytes += kTableBytes + parameter.name.size();
    }
    if (include_optimizer_state_) {
      for (const auto& [name, group] : store_.groups) {
        // Its own table, and a property for its rate.
        bytes += 2 * (kTableBytes + name.size());
        for (const auto& [parameter, moments] : group.parameters) {
          bytes += kTableBytes + parameter.size();
          for (const auto& [moment, tensor] : moments) {
            bytes += kTableBytes + moment.size() + tensor.byte_count();
          }
        }
      }
    }
    for (const auto& [name, value] : store_.properties) {
      bytes += kTableBytes + name.size();
      if (const auto* text = std::get_if<std::string>(&value)) {
        bytes += text->size();
      }
    }
    if (bytes >= FLATBUFFERS_MAX_BUFFER_SIZE) {
      Throw(ErrorCode::kInvalidArgument,
            "a checkpoint file holds less than {} bytes, {} are asked for{}",
            FLATBUFFERS_MAX_BUFFER_SIZE, bytes,
            include_optimizer_state_
                ? "; without the optimizer state it would be less"
                : "");
    }
    return bytes;
  }

  flatbuffers::Offset<fbs::ModuleState> WriteModuleState() {
    if (store_.parameters.empty()) return 0;
    Offsets<fbs::Tensor> lists[2];
    for (const bool requires_grad : {true, false}) {
      for (const Parameter& parameter : store_.parameters) {
        if (parameter.requires_grad != requires_grad) continue;
        lists[requires_grad].push_back(
            WriteTensor(parameter.name, parameter.value, external_));
      }
    }
    const auto trainable = builder_.CreateVector(lists[true]);
    const auto frozen = builder_.CreateVector(lists[false]);

    fbs::ModuleStateBuilder table(builder_);
    table.add_requires_grad_params(trainable);
    table.add_frozen_params(frozen);
    table.add_is_nominal_state(store_.is_nominal);
    table.add_has_external_data(external_);
    return table.Finish();
  }

  // A tensor without memory is a placeholder: it gets no bytes.
  flatbuffers::Offset<fbs::Tensor> WriteTensor(const std::string& name,
                                               const Tensor& tensor,
                                               bool external) {
    const auto name_offset = builder_.CreateString(name);
    const auto dims =
        builder_.CreateVector(tensor.shape().begin(), tensor.shape().rank());
    const auto bytes =
        tensor.data() == nullptr ? std::span<std::byte>() : tensor.bytes();
    flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data;
    int64_t external_offset = -1;
    if (external) {
      external_offset = AddExternal(tensor.type(), bytes);
    } else {
      data = builder_.CreateVector(
          reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }

    fbs::TensorBuilder table(builder_);
    table.add_name(name_offset);
    table.add_dims(dims);
    table.add_data_type(static_cast<int32_t>(tensor.type()));
    table.add_raw_data(data);
    table.add_external_data_offset(external_offset);
    return table.Finish();
  }

  int64_t AddExternal(DataType type, std::span<const std::byte> bytes) {
    static constexpr std::array<std::byte, 8> kZeros = {};
    const int64_t alignment =
        type == DataType::kInt64 || type == DataType::kFloat64 ? 8 : 4;
    const int64_t gap = -external_size_ & (alignment - 1);
    if (gap > 0) external_data_.push_back(std::span(kZeros).first(gap));
    const int64_t offset = external_size_ + gap;
    if (!bytes.empty()) external_data_.push_back(bytes);
    external_size_ = offset + static_cast<int64_t>(bytes.size());
    return offset;
  }

  Offsets<fbs::OptimizerGroup> WriteGroups() {
    Offsets<fbs::OptimizerGroup> groups;
    if (!include_optimizer_state_) return groups;
    for (const auto& [name, group] : store_.groups) {
      Offsets<fbs::ParameterOptimizerState> states;
      for (const auto& [parameter, moments] : group.parameters) {
        states.push_back(WriteMoments(parameter, moments));
      }
      const auto group_name = builder_.CreateString(name);
      const auto state_list = builder_.CreateVector(states);

      fbs::OptimizerGroupBuilder table(builder_);
      table.add_group_name(group_name);
      table.add_initial_learning_rate(group.initial_learning_rate);
      table.add_step(group.step);
      table.add_optimizer_states(state_list);
      groups.push_back(table.Finish());
    }
    return groups;
  }

  flatbuffers::Offset<fbs::ParameterOptimizerState> WriteMoments(
      const std::string& parameter, const Moments& moments) {
    Offsets<fbs::Tensor> tensors;
    for (const auto& [name, tensor] : moments) {
      tensors.push_back(WriteTensor(name, tensor, /*external=*/false));
    }
    const auto name = builder_.CreateString(parameter);
    const auto tensor_list = builder_.CreateVector(tensors);
    fbs::ParameterOptimizerStateBuilder table(builder_);
    table.add_param_name(name);
    table.add_momentums(tensor_list);
    return table.Finish();
  }

  // The properties of the state, and those that follow from it.
  std::map<std::string, Property> PropertiesToWrite() const {
    std::map<std::string, Property> properties;
    for (const auto& [name, value] : store_.properties) {
      if (include_optimizer_state_ || !IsHiddenProperty(name)) {
        properties.emplace(name, value);
      }
    }
    if (include_optimizer_state_) {
      for (const auto& [name, group] : store_.groups) {
        if (group.learning_rate == group.initial_learning_rate) continue;
        properties.insert_or_assign(LearningRateProperty(name),
                                    group.learning_rate);
        properties.insert_or_assign(LearningRateStepProperty(name), group.step);
      }
    }
    return properties;
  }

  template <class TableBuilder, class Value>
  auto WriteProperty(flatbuffers::Offset<flatbuffers::String> name,
                     Value value) {
    TableBuilder table(builder_);
    table.add_name(name);
    table.add_value(value);
    return table.Finish();
  }

  flatbuffers::Offset<fbs::PropertyBag> WriteProperties() {
    const auto properties = PropertiesToWrite();
    if (properties.empty()) return 0;
    Offsets<fbs::IntProperty> ints;
    Offsets<fbs::FloatProperty> floats;
    Offsets<fbs::StringProperty> strings;
    for (const auto& [name, value] : properties) {
      const auto name_offset = builder_.CreateString(name);
      if (const auto* number = std::get_if<int64_t>(&value)) {
        ints.push_back(
            WriteProperty<fbs::IntPropertyBuilder>(name_offset, *number));
      } else if (const auto* real = std::get_if<float>(&value)) {
        floats.push_back(
            WriteProperty<fbs::FloatPropertyBuilder>(name_offset, *real));
      } else {
        const auto text = builder_.CreateString(std::get<std::string>(value));
        strings.push_back(
            WriteProperty<fbs::StringPropertyBuilder>(name_offset, text));
      }
    }
    const auto int_list = builder_.CreateVector(ints);
    const auto float_list = builder_.CreateVector(floats);
    const auto string_list = builder_.CreateVector(strings);
    fbs::PropertyBagBuilder table(builder_);
    table.add_ints(int_list);
    table.add_floats(float_list);
    table.add_strings(string_list);
    return table.Finish();
  }

  const ParameterStore& store_;
  const bool include_optimizer_state_;
  const bool external_;
  const size_t size_;
  flatbuffers::FlatBufferBuilder builder_;
  std::vector<std::span<const std::byte>> external_data_;
  int64_t external_size_ = 0;
};

}  // namespace

std::filesystem::path ExternalDataPath(
    const std::filesystem::path& checkpoint) {
  std::filesystem::path path = checkpoint;
  path += ".data";
  return path;
}

std::string LearningRateProperty(std::string_view group) {
  return fmt::format("strop.learning_rate.{}", group);
}

std::string LearningRateStepProperty(std::string_view group) {
  return fmt::format("strop.learning_rate_step.{}", group);
}

SerializedCheckpoint SerializeCheckpoint(const ParameterStore& store,
                                         bool include_optimizer_state,
                                         uint64_t max_inline_bytes) {
  const bool external =
      !store.is_nominal && !store.parameters.empty() &&
      (store.has_external_data || ParameterBytes(store) > max_inline_bytes);
  return CheckpointWriter(store, include_optimizer_state, external).Write();
}

}  // namespace strop
