"""Manifests as text: what they are read as, and why they are refused."""

import pytest
import yaml

from kubebase.resource_vector import Registry
from pumice.kube.decode.convert import decode
from pumice.kube.decode.manifest_errors import ObjectError


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def describe(registry):
    """The description of a manifest, given as YAML or as a document."""

    def describe(manifest, **options):
        document = yaml.safe_load(manifest) if isinstance(manifest, str) else manifest
        return decode(document, registry=registry, **options)

    return describe


@pytest.fixture
def refusal(describe):
    """The object and the field that a manifest is refused for, and the message."""

    def refusal(manifest):
        with pytest.raises(ObjectError) as refused:
            describe(manifest)
        error = refused.value
        assert str(error) == f"{error.object}: {error.field}: {error.message}"
        return error.object, error.field, error.message

    return refusal
