"""Names that MXNet's users import can be imported from MXNet's paths."""

import importlib
import os

import numpy as np
import pytest

import core as mx

# (module of mxnet 1.9.1, names its users and its own tests import from it)
PATHS = [
    ("attribute", "AttrScope"),
    ("autograd", "Function NDArray backward grad mark_variables pause predict_mode record"),
    (
        "base",
        "MXNetError NotImplementedForSymbol mx_real_t numeric_types string_types py_str _as_list",
    ),
    ("contrib.tensorboard", "LogMetricsCallback"),
    ("context", "Context cpu gpu cpu_pinned current_context num_gpus"),
    ("contrib", "autograd nd ndarray sym symbol"),
    (
        "contrib.amp",
        "init init_trainer scale_loss unscale convert_model convert_hybrid_block convert_symbol "
        "list_lp16_ops list_fp32_ops",
    ),
    ("contrib.amp.lists.symbol_fp16", "FP16_FUNCS FP32_FUNCS WIDEST_TYPE_CASTS"),
    ("contrib.amp.loss_scaler", "LossScaler"),
    ("contrib.autograd", "NDArray train_section test_section grad_and_loss mark_variables"),
    ("contrib.svrg_optimization.svrg_module", "SVRGModule"),
    ("contrib.svrg_optimization.svrg_optimizer", "_SVRGOptimizer _AssignmentOptimizer"),
    ("contrib.text.embedding", "CustomEmbedding CompositeEmbedding create register"),
    ("contrib.text.utils", "count_tokens_from_str"),
    ("contrib.text.vocab", "Vocabulary"),
    ("gluon", "Parameter ParameterDict Constant Trainer Block HybridBlock SymbolBlock nn loss"),
    ("gluon.block", "Block HybridBlock SymbolBlock"),
    ("base", "NDArrayHandle"),
    ("contrib.onnx", "export_model get_operator_support"),
    ("contrib.text.embedding", "GloVe FastText _TokenEmbedding get_pretrained_file_names"),
    ("gluon.contrib.cnn", "DeformableConvolution ModulatedDeformableConvolution"),
    ("gluon.contrib.estimator", "Estimator BatchProcessor LoggingHandler TrainBegin"),
    (
        "gluon.contrib.estimator.event_handler",
        "CheckpointHandler EarlyStoppingHandler EventHandler",
    ),
    (
        "gluon.data.dataloader",
        "_MultiWorkerIter _as_in_context _worker_fn _worker_initializer ForkingPickler",
    ),
    ("gluon.loss", "Loss _apply_weighting _reshape_like"),
    ("gluon.model_zoo.model_store", "get_model_file purge"),
    ("gluon.model_zoo.vision.densenet", "DenseNet densenet121"),
    ("gluon.model_zoo.vision.squeezenet", "SqueezeNet squeezenet1_1"),
    ("gluon.model_zoo.vision.vgg", "VGG vgg16_bn"),
    ("gluon.nn.basic_layers", "Dense HybridSequential BatchNorm Lambda Activation"),
    ("gluon.nn.conv_layers", "_Conv Conv2D MaxPool2D"),
    ("gluon.utils", "_get_repo_url _get_repo_file_url replace_file"),
    ("image.image", "_get_interp_method"),
    ("io.utils", "_init_data"),
    ("module.executor_group", "DataParallelExecutorGroup _load_general _merge_multi_context"),
    ("ndarray.ndarray", "array"),
    ("ndarray.utils", "array empty load load_frombuffer save zeros"),
    ("onnx", "export_model get_operator_support"),
    ("gluon.parameter", "Parameter ParameterDict Constant DeferredInitializationError"),
    ("gluon.contrib.nn", "Concurrent HybridConcurrent Identity SparseEmbedding PixelShuffle2D"),
    ("gluon.model_zoo", "vision"),
    ("gluon.model_zoo.vision", "get_model resnet18_v1 resnet50_v2 vgg16 alexnet"),
    ("gluon.nn", "Dense HybridSequential Sequential"),
    ("gluon.rnn", "RNN LSTM GRU RNNCell LSTMCell GRUCell SequentialRNNCell HybridRecurrentCell"),
    ("gluon.rnn.rnn_cell", "ModifierCell _format_sequence _get_begin_state BidirectionalCell"),
    ("gluon.rnn.rnn_layer", "RNN LSTM GRU"),
    ("gluon.contrib.rnn", "VariationalDropoutCell LSTMPCell Conv2DLSTMCell"),
    ("gluon.contrib.rnn.rnn_cell", "dynamic_unroll"),
    ("gluon.utils", "split_data split_and_load clip_global_norm download check_sha1"),
    ("image", "imread imdecode imresize ImageIter CreateAugmenter ImageDetIter detection det"),
    ("image.image", "imresize ImageIter CreateAugmenter"),
    ("image.detection", "DetRandomCropAug CreateDetAugmenter"),
    ("initializer", "Xavier Initializer InitDesc"),
    ("io", "NDArrayIter DataDesc DataBatch DataIter"),
    ("log", "get_logger getLogger INFO"),
    ("io.io", "DataIter NDArrayIter DataBatch"),
    ("kvstore.kvstore", "KVStore create"),
    ("libinfo", "__version__"),
    ("optimizer.optimizer", "Optimizer SGD Updater get_updater create register"),
    ("rnn.rnn", "save_rnn_checkpoint do_rnn_checkpoint"),
    ("lr_scheduler", "FactorScheduler MultiFactorScheduler PolyScheduler CosineScheduler"),
    ("metric", "Accuracy CompositeEvalMetric EvalMetric"),
    ("engine", "bulk set_bulk_size"),
    ("misc", "FactorScheduler LearningRateScheduler"),
    ("symbol_doc", "SymbolDoc"),
    (
        "test_utils",
        "get_cifar10 use_np get_mnist get_mnist_iterator download check_speed getenv setenv "
        "OrderedDict json",
    ),
    ("executor_manager", "_split_input_slice _check_arguments"),
    (
        "model",
        "save_checkpoint load_checkpoint load_params BatchEndParam FeedForward _create_kvstore "
        "_create_sparse_kvstore _initialize_kvstore _update_params _update_params_on_kvstore",
    ),
    ("module", "Module BucketingModule SequentialModule PythonLossModule BaseModule"),
    ("name", "NameManager Prefix"),
    ("operator", "CustomOp CustomOpProp NDArrayOp NumpyOp PythonOp get_operator_arguments"),
    ("ndarray", "NDArray array zeros CachedOp"),
    ("ndarray.ndarray", "NDArray py_slice _STORAGE_TYPE_STR_TO_ID"),
    ("ndarray.sparse", "CSRNDArray RowSparseNDArray csr_matrix row_sparse_array"),
    ("optimizer", "Optimizer SGD Updater get_updater"),
    ("registry", "get_registry get_register_func get_alias_func get_create_func"),
    ("rnn", "LSTMCell FusedRNNCell BucketSentenceIter encode_sentences"),
    ("rnn.io", "BucketSentenceIter encode_sentences"),
    ("rnn.rnn_cell", "BaseRNNCell LSTMCell FusedRNNCell SequentialRNNCell RNNParams"),
    ("runtime", "Feature Features feature_list"),
    ("symbol", "Symbol Variable Group"),
    ("util", "is_np_array np_shape is_np_shape use_np use_np_shape set_np_shape get_gpu_count"),
]


