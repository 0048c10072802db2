#include "longhaul/learn/script.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <xxhash.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace torch::jit {
TORCH_API void
populate_upgraders_graph_map();  // called first by jit::load(); in no installed header
}

namespace longhaul::learn {
namespace {

namespace jit = torch::jit;

// Visits every node of the block and of the blocks in it, in order.
void for_each_node(jit::Block& block, const std::function<void(jit::Node*)>& visit) {
  for (jit::Node* node : block.nodes()) {
    visit(node);
    for (jit::Block* inner : node->blocks()) for_each_node(*inner, visit);
  }
}

// Returns true for norms, which change their running statistics; their schemas do not say so.
bool moves_statistics(const jit::Node& node) {
  const std::string_view name = node.kind().toUnqualString();
  for (const std::string_view part : {"batch_norm", "instance_norm", "moving_avg"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

// Returns true for a part of a module with tensors of its own; not for a flag or a number.
bool holds_tensors(const c10::Type& type) {
  return type.kind() == c10::TypeKind::ClassType || type.kind() == c10::TypeKind::InterfaceType;
}

// Returns true if there are calls. Reads the code of called functions, which inlining does not.
bool calls(jit::Block& block) {
  bool any = false;
  for_each_node(block, [&](jit::Node* node) {
    any |= node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
    if (node->kind() != c10::prim::CallFunction) return;
    if (const auto type = node->input(0)->type()->cast<c10::FunctionType>())
      type->function()->ensure_defined();
  });
  return any;
}

std::uint64_t digest_of(jit::Graph& graph) {
  const std::string text = graph.toString(/*print_source_locations=*/false);
  std::uint64_t digest = XXH3_64bits(text.data(), text.size());
  for_each_node(*graph.block(), [&](jit::Node* node) {
    if (node->kind() != c10::prim::Constant || !node->hasAttribute(c10::attr::value) ||
        node->kindOf(c10::attr::value) != jit::AttributeKind::t)
      return;
    const at::Tensor values = node->t(c10::attr::value).cpu().contiguous();
    digest = XXH3_64bits_withSeed(values.data_ptr(), values.nbytes(), digest);
  });
  return digest;
}

// Prefix of the names of classes with C++ methods, whose effects cannot be read.
constexpr char kForeignClasses[] = "__torch__.torch.classes.";

// Operators that a model file may use, sorted. Each name stands for all its overloads and for the
// form that writes to its argument ("add_"). These operators compute on tensors, numbers, strings
// and containers, and change nothing else: no file, process, network, device setting, global seed
// or number of threads. The list excludes three kinds: operators that trust their arguments (sparse
// tensors "unsafe", resize_, set_), operators of libtorch's own backward passes, and quantised
// arithmetic, whose weights are C++ objects.
constexpr char kAten[] =
    "Bool Complex ComplexImplicit Delete Float FloatImplicit Int IntImplicit ScalarImplicit Size "
    "__and__ __contains__ __derive_index __getitem__ __iand__ __ilshift__ __interpolate __ior__ "
    "__irshift__ __is__ __isnot__ __ixor__ __lshift__ __not__ __or__ __range_length "
    "__round_to_zero_floordiv __rshift__ __upsample __upsample_bilinear __upsample_nearest "
    "__xor__ _adaptive_avg_pool2d _adaptive_avg_pool3d _assert_async _batch_norm_impl_index "
    "_cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short "
    "_convolution _convolution_mode _dim_arange _embedding_bag _get_tracing_state "
    "_grad_sum_to_size _infer_size _list_to_tensor _log_softmax _masked_softmax "
    "_native_batch_norm_legit _native_multi_head_attention _nested_tensor_from_mask "
    "_nested_tensor_from_mask_left_aligned _no_grad_embedding_renorm _no_grad_fill "
    "_no_grad_normal _no_grad_uniform _no_grad_zero _pack_padded_sequence _pad_circular _pad_enum "
    "_pad_packed_sequence _reshape_from_tensor _safe_softmax _scaled_dot_product_attention "
    "_scaled_dot_product_attention_forward _scaled_dot_product_attention_math _set_item "
    "_shape_as_tensor _size_if_not_equal _softmax _stack _tensor_to_list "
    "_transformer_encoder_layer_fwd _trilinear _unique _unique2 _unwrap_optional "
    "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d "
    "_upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm _weight_norm_interface abs "
    "absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm "
    "addmv addr adjoint affine_grid_generator alias all allclose alpha_dropout amax amin aminmax "
    "angle any append arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin "
    "argsort argwhere as_strided as_strided_scatter as_tensor asin asinh atan atan2 atanh "
    "atleast_1d atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window "
    "batch_norm bernoulli bilinear bin binary_cross_entropy binary_cross_entropy_with_logits "
    "bincount binomial bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
    "bitwise_xor blackman_window block_diag bmm broadcast_tensors broadcast_to bucketize can_cast "
    "capitalize cartesian_prod cat cauchy cdist ceil celu center chain_matmul channel_shuffle "
    "cholesky cholesky_inverse cholesky_solve chr chunk clamp clamp_max clamp_min clear clip "
    "clone col2im column_stack combinations complex concat concatenate conj conj_physical "
    "constant_pad_nd contiguous conv1d conv2d conv3d conv_depthwise3d conv_tbc conv_transpose1d "
    "conv_transpose2d conv_transpose3d convolution copy copysign corrcoef cos cosh "
    "cosine_embedding_loss cosine_similarity count count_nonzero cov cpu cross cross_entropy_loss "
    "ctc_loss cuda cummax cummin cumprod cumsum cumulative_trapezoid data deg2rad degrees det "
    "detach device diag diag_embed diagflat diagonal diagonal_scatter dict diff digamma dim dist "
    "div divide divmod dot dropout dsplit dstack einsum element_size elu embedding embedding_bag "
    "embedding_renorm empty empty_like empty_strided endswith eq equal erf erfc erfinv exp exp2 "
    "expand expand_as expandtabs expm1 exponential extend eye fabs factorial "
    "feature_alpha_dropout feature_dropout fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift "
    "fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 "
    "fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn fill "
    "fill_diagonal find fix flatten flip fliplr flipud float_power floor floor_divide floordiv "
    "fmax fmin fmod format frac fractional_max_pool2d fractional_max_pool3d frexp frobenius_norm "
    "full full_like gamma gather gcd ge gelu geometric geqrf ger get get_device glu grad gradient "
    "greater greater_equal grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru gru_cell "
    "gt hamming_window hann_window hardshrink hardsigmoid hardswish hardtanh has_torch_function "
    "hash heaviside hex hinge_embedding_loss histc histogram histogramdd hsplit hstack huber_loss "
    "hypot i0 igamma igammac im2col imag index index_add index_fill index_put index_reduce "
    "index_select inner insert instance_norm inverse is_autocast_cpu_enabled is_autocast_enabled "
    "is_complex is_conj is_contiguous is_floating_point is_grad_enabled is_inference is_leaf "
    "is_neg is_nested is_non_overlapping_and_dense is_nonzero is_same_size is_scripting is_signed "
    "is_strides_like_format isalnum isalpha isclose isdecimal isdigit isfinite isidentifier isin "
    "isinf islower isnan isneginf isnumeric isposinf isprintable isreal isspace istft istitle "
    "isupper item items join kaiser_window keys kl_div kron kthvalue l1_loss layer_norm lcm ldexp "
    "le leaky_relu len lerp less less_equal lgamma linalg_cholesky linalg_cholesky_ex linalg_cond "
    "linalg_cross linalg_det linalg_diagonal linalg_eig linalg_eigh linalg_eigvals "
    "linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor "
    "linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor "
    "linalg_lu_factor_ex linalg_lu_solve linalg_matmul linalg_matrix_exp linalg_matrix_norm "
    "linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr "
    "linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd "
    "linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot "
    "linalg_vector_norm linear linspace list ljust log log10 log1p log2 log_normal log_sigmoid "
    "log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and "
    "logical_not logical_or logical_xor logit logspace logsumexp lower lstm lstm_cell lstrip lt "
    "lu_solve lu_unpack mH mT margin_ranking_loss masked_fill masked_scatter masked_select "
    "mathremainder matmul matrix_H matrix_exp matrix_power max max_pool1d max_pool1d_with_indices "
    "max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d "
    "max_unpool3d maximum mean median meshgrid min minimum mish mm mode modf moveaxis movedim "
    "mse_loss msort mul multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward "
    "multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow "
    "native_batch_norm native_channel_shuffle native_dropout native_group_norm native_layer_norm "
    "native_norm ne neg negative new_empty new_empty_strided new_full new_ones new_zeros "
    "nextafter nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward nll_loss_nd nonzero "
    "nonzero_numpy nonzero_static norm norm_except_dim normal normal_functional not_equal "
    "nuclear_norm numel numpy_T oct one_hot ones ones_like ord orgqr ormqr outer pad pad_sequence "
    "pairwise_distance partition pdist percentFormat permute pinverse pixel_shuffle "
    "pixel_unshuffle poisson poisson_nll_loss polar polygamma pop popitem positive pow prelu prod "
    "promote_types put qr quantile rad2deg radians rand rand_like randint randint_like randn "
    "randn_like random randperm range ravel real reciprocal reflection_pad1d reflection_pad2d "
    "reflection_pad3d relu relu6 remainder remove renorm repeat repeat_interleave replace "
    "replication_pad1d replication_pad2d replication_pad3d requires_grad reshape reshape_as "
    "resolve_conj resolve_neg result_type reverse rfind rindex rjust rms_norm rnn_relu "
    "rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round row_stack rpartition rrelu "
    "rrelu_with_noise rsplit rsqrt rstrip rsub scalar_tensor scaled_dot_product_attention scatter "
    "scatter_add scatter_reduce searchsorted select select_scatter selu set_grad_enabled "
    "setdefault sgn sigmoid sign signbit silu sin sinc sinh size slice slice_scatter slogdet "
    "slow_conv3d slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d "
    "slow_conv_transpose3d smooth_l1_loss soft_margin_loss softmax softplus softshrink sort "
    "sorted special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 "
    "special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_u "
    "special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_digamma special_entr "
    "special_erf special_erfc special_erfcx special_erfinv special_exp2 special_expit "
    "special_expm1 special_gammainc special_gammaincc special_gammaln "
    "special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1 "
    "special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p "
    "special_log_ndtr special_log_softmax special_logit special_logsumexp "
    "special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 "
    "special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri special_polygamma "
    "special_psi special_round special_scaled_modified_bessel_k0 "
    "special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t "
    "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v "
    "special_shifted_chebyshev_polynomial_w special_sinc special_softmax "
    "special_spherical_bessel_j0 special_xlog1py special_xlogy special_zeta split "
    "split_with_sizes splitlines sqrt square squeeze stack startswith std std_mean stft "
    "storage_offset str stride strip sub subtract sum sum_to_size svd swapaxes swapcase swapdims "
    "sym_numel sym_size sym_storage_offset sym_stride symeig t take take_along_dim tan tanh "
    "tensor tensor_split tensordot thnn_conv2d threshold tile title to to_dense to_padded_tensor "
    "topk trace transpose trapezoid trapz triangular_solve tril tril_indices triplet_margin_loss "
    "triu triu_indices true_divide trunc type_as unbind unflatten unfold uniform unique "
    "unique_consecutive unique_dim unique_dim_consecutive unsafe_chunk unsafe_split "
    "unsafe_split_with_sizes unsqueeze update upper upsample_bicubic2d upsample_bilinear2d "
    "upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d "
    "upsample_trilinear3d values vander var var_mean vdot view view_as view_as_complex "
    "view_as_real vsplit vstack wait warn where xlogy zero zeros zeros_like zfill";

// Control flow, containers, attributes, and properties of tensors. Not print(), which writes to the
// program's output, nor id().
constexpr char kPrim[] =
    "AutogradZero CallFunction CallMethod Closure Constant ConstantChunk CreateObject "
    "DictConstruct Enter EnumName EnumValue Exit GetAttr If ImplicitTensorToNum ListConstruct "
    "ListUnpack Loop ModuleContainerIndex NumToTensor RaiseException SetAttr StringIndex "
    "TupleConstruct TupleIndex TupleSlice TupleUnpack Uninitialized abs annotate data device "
    "dtype fork grad index is_cpu is_cuda is_ipu is_meta is_mkldnn is_mps is_nested is_ort "
    "is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu isinstance itemsize layout max "
    "min name nbytes ndim rangelist requires_grad shape tolist type unchecked_cast "
    "unchecked_unwrap_optional";

using Names = std::set<std::string, std::less<>>;

Names names_in(const char* table) {
  std::istringstream words(table);
  return {std::istream_iterator<std::string>(words), {}};
}

bool may_use(const c10::Symbol& kind) {
  static const Names aten = names_in(kAten), prim = names_in(kPrim);
  const std::string name = kind.toUnqualString();
  if (kind.is_prim()) return prim.contains(name);
  if (!kind.is_aten()) return false;
  return aten.contains(name) ||
         (name.ends_with('_') && aten.contains(name.substr(0, name.size() - 1)));
}

// Returns "Net.forward" for "__torch__.models.___torch_mangle_3.Net.forward".
std::string short_name(const jit::Function& function) {
  const c10::QualifiedName name = function.qualname();
  const auto& atoms = name.atoms();
  return atoms.size() < 3 ? name.name() : atoms[atoms.size() - 2] + "." + atoms.back();
}

// Returns true for a class of C++, whose methods are unrestricted.
bool is_foreign(const jit::Value& value) {
  return value.type()->annotation_str().find(kForeignClasses) != std::string::npos;
}

// Returns the first forbidden operator or class in the block, or "".
std::string forbidden_in(jit::Block& block) {
  std::string found;
  for_each_node(block, [&](jit::Node* node) {
    if (!found.empty()) return;
    if (!may_use(node->kind())) found = node->kind().toQualString();
    for (const jit::Value* value : node->outputs())
      if (is_foreign(*value))
        found = "an object of the C++ class " + value->type()->annotation_str();
    for (const c10::Symbol name : node->attributeNames()) {
      if (node->kindOf(name) == jit::AttributeKind::g && found.empty())
        found = forbidden_in(*node->g(name)->block());
      if (node->kindOf(name) == jit::AttributeKind::gs && found.empty())
        for (const auto& graph : node->gs(name)) found += forbidden_in(*graph->block());
    }
  });
  return found;
}

// Checks all functions of the unit, with methods, hooks, properties and forked code. The Error
// names the file, the function, and the operator that is not in the table, or the class of C++.
Status check_operators(const jit::CompilationUnit& unit, const std::string& file) {
  for (jit::Function* function : unit.get_functions()) {
    jit::GraphFunction* code = jit::tryToGraphFunction(*function);
    const std::string found =
        code ? forbidden_in(*code->graph()->block()) : "a function that is no TorchScript";
    if (!found.empty())
      return invalid("'" + file + "': " + short_name(*function) + " uses " + found +
                     ", which a model file may not: it may only compute on tensors; take it out, "
                     "and save the module again (docs/models.md, \"A model file is a program\")");
  }
  return Ok{};
}

using caffe2::serialize::PyTorchStreamReader;

// Returns the text of a module: for "__torch__.nets" code/__torch__/nets.py.
std::shared_ptr<jit::Source> source_of(PyTorchStreamReader& archive, const std::string& module) {
  std::string path = module;
  std::ranges::replace(path, '.', '/');
  path = "code/" + path + ".py";
  if (!archive.hasRecord(path)) return nullptr;
  const auto [data, size] = archive.getRecord(path);
  return std::make_shared<jit::Source>(std::string(static_cast<const char*>(data.get()), size),
                                       path, 1);
}

// A reader of files like jit::load() that compiles all code and runs none.
class Compilation {
 public:
  explicit Compilation(PyTorchStreamReader& archive)
      : archive_(archive),
        importer_(
            unit_, &constants_, [&](const std::string& of) { return source_of(archive, of); },
            archive.version()) {}

  std::shared_ptr<jit::CompilationUnit> compile() {
    const auto constants = unpickle("constants", "constants/");
    for (const auto& constant : constants.toTupleRef().elements()) constants_.push_back(constant);
    (void)unpickle("data", "data/");
    return unit_;
  }

 private:
  at::IValue unpickle(const std::string& name, const std::string& tensors) {
    const auto type = [&](const c10::QualifiedName& of) {
      TORCH_CHECK(!of.qualifiedName().starts_with(kForeignClasses), "it holds an object of ",
                  of.qualifiedName(), ", a class of C++: save it without (quantised modules have ",
                  "such objects)");
      return c10::StrongTypePtr(unit_, importer_.loadType(of));
    };
    // The object's class has no attributes, because libtorch follows those of the root. The object
    // has all slots, because libtorch does not check their number.
    const auto object = [&](const c10::StrongTypePtr& of, const at::IValue& state) {
      const auto cls = of.type_->expect<c10::ClassType>();
      auto made =
          c10::ivalue::Object::create(c10::StrongTypePtr(unit_, empty_), cls->numAttributes());
      if (cls->findMethod("__setstate__")) return made;
      const auto values = state.toGenericDict();
      for (std::size_t i = 0; i < cls->numAttributes(); ++i)
        made->setSlot(i, values.at(cls->getAttributeName(i)));
      return made;
    };
    return jit::readArchiveAndTensors(name, "", tensors, type, object, at::kCPU, archive_);
  }

  PyTorchStreamReader& archive_;
  const std::shared_ptr<jit::CompilationUnit> unit_ = std::make_shared<jit::CompilationUnit>();
  const c10::ClassTypePtr empty_ = c10::ClassType::create("__torch__.longhaul.Unread", unit_);
  std::vector<at::IValue> constants_;
  jit::SourceImporter importer_;
};

}  // namespace

ScriptGraph read_graph(const jit::Module& module) {
  const std::shared_ptr<jit::Graph> graph = module.get_method("forward").graph()->copy();
  constexpr int kDeepest = 64;
  for (int level = 0; level < kDeepest && calls(*graph->block()); ++level) jit::Inline(*graph);
  ScriptGraph found;
  found.digest = digest_of(*graph);
  // Each value that is the module or a part of it, and its name with a dot at the end.
  std::map<const jit::Value*, std::string> names{{graph->inputs().at(0), ""}};
  std::map<std::string, std::vector<jit::Value*>> tensors;
  bool opaque = calls(*graph->block());
  for_each_node(*graph->block(), [&](jit::Node* node) {
    const bool gets = node->kind() == c10::prim::GetAttr;
    for (const jit::Value* input : node->inputs()) {
      const auto at = names.find(input);
      if (at == names.end()) continue;
      const bool sets = node->kind() == c10::prim::SetAttr;
      if (sets) found.written.insert(at->second + node->s(c10::attr::name));
      if (!gets) {
        opaque |= !sets;  // the module itself is used elsewhere
        continue;
      }
      const std::string name = at->second + node->s(c10::attr::name);
      if (node->output()->type()->isSubtypeOf(*c10::TensorType::get()))
        tensors[name].push_back(node->output());
      else if (holds_tensors(*node->output()->type()))
        names.emplace(node->output(), name + ".");
    }
  });
  // Otherwise every tensor of a module might alias every other. Tied ones share their memory.
  jit::AliasDb aliases(graph, /*isFrozen=*/true);
  for (const auto& [name, values] : tensors) {
    found.read.insert(name);
    for (jit::Value* value : values)
      if (aliases.hasWriters(value)) found.written.insert(name);
  }
  for_each_node(*graph->block(), [&](jit::Node* node) {
    if (!moves_statistics(*node)) return;
    for (jit::Value* input : node->inputs())
      for (const auto& [name, values] : tensors)
        for (jit::Value* value : values)
          if (aliases.mayAlias(input, value)) found.written.insert(name);
  });
  if (!opaque) return found;
  for (const auto& one : module.named_parameters()) found.read.insert(one.name);
  for (const auto& one : module.named_buffers()) found.read.insert(one.name);
  found.written = found.read;
  return found;
}

Result<jit::Module> read_script(std::istream& in, const std::string& file, at::Device device) {
  // jit::load() also reads these formats, which are refused here: flat buffers, and zip files from
  // before torch 1.2.
  char magic[2] = {};
  in.read(magic, sizeof magic);
  in.seekg(0);
  if (!in || magic[0] != 'P' || magic[1] != 'K')
    return malformed("'" + file + "' is no TorchScript file: torch.jit.script(model).save(path)");
  {
    PyTorchStreamReader archive(&in);
    if (archive.hasRecord("model.json"))
      return malformed("'" + file + "' is of a torch before 1.2: save it again with a newer one");
    jit::populate_upgraders_graph_map();
    LH_TRY(check_operators(*Compilation(archive).compile(), file));
  }
  in.clear();
  in.seekg(0);
  const jit::Module module = jit::load(in, device);
  LH_TRY(check_operators(*module._ivalue()->compilation_unit(), file));
  return module;
}

}  // namespace longhaul::learn
