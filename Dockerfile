# The book and the package on a CPU:
#   docker build -t region-counts .
#   docker run --rm -p 8000:8000 region-counts               builds the book and shows it at http://localhost:8000
#   docker run --rm -it region-counts bash
FROM python:3.12-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends chromium git make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /region-counts
COPY requirements.txt pyproject.toml Makefile README.md LICENSE ./
COPY rc_utils rc_utils
COPY rc_exact rc_exact
RUN make env
COPY . .
EXPOSE 8000
CMD ["make", "serve"]
