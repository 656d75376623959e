"""Programs of bench/ in C++: compiled here, without server.  Their sides are what they compare."""
import os
import shutil
import subprocess
from pathlib import Path

from ..errors import BenchError
from ..sides import TOP

OUT = TOP / 'build' / 'bench'
# As the Makefile's release build.
FLAGS = [
    '-std=c++20', '-O2', '-g', '-DNDEBUG', '-flto=auto', '-Wall', '-Wextra',
    '-Wno-missing-field-initializers', '-Iengine', '-Iengine/include'
]


def compiler():
    return os.environ.get('CXX', 'g++')


def call(command, show=False, **options):
    """Its output, or what it shows at once; all of its errors where it fails."""
    command = [str(word) for word in command]
    run = subprocess.run(command, text=True, cwd=TOP, stdout=None if show else subprocess.PIPE,
                         stderr=subprocess.PIPE, **options)
    if run.returncode != 0:
        raise BenchError(
            f"{' '.join(command[:3])} fails\n{((run.stdout or '') + run.stderr)[-4000:]}")
    return run.stdout


def compiles(include):
    """Whether a header is there."""
    return subprocess.run([compiler(), *FLAGS, '-fsyntax-only', '-x', 'c++', '-'], cwd=TOP,
                          text=True, input=f'#include <{include}>\n',
                          capture_output=True).returncode == 0


def compile_object(source, flags, folder):
    """Its object file, compiled if something is newer (ccache: if something is different)."""
    target = OUT / folder / (Path(source).stem + '.o')
    target.parent.mkdir(parents=True, exist_ok=True)
    cache = [shutil.which('ccache')] if shutil.which('ccache') else []
    call([*cache, compiler(), *FLAGS, *flags, '-c', source, '-o', target])
    return target


def threads_case(workload, threads):
    return f'{workload}, {threads} thread' + ('s' if threads > 1 else '')
