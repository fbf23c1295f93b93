# recollect on a CPU, as a user without rights (docs/exports.md has the commands).
FROM python:3.12-slim

# Where pip looks besides its usual index. With that of PyTorch's builds for the CPU the image has
# 1.5 GB instead of 5.5 GB.
ARG PIP_EXTRA_INDEX_URL=""

RUN useradd --create-home --uid 1000 recollect \
    && install --directory --owner recollect --group recollect /work

# The packages first: they change less often than the source.
COPY constraints.txt /src/
RUN pip install --no-cache-dir --constraint /src/constraints.txt torch numpy numba matplotlib

COPY pyproject.toml README.md LICENSE /src/
COPY recollect /src/recollect
RUN pip install --no-cache-dir --constraint /src/constraints.txt /src \
    && rm -r /src

# Writable whoever the container is run as.
ENV MPLCONFIGDIR=/tmp/matplotlib \
    NUMBA_CACHE_DIR=/tmp/numba

USER recollect
WORKDIR /work
ENTRYPOINT ["recollect"]
CMD ["--help"]
