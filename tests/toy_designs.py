"""Three evaluated designs of two small networks for the tests of figures, reports and traces."""

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.hardware import PackageParameters, load_technology, load_templates, template_arrays
from mohamjax.mapping import constraints, map_space, space
from mohamjax.schedule import Design, Setup, reevaluate
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape


def toy_designs(technology=None):
    """Three evaluated designs of two small networks: spread out, on one chiplet, and in between.

    Uses the packaged technology if none is given.
    """
    conv = WorkloadShape(K=16, C=8, P=14, Q=14, R=3, S=3)
    dense = WorkloadShape(N=4, K=512, C=256)

    def network(name, shapes):
        kinds = ["conv" if shape is conv else "fc" for shape in shapes]
        return Network(
            name,
            tuple(Layer(f"l{i}", kinds[i], kinds[i], s, 8, (i - 1,) if i else ()) for i, s in enumerate(shapes)),
        )

    application = ApplicationModel("toy", (network("a", [conv, dense]), network("b", [dense, dense, conv])))
    templates = load_templates(["simba", "shidiannao"])
    technology = load_technology() if technology is None else technology
    levels = max(len(t.levels) for t in load_templates())  # as in searches, whose programs evaluate them
    arrays = template_arrays(templates, technology, levels)
    size = 3
    sets = []
    for u, layer in enumerate(application.unique_layers):
        for t, template in enumerate(templates):
            limits = constraints(template, layer.type, layer.shape, levels)
            machine = jax.device_get(jax.tree.map(lambda leaf, t=t: leaf[t], arrays.machine))
            spot = jax.tree.map(jnp.asarray, map_space(layer.shape, limits, machine, 24))
            genes = jax.vmap(space.sample, in_axes=(0, None))(jax.random.split(jax.random.key(9 * u + t), size), spot)
            sets.append(jax.device_get(jax.vmap(space.decode, in_axes=(0, None))(genes, spot)))
    shape = (len(application.unique_layers), len(templates))
    nests = jax.tree.map(lambda *leaves: np.stack(leaves).reshape(*shape, *leaves[0].shape), *sets)
    count = np.full(shape, size, np.int32)
    tiles = 4
    template = np.asarray([[0, 1, -1, 0], [0, -1, -1, -1], [-1, 0, 1, -1]], np.int32)
    assignment = np.asarray([[0, 1, 3, 0, 1], [0, 0, 0, 0, 0], [1, 1, 2, 2, 2]], np.int32)
    unique = np.asarray(application.unique_of_layer)
    kind = np.take_along_axis(template, assignment, axis=1)
    # Interfaces are slow, so that the spread design stalls.
    package = PackageParameters(max_tiles=tiles, interface_bandwidth=0.25, router_area=2e4)

    def evaluate(mapping):
        order = np.tile(np.arange(5, dtype=np.int32), (3, 1))
        designs = Design(order=order, assignment=assignment, mapping=mapping, template=template)
        return reevaluate(Setup(application, templates, technology, package), nests, count, designs)

    fastest = evaluate(np.zeros_like(assignment)).tables.objectives[:, :, :size, 0].argmin(axis=-1)
    return evaluate(fastest[unique[None], kind].astype(np.int32))
