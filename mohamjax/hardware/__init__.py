"""Hardware: accelerator templates, technology tables, and the package."""

from mohamjax.dims import DATA_SPACES
from mohamjax.hardware.arrays import TemplateArrays, resize, template_arrays
from mohamjax.hardware.machine import Architecture, Machine
from mohamjax.hardware.package import (
    PackageParameters,
    PackageTables,
    check_tiles,
    interface_positions,
    load_package,
    mesh_routes,
    nop_energy,
    package_from_dict,
    package_tables,
    package_to_dict,
)
from mohamjax.hardware.technology import (
    COMPONENT_CLASSES,
    DRAM_TYPES,
    Technology,
    component_costs,
    load_technology,
    mac_costs,
    technology_hash,
)
from mohamjax.hardware.template import (
    Component,
    Dataflow,
    Level,
    LevelRule,
    Mac,
    Template,
    fits,
    template_to_dict,
    with_word_bits,
)
from mohamjax.hardware.template_text import describe
from mohamjax.hardware.template_yaml import (
    example_yaml,
    load_template,
    load_templates,
    packaged_templates,
    template_from_dict,
    template_to_yaml,
)

__all__ = [
    "COMPONENT_CLASSES",
    "DATA_SPACES",
    "DRAM_TYPES",
    "Architecture",
    "Component",
    "Dataflow",
    "Level",
    "LevelRule",
    "Mac",
    "Machine",
    "PackageParameters",
    "PackageTables",
    "Technology",
    "Template",
    "TemplateArrays",
    "check_tiles",
    "component_costs",
    "describe",
    "example_yaml",
    "fits",
    "interface_positions",
    "load_package",
    "load_technology",
    "load_template",
    "load_templates",
    "mac_costs",
    "mesh_routes",
    "nop_energy",
    "package_from_dict",
    "package_tables",
    "package_to_dict",
    "packaged_templates",
    "resize",
    "technology_hash",
    "template_arrays",
    "template_from_dict",
    "template_to_dict",
    "template_to_yaml",
    "with_word_bits",
]
