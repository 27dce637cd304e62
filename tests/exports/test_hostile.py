"""Hand-over folders of strangers: refused in one line, in bounded memory, nothing executed."""

import json
import pickle
import shutil
import tracemalloc

import jsonschema
import numpy as np
import pytest

from jaxsched.errors import JaxschedError
from jaxsched.exports import environments, schema
from jaxsched.exports.folder import read_file
from jaxsched.exports.hand_over import load_export
from jaxsched.runs import saved_policies
from jaxsched.systems import registry

MUTANTS = 200
MOST_BYTES = 64 * 2**20  # of memory, for folders of less than one
SHIPPED = [
    saved_policies.pretrained_folder(registry.get(name), policy)
    for name in registry.names()
    for policy in saved_policies.shipped(registry.get(name))
]
FOLDERS = {1: registry.get("chic"), 2: registry.get("das")}
WRONG = (
    None,
    True,
    -1,
    2**40,
    1e400,
    "",
    "../../etc/passwd",
    "x" * 20_000,
    [],
    [[[]]],
    {},
    {"": 0},
)
PARTS = ("manifest.json", "policy.safetensors")


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Shipped folders by version, with few of their golden decisions."""
    base = tmp_path_factory.mktemp("base")
    for version, system in FOLDERS.items():
        path = base / str(version)
        shutil.copytree(saved_policies.pretrained_folder(system), path)
        document = json.loads((path / "manifest.json").read_text())
        golden = document["golden"]
        if version == 2:
            golden["sequences"] = [golden["sequences"][0][:1]]
            document["program"]["steps"] = document["program"]["steps"][:50]
        else:
            golden["rows"] = golden["rows"][:8]
        (path / "manifest.json").write_text(json.dumps(document))
    return lambda version: base / str(version)


def places(node, path=()):
    """Paths of all entries of a document; of long lists the first few."""
    entries = node.items() if isinstance(node, dict) else enumerate(node[:3])
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def changed(document, random):
    """A copy with one entry deleted or replaced."""
    document = json.loads(json.dumps(document))
    known = list(places(document))
    *path, last = known[random.integers(len(known))]
    node = document
    for key in path:
        node = node[key]
    if isinstance(node, dict) and random.random() < 0.3:
        del node[last]
    else:
        node[last] = WRONG[random.integers(len(WRONG))]
    return document


def damaged(data, random):
    """Bytes cut, flipped, doubled or replaced."""
    at = int(random.integers(len(data)))
    length = int(random.integers(1, 9))
    noise = random.bytes(length)
    kinds = [data[:at], data[:at] + noise + data[at + length :], data[:at] + data[at:] * 2,
             noise + data[8:], b"", pickle.dumps({"weights": [1.0]})]  # fmt: skip
    return kinds[random.integers(len(kinds))]


def mutate(folder, number, tmp_path):
    """A folder with one thing wrong."""
    random = np.random.default_rng(number)
    path = tmp_path / "mutant"
    shutil.copytree(folder, path)
    kind = number % 4
    if kind < 2:
        document = changed(json.loads((path / PARTS[0]).read_text()), random)
        (path / PARTS[0]).write_text(json.dumps(document))
    else:
        file = path / PARTS[kind - 2]
        file.write_bytes(damaged(file.read_bytes(), random))
    return path


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("part", range(4))
def test_mutants_are_refused_in_one_line(version, part, folder_of, tmp_path):
    refused = 0
    for number in range(part * MUTANTS // 8, (part + 1) * MUTANTS // 8):
        path = mutate(folder_of(version), number, tmp_path)
        tracemalloc.start()
        try:
            load_export(path, expected={"system": FOLDERS[version].name})
        except JaxschedError as error:  # anything else fails the test
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 600, error
            assert str(path) in str(error)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < MOST_BYTES
        shutil.rmtree(path)
    assert refused >= MUTANTS // 16  # some change what nobody reads, such as a metric


def test_long_files_are_refused_unread(folder_of, tmp_path):
    for name in PARTS:
        path = tmp_path / name
        shutil.copytree(folder_of(1), path)
        with (path / name).open("r+b") as stream:
            stream.truncate(3 * 2**30)  # a hole: takes no room on the disk
        tracemalloc.start()
        with pytest.raises(JaxschedError, match=r"has 3221225472 bytes; accepted: \d+ at most"):
            load_export(path)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
        tracemalloc.stop()


def test_deep_documents_and_other_kinds_of_files_are_refused(folder_of, tmp_path):
    path = tmp_path / "policy"
    shutil.copytree(folder_of(1), path)
    (path / "manifest.json").write_text("[" * 200_000)
    with pytest.raises(JaxschedError, match="manifest.json: cannot be read"):
        load_export(path)
    (path / "manifest.json").write_text('{"format": ' + "9" * 5000 + "}")
    with pytest.raises(JaxschedError, match="manifest.json: cannot be read"):
        load_export(path)
    (path / "manifest.json").unlink()
    (path / "manifest.json").mkdir()
    with pytest.raises(JaxschedError, match="no such file"):
        load_export(path)


def test_other_files_than_the_folders_own_are_not_named(folder_of):
    """A manifest cannot lead a reader anywhere else."""
    for version, named in ((1, "weights"), (2, "weights")):
        document = json.loads((folder_of(version) / "manifest.json").read_text())
        document[named]["file"] = "../policy.safetensors"
        with pytest.raises(JaxschedError, match="weights.file is '../policy.safetensors'; accept"):
            schema.check_document(document, f"policy_{version}")
        document[named]["file"] = "policy.safetensors"
        document["files"] = {"../policy.onnx": {}}
        with pytest.raises(JaxschedError, match="policy.onnx is not accepted here"):
            schema.check_document(document, f"policy_{version}")


@pytest.mark.parametrize("name", ["policy_1", "policy_2", "environment_1"])
def test_schemas_are_json_schemas(name):
    jsonschema.Draft202012Validator.check_schema(schema.schema(name))


@pytest.mark.parametrize(
    "folder", SHIPPED, ids=lambda folder: f"{folder.parent.name}-{folder.name}"
)
def test_shipped_manifests_are_as_their_schema_says(folder):
    document = json.loads((folder / "manifest.json").read_text())
    name = f"policy_{document['format_version']}"
    jsonschema.validate(document, schema.schema(name), jsonschema.Draft202012Validator)
    schema.check_document(document, name)


@pytest.mark.parametrize("version", [1, 2])
def test_our_check_agrees_with_a_library_of_json_schema(version, folder_of):
    whole = json.loads((folder_of(version) / "manifest.json").read_text())
    validator = jsonschema.Draft202012Validator(schema.schema(f"policy_{version}"))
    found = []
    for number in range(60):
        document = changed(whole, np.random.default_rng(number))
        try:
            schema.check_document(document, f"policy_{version}")
            ours = True
        except JaxschedError:
            ours = False
        assert ours == validator.is_valid(document), number
        found.append(ours)
    assert 5 < sum(found) < 55


def test_environments_of_strangers(tmp_path):
    (tmp_path / "environment.json").write_text('{"format": "jaxsched-environment"}')
    with pytest.raises(JaxschedError, match="not a complete environment: the document lacks"):
        environments.read_environment(tmp_path)
    (tmp_path / "environment.json").write_text("[]")
    with pytest.raises(JaxschedError, match="the document is a list of 0 entries; accepted: obj"):
        environments.read_environment(tmp_path)
    with pytest.raises(JaxschedError, match="no such file"):
        read_file(tmp_path / "absent")