@pytest.mark.parametrize(("path", "names"), PATHS, ids=[path for path, _ in PATHS])
def test_names_can_be_imported_from_mxnets_paths(path: str, names: str) -> None:
    module = importlib.import_module(f"core.{path}")
    for name in names.split():
        assert hasattr(module, name), f"core.{path} has no {name}"
    found: object = mx
    for part in path.split("."):
        found = getattr(found, part)
    assert found is module


def test_an_error_class_is_the_same_wherever_imported_from() -> None:
    from core.base import MXNetError

    assert MXNetError is mx.MXNetError is mx.base.MXNetError
    with pytest.raises(MXNetError):
        mx.nd.ones((2, 3)).reshape((5,))


def test_the_data_directory_is_mxnets(monkeypatch: pytest.MonkeyPatch) -> None:
    from core.base import data_dir

    monkeypatch.delenv("MXNET_HOME", raising=False)
    assert data_dir() == os.path.join(os.path.expanduser("~"), ".mxnet")
    monkeypatch.setenv("MXNET_HOME", "some/where")
    assert data_dir() == "some/where"


def test_bulk_size_is_remembered() -> None:
    assert mx.engine.set_bulk_size(3) == 0
    with mx.engine.bulk(10):
        assert mx.engine.set_bulk_size(4) == 10
    assert mx.engine.set_bulk_size(0) == 3


def test_helpers_of_base_work() -> None:
    from core.base import _as_list, mx_real_t, numeric_types, py_str

    assert mx.nd.zeros((1,)).dtype is mx_real_t
    assert isinstance(np.float16(1), numeric_types)
    assert not isinstance("1", numeric_types)
    assert py_str("größe".encode()) == py_str("größe") == "größe"
    assert _as_list("ab") == ["ab"]
    assert _as_list((1, 2)) == (1, 2)


def test_environment_variables_are_set_and_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORE_TEST_VARIABLE", "before")
    mx.util.setenv("CORE_TEST_VARIABLE", "after")
    assert mx.util.getenv("CORE_TEST_VARIABLE") == os.environ["CORE_TEST_VARIABLE"] == "after"
    mx.util.setenv("CORE_TEST_VARIABLE", None)
    assert mx.util.getenv("CORE_TEST_VARIABLE") is None


def test_old_contrib_namespaces_are_aliases() -> None:
    assert mx.contrib.nd is mx.nd.contrib
    assert mx.contrib.sym is mx.contrib.symbol is mx.sym.contrib


def test_a_star_import_of_test_utils_brings_the_modules_scripts_use() -> None:
    names: dict[str, object] = {}
    exec("from core.test_utils import *", names)
    assert names["mx"] is mx
    assert names["np"] is np
    assert names["rnd"] is np.random
    assert names["array"] is mx.nd.array
    assert {"Context", "current_context", "Symbol", "os", "rand_ndarray", "same"} <= names.keys()


def test_scripts_see_an_mxnet_version() -> None:
    assert mx.__version__ == mx.libinfo.__version__ == "1.9.1"


def test_functions_that_draw_numbers_can_be_imported_from_random() -> None:
    from core.random import normal, seed, shuffle, uniform

    assert (seed, uniform) == (mx.random.seed, mx.random.uniform)
    assert (normal, shuffle) == (mx.nd.random.normal, mx.nd.random.shuffle)


def test_a_function_takes_the_place_of_its_module() -> None:
    """As in MXNet, whose model zoo has both under one name."""
    module = importlib.import_module("core.gluon.model_zoo.vision.alexnet")
    assert module.alexnet is mx.gluon.model_zoo.vision.alexnet
