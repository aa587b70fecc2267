# The targets of this project. `make` alone tells what they are.
#
#   GO=go1.26.8       another go command
#   FUZZTIME=1m       how long each fuzz target runs (make fuzz; make test gives each 2s)
#   BENCHTIME=1s      how long each benchmark runs
#   ARGS='…'          arguments for make demo

GO        ?= go
BENCHTIME ?= 200ms
FUZZTIME  ?= 20s

BIN     := bin
SOLOIST := $(BIN)/soloist
LINT    := $(BIN)/tools/golangci-lint
VULN    := $(BIN)/tools/govulncheck
# The directories of all modules of go.work, from the root.
MODULES  = $(shell $(GO) list -m -f '{{.Dir}}' | sed 's|^$(CURDIR)/\{0,1\}||; s|^$$|.|')

.DEFAULT_GOAL := help
.PHONY: help test check fmt vet lint servers unit standalone portable fuzz-short fuzz vuln build demo bench module clean $(SOLOIST)

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Everything that must hold. Cheap things first; each step says how long it took.
test: ## check everything: format, vet, lint, tests with the race detector, each module alone, short fuzzing
	@tools/steps.sh fmt vet lint servers unit standalone portable fuzz-short

check: ## the quick part of test: format, vet, and tests without the race detector
	@tools/steps.sh fmt vet quick

fmt: # fails when gofmt would change something
	@changed=$$(gofmt -l $$(tools/files.sh '*.go')); \
	if [ -n "$$changed" ]; then echo "run gofmt -w on:" $$changed >&2; exit 1; fi

vet:
	@$(GO) vet work

lint: $(LINT) ## run golangci-lint over every module
	@$(LINT) run $(foreach m,$(MODULES),./$(m)/...)

# A program under the race detector sleeps for a second when it ends. The tests start programs by the hundred.
unit:
	@GORACE=atexit_sleep_ms=10 $(GO) test -race -timeout 20m work

servers: ## install the servers that the stores are tested against, where apt-get can
	@tools/servers.sh

.PHONY: quick
quick:
	@$(GO) test work

# With go.work out of the way each module has the versions that its users get.
standalone:
	@for m in $(MODULES); do echo "$$m"; GOWORK=off $(GO) -C $$m build ./... && GOWORK=off $(GO) -C $$m vet ./... || exit 1; done

# The files for other systems at least compile.
portable:
	@for os in darwin windows; do echo "$$os"; GOWORK=off GOOS=$$os $(GO) build ./... || exit 1; done

fuzz-short:
	@tools/fuzz.sh 2s

fuzz: ## run every fuzz target for FUZZTIME (20s)
	@tools/fuzz.sh $(FUZZTIME)

# Not part of test: what it finds depends on the day, and it needs the network.
vuln: $(VULN) ## look for known vulnerabilities in what we depend on
	@tools/vuln.sh $(CURDIR)/$(VULN) $(MODULES)

build: $(SOLOIST) ## build bin/soloist

$(SOLOIST):
	@$(GO) build -o $@ ./cmd/soloist
	@echo "built $@"

demo: $(SOLOIST) ## build bin/soloist and show it at work
	@$(SOLOIST) demo $(ARGS)

bench: ## run the benchmarks of the core and of the stores, BENCHTIME (200ms) each
	@$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) . ./cron ./store/sqlitestore

module: ## rename the module: make module MODULE=example.com/soloist
	@tools/module.sh '$(MODULE)'

clean: ## remove what was built
	@rm -rf $(BIN)

# The tools have a module of their own, outside of go.work. The linter takes some minutes to build, once.
$(LINT): tools/go.mod tools/go.sum
	@echo "building golangci-lint, once; this takes some minutes"
	@GOWORK=off $(GO) -C tools build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

$(VULN): tools/go.mod tools/go.sum
	@GOWORK=off $(GO) -C tools build -o $(CURDIR)/$@ golang.org/x/vuln/cmd/govulncheck
	@touch $@
