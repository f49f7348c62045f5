"""The workloads, one module per topic; each holds a list ``WORKLOADS``."""

from apps.bench.workload import load

TOPICS = (
    "engine",
    "chain",
    "bias_add",
    "softmax_regression",
    "mlp_resnet",
    "adam",
    "batch_norm",
    "layer_norm",
    "cross_entropy",
    "conv_block",
    "lstm",
    "transformer_layer",
    "adaptive_blur",
    "imports",
)

WORKLOADS = [workload for topic in TOPICS for workload in load(f"{__name__}.{topic}")]
