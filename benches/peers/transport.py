"""Sinkhorn by POT and OTT, for `softdiff bench transport`.

Speaks JSON lines: first one object naming the solvers there are and those missing, then one answer per request
{"solver", "cost", "rows", "cols", "entropy", "tolerance", "max_iterations"}, where "cost" is a file of little-endian
float64. Each solver is run once before it is timed, so that compilation is not counted.
"""
import json
import sys
import time

import numpy as np

SOLVERS, MISSING, VERSIONS = {}, {}, {}

try:
    import ot

    VERSIONS["pot"] = ot.__version__

    def pot(method):
        def solve(cost, entropy, tolerance, max_iterations):
            a = np.full(cost.shape[0], 1 / cost.shape[0])
            b = np.full(cost.shape[1], 1 / cost.shape[1])
            plan, log = ot.sinkhorn(
                a, b, cost, entropy, method=method, stopThr=tolerance, numItermax=max_iterations, log=True, warn=False
            )
            return plan, int(log.get("niter", log.get("n_iter", 0)))

        return solve

    SOLVERS["pot"] = pot("sinkhorn_log")
    SOLVERS["pot-kernel"] = pot("sinkhorn")
    SOLVERS["pot-stabilized"] = pot("sinkhorn_stabilized")
except ImportError as error:
    MISSING["pot"] = f"{error}: pip install POT"

try:
    import jax

    jax.config.update("jax_enable_x64", True)
    import ott
    from ott.geometry import geometry
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    VERSIONS["ott"] = ott.__version__
    COMPILED = {}

    def solve_ott(cost, entropy, tolerance, max_iterations):
        key = (tolerance, max_iterations)
        if key not in COMPILED:
            solver = sinkhorn.Sinkhorn(threshold=tolerance, max_iterations=max_iterations)

            def solve(matrix, epsilon):
                out = solver(linear_problem.LinearProblem(geometry.Geometry(cost_matrix=matrix, epsilon=epsilon)))
                return out.f, out.g, out.n_iters

            COMPILED[key] = jax.jit(solve)
        f, g, iterations = jax.block_until_ready(COMPILED[key](cost, entropy))
        # OTT's potentials belong to the plan exp((f + g - C) / epsilon), weights included.
        return (f, g, entropy, cost), int(iterations)

    SOLVERS["ott"] = solve_ott
except ImportError as error:
    MISSING["ott"] = f"{error}: pip install ott-jax"


def plan_of(result):
    if isinstance(result, tuple):
        f, g, entropy, cost = result
        return np.exp((np.asarray(f)[:, None] + np.asarray(g)[None, :] - np.asarray(cost)) / entropy)
    return result


def answer(request):
    cost = np.fromfile(request["cost"], dtype="<f8").reshape(request["rows"], request["cols"])
    solve = SOLVERS[request["solver"]]
    arguments = (request["entropy"], request["tolerance"], request["max_iterations"])
    given = jax.device_put(cost) if request["solver"] == "ott" else cost
    if request.get("warm_up"):
        solve(given, *arguments)
    start = time.perf_counter()
    result, iterations = solve(given, *arguments)
    seconds = time.perf_counter() - start
    plan = plan_of(result)
    with np.errstate(all="ignore"):
        error = np.abs(plan.sum(1) - 1 / cost.shape[0]).sum() + np.abs(plan.sum(0) - 1 / cost.shape[1]).sum()
        linear = (plan * cost).sum()
    finite = lambda value: float(value) if np.isfinite(value) else None
    return {"seconds": seconds, "iterations": iterations, "error": finite(error), "linear": finite(linear)}


print(json.dumps({"solvers": sorted(SOLVERS), "missing": MISSING, "versions": VERSIONS}), flush=True)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
