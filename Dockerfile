# The image of all components: docker build -t pumice:0.1.0 .
#
# Python, pinned wheels checked by their hashes, and the compiled engine; the compiler stays in the first stage. No shell
# is needed to run, and no process is root.
# A tag can be moved to another image. Pin what you have checked: --build-arg BASE=python:3.13-slim@sha256:...
ARG BASE=python:3.13-slim
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PUMICE_COMPILE=1
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
WORKDIR /src
COPY requirements/runtime.txt requirements/build.txt requirements/compile.txt requirements/
RUN python -m venv /opt/pumice \
 && /opt/pumice/bin/pip install --no-compile --require-hashes -r requirements/runtime.txt \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements/build.txt -r requirements/compile.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY tools/compile_engine.py tools/compile_kernel.py tools/compile_shim.py tools/
COPY src src
# Bytecode is written once, here, and believed from then on (unchecked-hash): layers keep times to the second only, by
# which Python would take most files for changed and compile them anew at every start.
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/pumice/bin/pip install --no-compile --no-deps /wheels/*.whl \
 && /opt/pumice/bin/pip check \
 && /opt/pumice/bin/pip uninstall --yes --quiet pip \
 && find /opt/pumice -type d -name tests -prune -exec rm -r {} + \
 && /opt/pumice/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/pumice/lib

FROM ${BASE}
COPY --from=build /opt/pumice /opt/pumice
# The root filesystem is read-only where it runs: nothing is written but to /tmp.
ENV PATH=/opt/pumice/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 NO_COLOR=1
USER 65532:65532
ENTRYPOINT ["pumice"]
