"""What several of xdist's workers would make, each for itself."""

import fcntl
import os
import pickle


def made_once(factory, name, make):
    """What make() gives, which one worker makes and pickles for all. `factory`
    is pytest's tmp_path_factory; a fixture of a module or a session alone is
    made by each worker that has a test of it."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / f"{name}.pickle").open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if value := file.read():
            return pickle.loads(value)
        value = make()
        pickle.dump(value, file)
        return value
