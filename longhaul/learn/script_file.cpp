#include "longhaul/learn/script_file.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/csrc/jit/serialization/import_source.h>

#include <algorithm>
#include <vector>

#include "longhaul/learn/script_operators.h"

namespace torch::jit {
TORCH_API void
populate_upgraders_graph_map();  // jit::load() begins with it; in no installed header
}

namespace longhaul::learn {
namespace {

namespace jit = torch::jit;
using caffe2::serialize::PyTorchStreamReader;

// The text of "__torch__.nets" is code/__torch__/nets.py.
std::shared_ptr<jit::Source> source_of(PyTorchStreamReader& archive, const std::string& module) {
  std::string path = module;
  std::ranges::replace(path, '.', '/');
  path = "code/" + path + ".py";
  if (!archive.hasRecord(path)) return nullptr;
  const auto [data, size] = archive.getRecord(path);
  return std::make_shared<jit::Source>(std::string(static_cast<const char*>(data.get()), size),
                                       path, 1);
}

// Reads a file as jit::load() does, but runs none of its code: all of it is compiled.
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
    // Its class has no attributes, as libtorch follows those of the root. It has all slots, as
    // libtorch does not check their number.
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

Result<jit::Module> read_script(std::istream& in, const std::string& file, at::Device device) {
  // Formats that jit::load() reads as well, and this does not: flat buffers, and zip files of
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
