import ast
import inspect
import pathlib

import softdiff


def test_everything_public_has_a_docstring_and_a_stub():
    folder = pathlib.Path(softdiff.__file__).parent
    stubs = {}
    for name in ["__init__.pyi", "corruptions.pyi"]:
        for node in ast.parse((folder / name).read_text()).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                stubs[node.name] = node
    for name in softdiff.__all__:
        if name.startswith("__"):
            continue
        assert inspect.getdoc(getattr(softdiff, name)), name
        assert name in stubs, name
    for name, node in stubs.items():
        if not isinstance(node, ast.ClassDef) or name == "Error":
            continue
        documented = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        there = {name for name in vars(getattr(softdiff, name)) if not name.startswith("_")}
        assert there <= documented, (name, there - documented)
        assert {one for one in documented if not one.startswith("_")} <= there, name
    assert (folder / "py.typed").exists()


def test_stubs_have_the_arguments_of_the_functions():
    stub = pathlib.Path(softdiff.__file__).parent / "__init__.pyi"
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
            there = inspect.signature(getattr(softdiff, node.name)).parameters.values()
            assert names == [one.name for one in there if one.kind != one.VAR_KEYWORD], node.name
    model = next(node for node in ast.parse(stub.read_text()).body if getattr(node, "name", "") == "Model")
    for node in model.body:
        if node.decorator_list or node.name.startswith("__"):
            continue
        names = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
        assert names == list(inspect.signature(getattr(softdiff.Model, node.name)).parameters), node.name
