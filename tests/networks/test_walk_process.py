"""The walk process is the Gaussian process it claims to be, in a few dimensions and stable."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from jaxsched.envs.das.show import walk_process_case
from jaxsched.networks import walk_process as wp
from tests.golden_check import golden_files, load

FILES = [path for path in golden_files("das") if path.stem.startswith("rwgp")]
POSITIONS, MACHINES, WIDTH, STEPS = 2, 4, 3, 3
BETA, NOISE = 1.3, 0.04


def embeddings(seed=0, dtype=float):
    random = np.random.default_rng(seed)
    jobs = random.normal(size=(STEPS + 1, POSITIONS, WIDTH))
    machines = random.normal(size=(STEPS + 1, MACHINES, WIDTH))
    rows = random.normal(size=(STEPS + 1, POSITIONS, MACHINES))
    return tuple(jnp.asarray(x, dtype) for x in (jobs, machines, rows))


def matern_by_definition(a, b):
    r = np.sqrt(5.0) * np.linalg.norm(a - b)
    return (1 + r + r**2 / 3) * np.exp(-r)


def graphs_by_definition(jobs, machines, rho, product):
    """Features of every pair, written out."""

    def unbatched(job, machines):
        combine = np.kron if product == "kronecker" else np.multiply
        rows = [combine(job, machine) / rho for machine in machines]
        return np.array([[matern_by_definition(a, b) for b in rows] for a in rows]) / len(rows)

    return np.array(
        [[unbatched(job, ms) for job in js] for js, ms in zip(jobs, machines, strict=True)]
    )


def kernel_by_definition(one, other, beta):
    """Row sums of the matrix exponential of the Kronecker product."""
    size = len(one)
    return scipy.linalg.expm(beta * np.kron(one, other)).sum(axis=1).reshape(size, size)


def kernel_by_eigenvectors(one, other, beta):
    (values, vectors), (others, other_vectors) = np.linalg.eigh(one), np.linalg.eigh(other)
    middle = np.exp(beta * np.outer(values, others))
    middle *= np.outer(vectors.sum(axis=0), other_vectors.sum(axis=0))
    return vectors @ middle @ other_vectors.T


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("product", ["hadamard", "kronecker"])
def test_graphs_are_those_of_the_definition(product, float64):
    jobs, machines, _ = embeddings()
    graph = wp.machine_graph(jobs, machines, 1.7, product)
    expected = graphs_by_definition(np.asarray(jobs), np.asarray(machines), 1.7, product)
    np.testing.assert_allclose(graph, expected, rtol=1e-12)
    np.testing.assert_allclose(np.trace(graph, axis1=-2, axis2=-1), 1.0)


@pytest.mark.parametrize("basis", ["centred", "walk"])
@pytest.mark.parametrize("beta", [0.3, 1.0, 2.0])
def test_three_forms_of_the_kernel_agree(basis, beta, float64):
    jobs, machines, _ = embeddings()
    graphs = wp.machine_graph(jobs, machines, 1.7, "hadamard")
    features = wp.kernel_features(graphs, jnp.asarray(beta), 24, basis, "node")
    for step in range(STEPS):
        one, other = np.asarray(graphs[step, 0]), np.asarray(graphs[step + 1, 1])
        ours = features[step, 0] @ features[step + 1, 1].T
        np.testing.assert_allclose(ours, kernel_by_definition(one, other, beta), atol=1e-9)
        np.testing.assert_allclose(ours, kernel_by_eigenvectors(one, other, beta), atol=1e-9)


@pytest.mark.parametrize("basis", ["centred", "walk"])
def test_the_default_length_is_enough(basis, float64):
    jobs, machines, _ = embeddings()
    graphs = wp.machine_graph(jobs, machines, 1.7, "hadamard")
    short = wp.kernel_features(graphs, jnp.asarray(2.0), 16, basis, "node")
    gap = wp.gram(short.swapaxes(-1, -2)) - wp.gram(
        wp.kernel_features(graphs, jnp.asarray(2.0), 30, basis, "node").swapaxes(-1, -2)
    )
    assert 0 < jnp.max(jnp.abs(gap)) < 5e-8
    assert short.shape[-1] == {"centred": 9, "walk": 17}[basis]


def dense_process(kernel):
    """Posterior and density of position 0 by the textbook: all data, no features."""
    jobs, machines, rows = embeddings()
    graphs = np.asarray(wp.machine_graph(jobs, machines, 1.7, "hadamard"))[:, 0]
    blocks = [[kernel_by_definition(a, b, BETA) for b in graphs] for a in graphs]
    if kernel == "graph":
        eye = np.eye(MACHINES)
        blocks = [[block.sum() / MACHINES**2 * eye for block in row] for row in blocks]
    whole, size = np.block(blocks), STEPS * MACHINES
    noisy = whole[:size, :size] + NOISE * np.eye(size)
    gain = np.linalg.solve(noisy, whole[:size, size:]).T
    residual = np.asarray(rows)[:STEPS, 0].reshape(-1)
    return gain @ residual, whole[size:, size:] - gain @ whole[:size, size:]


@partial(jax.jit, static_argnums=(0, 1, 2))
def our_process(kernel, basis="centred", dtype=float):
    jobs, machines, rows = embeddings(dtype=dtype)
    graphs = wp.machine_graph(jobs, machines, 1.7, "hadamard")
    features = wp.kernel_features(graphs, jnp.asarray(BETA, dtype), 20, basis, kernel)
    single = wp.evidence(features[:STEPS], rows[:STEPS])
    seen = jax.tree.map(lambda x: jnp.sum(x, axis=0), single)
    given = wp.posterior(seen, jnp.asarray(NOISE, dtype))
    return given, features[STEPS], wp.predict(given, features[STEPS], jnp.zeros_like(rows[0]))


@pytest.mark.parametrize("basis", ["centred", "walk"])
@pytest.mark.parametrize("kernel", ["node", "graph"])
def test_posterior_and_density_are_the_dense_ones(kernel, basis, float64):
    expected_mean, latent = dense_process(kernel)
    given, features, mean = our_process(kernel, basis)
    np.testing.assert_allclose(mean[0], expected_mean, atol=1e-9)
    ours = wp.latent_covariance(given, features)[0] * (1 if kernel == "node" else np.eye(MACHINES))
    np.testing.assert_allclose(ours, latent, atol=1e-9)
    action = embeddings(3)[2][0]
    covariance = latent + NOISE * np.eye(MACHINES)
    normal = scipy.stats.multivariate_normal(expected_mean, covariance)
    log_prob, entropy = wp.log_density(given, features, mean, action)
    np.testing.assert_allclose(log_prob[0], normal.logpdf(np.asarray(action[0])), atol=1e-8)
    np.testing.assert_allclose(entropy[0], normal.entropy(), atol=1e-8)


@pytest.mark.parametrize("kernel", ["node", "graph"])
def test_samples_have_the_predictive_moments(kernel):
    given, features, mean = our_process(kernel, dtype=jnp.float32)
    keys = jax.random.split(jax.random.key(0), 40_000)
    drawn = jax.jit(jax.vmap(lambda key: wp.sample(given, features, mean, key)))(keys)[:, 0]
    latent = wp.latent_covariance(given, features)[0]
    latent = latent if kernel == "node" else latent * np.eye(MACHINES)
    covariance = latent + NOISE * np.eye(MACHINES)
    np.testing.assert_allclose(jnp.mean(drawn, axis=0), mean[0], atol=0.01)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.01)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path):
    case = load(path)
    got = walk_process_case(case)
    for name, expected in case["expect"].items():
        np.testing.assert_allclose(got[name], expected, rtol=1e-6, atol=1e-8, err_msg=name)


def dense_graph_process(case, position):
    """Mean and latent covariance of a position by the textbook, one number per pair of graphs."""
    config, given = case["config"], {name: np.array(x) for name, x in case["inputs"].items()}
    jobs, machines = (
        np.concatenate([given[f"{name}_hist"], given[name][None]]) for name in ("shat", "sc")
    )
    graphs = graphs_by_definition(jobs, machines, config["rho"], config["product"])[:, position]
    kernel = np.array(
        [[kernel_by_definition(a, b, config["beta"]).mean() for b in graphs] for a in graphs]
    )
    seen = given["valid"][:, position] > 0
    now = kernel[-1, :-1][seen]
    noisy = kernel[:-1, :-1][np.ix_(seen, seen)] + config["sigma2"] * np.eye(seen.sum())
    gain = np.linalg.solve(noisy, now)
    mean = given["mean_now"][position] + gain @ (given["Y"] - given["mean_hist"])[seen, position]
    return mean, (kernel[-1, -1] - gain @ now) * np.eye(len(mean))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_of_graphs_has_whole_covariances(path):
    case = load(path)
    case["config"] |= {"kernel": "graph"}
    got = walk_process_case(case)
    assert np.shape(got["cov"]) == np.shape(case["expect"]["cov"])
    for position, action in enumerate(case["inputs"]["action"]):
        mean, latent = dense_graph_process(case, position)
        np.testing.assert_allclose(got["mean"][position], mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(got["cov"][position], latent, rtol=1e-6, atol=1e-8)
        noise = case["config"]["sigma2"] * np.eye(len(mean))
        normal = scipy.stats.multivariate_normal(mean, latent + noise)
        assert got["log_prob"][position] == pytest.approx(normal.logpdf(action), rel=1e-6)
        assert got["entropy"][position] == pytest.approx(normal.entropy(), rel=1e-6)


def test_golden_files_are_there():
    assert [path.stem for path in FILES] == ["rwgp_kronecker_zero_mean", "rwgp_node"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden_in_float32(path):
    case = load(path)
    config = case["config"]
    given = {k: jnp.asarray(v, jnp.float32) for k, v in case["inputs"].items()}

    def features_of(jobs, machines):
        graph = wp.machine_graph(jobs, machines, config["rho"], config["product"])
        return wp.kernel_features(graph, config["beta"], 16, "centred", "node")

    @jax.jit
    def predicted(given):
        past = features_of(given["shat_hist"], given["sc_hist"]) * given["valid"][..., None, None]
        residual = (given["Y"] - given["mean_hist"]) * given["valid"][..., None]
        seen = jax.tree.map(lambda x: jnp.sum(x, axis=0), wp.evidence(past, residual))
        weights = wp.posterior(seen, jnp.float32(config["sigma2"]))
        features = features_of(given["shat"], given["sc"])
        mean = wp.predict(weights, features, given["mean_now"])
        log_prob, entropy = wp.log_density(weights, features, mean, given["action"])
        covariance = wp.latent_covariance(weights, features)
        return {"mean": mean, "log_prob": log_prob, "entropy": entropy, "cov": covariance}

    for name, value in predicted(given).items():
        np.testing.assert_allclose(value, case["expect"][name], atol=5e-4, err_msg=name)


def precisions(kind, size=9):
    """Positive definite matrices ``[3, size, size]`` in float64, as hard as posteriors get."""
    random = np.random.default_rng(1)
    if kind == "nothing known":
        return np.broadcast_to(np.eye(size), (3, size, size))
    if kind == "any":
        root = random.normal(size=(3, size, size))
        return np.eye(size) + root @ root.swapaxes(-1, -2)
    jobs, machines = random.normal(size=(3, 8, WIDTH)), 0.1 * random.normal(size=(3, 32, WIDTH))
    with jax.enable_x64(True):
        graphs = wp.machine_graph(jnp.asarray(jobs), jnp.asarray(machines), 1.7, "hadamard")
        features = wp.kernel_features(graphs, jnp.asarray(2.0), 2 * (size - 1), "centred", "node")
        return np.eye(size) + np.asarray(wp.gram(features)).sum(axis=1) / 0.05**2


@pytest.mark.parametrize("kind", ["nothing known", "any", "nearly parallel machines"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_inverses_are_those_of_cholesky(kind, dtype):
    matrix = precisions(kind)
    condition = np.linalg.cond(matrix).max()
    assert (condition > 1e5) == (kind == "nearly parallel machines")
    with jax.enable_x64(dtype == "f8"):
        given = jnp.asarray(matrix, dtype)
        root, log_det = jax.jit(wp.inverse_root)(given)
        inverse, same = jax.jit(wp.inverse_and_log_det)(given)
    assert root.dtype == inverse.dtype == log_det.dtype == dtype
    exact = np.linalg.inv(np.linalg.cholesky(matrix))
    tolerance = np.finfo(dtype).eps * (20 + condition / 5)
    np.testing.assert_allclose(root, exact, atol=tolerance)
    np.testing.assert_array_equal(np.triu(root, 1), 0)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), atol=tolerance)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(matrix)[1], atol=tolerance)
    np.testing.assert_array_equal(log_det, same)
    whole = np.asarray(root, float) @ matrix @ np.asarray(root, float).swapaxes(-1, -2)
    np.testing.assert_allclose(whole, np.broadcast_to(np.eye(9), whole.shape), atol=tolerance)


def test_the_gradient_of_inverses_is_that_of_the_library(float64):
    matrix = jnp.asarray(precisions("any"))
    weight = jnp.asarray(np.random.default_rng(2).normal(size=matrix.shape))
    weight = weight + weight.swapaxes(-1, -2)

    def ours(matrix):
        inverse, log_det = wp.inverse_and_log_det(matrix)
        return jnp.sum(weight * inverse) + jnp.sum(jnp.sin(log_det))

    def theirs(matrix):
        return jnp.sum(weight * jnp.linalg.inv(matrix)) + jnp.sum(
            jnp.sin(jnp.linalg.slogdet(matrix)[1])
        )

    np.testing.assert_allclose(jax.grad(ours)(matrix), jax.grad(theirs)(matrix), rtol=1e-9)


def log_prob_of(jobs, machines, rows, rho, beta, noise):
    graph = wp.machine_graph(jobs, machines, rho, "hadamard")
    features = wp.kernel_features(graph, beta, 16, "centred", "node")
    seen = jax.tree.map(
        lambda x: jnp.sum(x, axis=0, keepdims=True), wp.evidence(features[:-1], rows[:-1])
    )
    given = wp.posterior(seen, noise)
    mean = wp.predict(given, features[-1:], jnp.zeros_like(rows[-1:]))
    return jnp.sum(wp.log_density(given, features[-1:], mean, rows[-1:])[0])


GRADIENT = jax.jit(jax.value_and_grad(log_prob_of, argnums=tuple(range(6))))


def scalars(dtype=float):
    return jnp.asarray(1.7, dtype), jnp.asarray(1.0, dtype), jnp.asarray(0.09, dtype)


def test_gradients_are_those_of_finite_differences(float64):
    given = (*embeddings(), *scalars())
    _, gradient = GRADIENT(*given)
    for index, direction in enumerate(gradient):
        shift = 1e-6 * np.sign(direction)
        shifted = [
            float(GRADIENT(*given[:index], given[index] + s * shift, *given[index + 1 :])[0])
            for s in (1, -1)
        ]
        slope = (shifted[0] - shifted[1]) / 2e-6
        np.testing.assert_allclose(slope, np.abs(direction).sum(), rtol=1e-5)


def test_gradients_with_equal_machines_are_finite_and_alike():
    jobs, machines, rows = embeddings(dtype=jnp.float32)
    machines = jnp.broadcast_to(machines[:, :1], machines.shape)
    rows = jnp.broadcast_to(rows[..., :1], rows.shape)
    value, gradient = GRADIENT(jobs, machines, rows, *scalars(jnp.float32))
    assert jnp.isfinite(value)
    for leaf in gradient:
        assert jnp.isfinite(leaf).all()
    np.testing.assert_allclose(gradient[1], 0.0, atol=1e-6)  # no distance changes to first order
    np.testing.assert_allclose(gradient[2], gradient[2][..., :1].repeat(MACHINES, -1), rtol=1e-3)


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("product", ["hadamard", "kronecker"])
def test_equal_machines_far_from_the_others_are_at_distance_zero(product, scale):
    random = np.random.default_rng(5)
    jobs = scale * random.normal(size=(40, 6, WIDTH)).astype("f4")
    machines = scale * random.normal(size=(40, 5, WIDTH)).astype("f4")
    machines[:, 3] = machines[:, 1]
    squared = wp.squared_distances(jnp.asarray(jobs), jnp.asarray(machines), product)
    twins = np.zeros((5, 5), bool)
    twins[[1, 3], [3, 1]] = True
    same = twins | np.eye(5, dtype=bool)
    assert np.all(squared[..., same] == 0) and np.all(squared[..., ~same] > 0)


def test_the_matern_derivative_at_zero():
    value, slope = jax.value_and_grad(wp.matern52)(jnp.float32(0))
    assert (float(value), float(slope)) == (1.0, np.float32(-5 / 6))


def test_float32_stands_much_data_and_the_least_noise():
    random = np.random.default_rng(0)
    steps, machines = 10, 32
    with jax.enable_x64(True):
        jobs = jnp.asarray(random.normal(size=(steps + 1, 2, WIDTH)))
        places = jnp.asarray(0.05 * random.normal(size=(steps + 1, machines, WIDTH)))
        rows = jnp.asarray(random.normal(size=(steps + 1, 2, machines)))
        least = [jnp.asarray(x) for x in (1.7, 2.0, 0.05**2)]
        exact, _ = GRADIENT(jobs, places, rows, *least)
    given = [x.astype(jnp.float32) for x in (jobs, places, rows)]
    value, gradient = GRADIENT(*given, *(x.astype(jnp.float32) for x in least))
    # Up to 4.6e-4 over 30 seeds; at one seed it is the processor's order of sums that decides.
    np.testing.assert_allclose(value, exact, rtol=1e-3)
    assert all(jnp.isfinite(leaf).all() for leaf in gradient)
