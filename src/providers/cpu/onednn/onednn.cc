// SPDX-License-Identifier: Apache-2.0
#include "providers/cpu/onednn/onednn.h"

// Of OpenMP's runtime; the header comes with some compilers only.
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int);

namespace strop::onednn {

using Tag = dnnl::memory::format_tag;

SingleThread::SingleThread() : previous_(omp_get_max_threads()) {
  if (previous_ != 1) omp_set_num_threads(1);
}

SingleThread::~SingleThread() {
  if (previous_ != 1) omp_set_num_threads(previous_);
}

const dnnl::engine& CpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Layout PreferredBlocks() {
  const int isa = static_cast<int>(dnnl::get_effective_cpu_isa());
  const int avx512 = static_cast<int>(dnnl::cpu_isa::avx512_core);
  return (isa & avx512) == avx512 ? Layout::kBlocked16 : Layout::kBlocked8;
}

Tag ActivationTag(size_t spatial_rank, Layout layout) {
  constexpr Tag kTags[3][3] = {{Tag::ncw, Tag::nCw8c, Tag::nCw16c},
                               {Tag::nchw, Tag::nChw8c, Tag::nChw16c},
                               {Tag::ncdhw, Tag::nCdhw8c, Tag::nCdhw16c}};
  return kTags[spatial_rank - 1][static_cast<size_t>(layout)];
}

Tag PlainTag(size_t rank) {
  constexpr Tag kTags[] = {Tag::a,    Tag::ab,    Tag::abc,
                           Tag::abcd, Tag::abcde, Tag::abcdef};
  return kTags[rank - 1];
}

dnnl::primitive_attr MakeAttributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void BoundPrimitive::Bind(int argument, const dnnl::memory::desc& desc) {
  const dnnl::memory memory(desc, CpuEngine(), DNNL_MEMORY_NONE);
  arguments_.emplace(argument, memory);
  argument_list_.push_back({argument, memory.get()});
}

void BoundPrimitive::SetData(int argument, const void* data) {
  dnnl::memory& memory = arguments_.at(argument);
  // Setting an address makes oneDNN write the padding there: only when new.
  if (memory.get_data_handle() == data) return;
  memory.set_data_handle(const_cast<void*>(data));
}

void BoundPrimitive::Run() {
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), stream_.get(),
                             static_cast<int>(argument_list_.size()),
                             argument_list_.data()),
      "a primitive did not run");
}

}  // namespace strop::onednn
