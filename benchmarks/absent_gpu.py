"""Programs compiled for an NVIDIA H100 on a machine that has none.

JAX' plugin for CUDA compiles for a device that is described to it: neither a driver nor a GPU is
needed. A whole ``jax[cuda12]`` is 5 GB; these 0.8 GB are enough, of jax' own version::

    pip install --no-deps jax-cuda12-plugin==VERSION jax-cuda12-pjrt==VERSION
    pip install nvidia-cuda-nvcc-cu12 nvidia-cuda-runtime-cu12

What comes out is the optimised program: its kernels, loops, bytes and memory. It is never run.
"""

import importlib
import importlib.util
from typing import Any

from jaxsched.errors import JaxschedError

NAME = "NVIDIA H100 80GB HBM3"
BANDWIDTH = 3.352e12
"""Bytes per second of its memory."""
DESCRIPTION = f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {BANDWIDTH:.0f}
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84942979072
  shared_memory_per_block_optin: 232448
  cuda_compute_capability {{ major: 9 }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 }}
device_description_str: "{NAME}"
"""


def is_possible() -> bool:
    """Whether the plugin is installed."""
    try:
        return importlib.util.find_spec("jax_plugins.xla_cuda12") is not None
    except ModuleNotFoundError:  # not even the package that plugins are in
        return False


def compiled(jitted: Any, *arguments: Any, **named: Any) -> Any:
    """A program for one H100; call it within ``jaxsched.ops.target.tracing_for("gpu")``.

    Args:
      jitted: of ``jax.jit``.
      arguments: static ones, and pytrees of ``jax.ShapeDtypeStruct``.
      named: likewise.

    Raises:
      JaxschedError: the plugin is not installed.
    """
    import jax

    from jaxsched.ops import target

    mesh = jax.sharding.Mesh(_devices(), ("x",))
    there = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

    def placed(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=there)

    arguments, named = jax.tree.map(placed, (arguments, named))
    traced = jitted.trace(*arguments, **named)
    return traced.lower(lowering_platforms=("cuda",)).compile(target.compiler_options())


def _devices() -> Any:
    if not is_possible():
        raise JaxschedError(
            "--target h100: needs jax-cuda12-plugin and what else benchmarks/absent_gpu.py names"
        )
    from jax.experimental import topologies

    plugin = importlib.import_module("jax_plugins.xla_cuda12")

    vars(plugin)["_check_cuda_versions"] = lambda **_: None  # it would ask the driver
    try:
        plugin.initialize()
    except Exception as error:  # it is registered already, by an earlier call or by jax
        if "ALREADY_EXISTS" not in str(error):
            raise
    described = topologies.get_topology_desc(
        "h100", platform="cuda", target_config=DESCRIPTION, topology="1x1x1"
    )
    return described.devices
