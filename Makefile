# The targets of this project. `make` alone tells what they are.
#
#   GO=go1.26.8       another go command
#   FUZZTIME=1000000x on how many inputs each fuzz target runs (make fuzz; make test gives each 20,000), or for how long: 1m
#   BENCHTIME=1s      how long each benchmark runs; 1x is once, of the longest less
#   ARGS='…'          arguments for make demo, bench, mutants and changes
#   N=20000           how many histories make sim runs; SEED=7 runs that one and tells it, with CLOCKLESS=1 on a store without a clock
#   VERSION=0.0.0     the version of packages
#   TIMEOUT=2h        after which the tests of a package are ended, with what each goroutine was waiting for
#   FOR=10m           how long each run of make live takes; OPS=1000000 how many operations of each store it judges;
#                     ELEMENTS=100000 how many elements a fleet takes along that moves

GO        ?= go
BENCHTIME ?= 200ms
FUZZTIME  ?= 200000x
N         ?= 20000
FOR       ?= 10m
OPS       ?= 1000000
ELEMENTS  ?= 100000
VERSION   ?= 0.0.0
TIMEOUT   ?= 2h

BIN     := bin
SOLOIST := $(BIN)/soloist
DIST    := $(BIN)/dist
LINT    := $(BIN)/tools/golangci-lint
VULN    := $(BIN)/tools/govulncheck
# Shows what go test shows, and writes down which tests were skipped.
TEST     = $(GO) run ./test/report bin/unchecked/tests $(GO) test -json
# The directories of all modules of go.work, from the root.
MODULES  = $(shell $(GO) list -m -f '{{.Dir}}' | sed 's|^$(CURDIR)/\{0,1\}||; s|^$$|.|')

.DEFAULT_GOAL := help
.PHONY: help test check fmt vet lint servers unit sim model mutants changes live standalone portable fuzz-short fuzz vuln build man dist packages demo bench pictures module clean $(SOLOIST)

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Everything that must hold. Cheap things first; each step says how long it took.
test: ## check everything: format, vet, lint, tests with the race detector, each module alone, short fuzzing
	@tools/steps.sh fmt vet lint servers unit sim standalone portable fuzz-short

check: ## the quick part of test: format, vet, and without the race detector the tests that do not take long
	@tools/steps.sh fmt vet quick

fmt: # fails when gofmt would change something
	@changed=$$(gofmt -l $$(tools/files.sh '*.go')); \
	if [ -n "$$changed" ]; then echo "run gofmt -w on:" $$changed >&2; exit 1; fi

vet:
	@$(GO) vet work

lint: $(LINT) ## run golangci-lint over every module
	@$(LINT) run --allow-parallel-runners $(foreach m,$(MODULES),./$(m)/...)

# The packages that take longest begin first, so that none of them is left alone at the end. A program under the race detector sleeps for a
# second when it ends, and the tests start programs by the hundred. Most tests wait for a server or a TTL most of the time, so one package more is under
# test than there are processors.
unit:
	@GORACE=atexit_sleep_ms=10 $(TEST) -race -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -timeout $(TIMEOUT) ./test/live ./test/interop work

servers: ## install the servers and tools that the tests need, where apt-get can
	@tools/servers.sh

# Without the race detector, which has its share of histories in unit.
sim: ## simulate N (20000) histories of the client on a bad network and check them, and break what the checks must catch; or SEED=7 alone
	@$(GO) test ./test/sim -run '^TestSimulation$(if $(CLOCKLESS),WithoutAClock,$(if $(SEED),,(WithoutAClock)?))$$$(if $(SEED),,|^TestPositiveControls$$)' -v -count 1 -timeout 0 $(if $(SEED),-sim.seed=$(SEED),-sim.runs=$(N) -sim.procs=2)

model: ## look at every state of a model of the protocol; needs spin
	@$(GO) test ./test/model -v -count 1 -timeout 0

mutants: servers ## put defects into copies of our own code and show that each is caught; some hours, and it resumes where it was broken off
	@$(GO) run ./test/mutants -ledger bin/mutants.jsonl $(ARGS)

changes: ## make small changes to the code of a package, one at a time, and list those that its tests do not notice; ARGS='-n 300 ./cron' tries 300
	@$(GO) run ./test/changes $(ARGS)

live: servers ## real servers under faults, FOR (10m) each, OPS (1000000) operations of each store judged one by one, and what else takes long
	@SOLOIST_TEST_LIVE=1 $(GO) test ./test/live -v -count 1 -timeout 0 -live.for=$(FOR)
	@SOLOIST_TEST_LIVE=1 $(GO) test ./test/histories -v -count 1 -timeout 0 -histories.ops=$(OPS) -histories.racers=300
	@SOLOIST_TEST_LIVE=1 $(GO) test ./cmd/soloist/internal/verify -run '^TestFleetMoves' -v -count 1 -timeout 0 -move.replicas=8 -move.ttl=5s -move.elements=$(ELEMENTS) -move.grants=200 -move.faults=all -move.strikes=5s -move.graves
	@SOLOIST_TEST_LIVE=1 $(GO) test ./deploy -run '^TestDistIsReproducible$$' -v -count 1 -timeout 0
	@SOLOIST_TEST_LIVE=1 $(GO) test ./store/cassandrastore ./store/temporalstore -run '^Test(Cluster|ServerOnPostgreSQL)$$' -v -count 1 -timeout 0

.PHONY: quick
quick:
	@$(TEST) -short work

# With go.work out of the way each module has the versions that its users get.
# Of a module with one command alone, go build would leave the program.
standalone:
	@for m in $(MODULES); do echo "$$m"; GOWORK=off $(GO) -C $$m build -o /dev/null ./... && GOWORK=off $(GO) -C $$m vet ./... || exit 1; done

# The files for other systems at least compile.
portable:
	@for os in darwin windows; do echo "$$os"; GOWORK=off GOOS=$$os $(GO) build ./... || exit 1; done

fuzz-short:
	@tools/fuzz.sh 20000x

fuzz: ## run every fuzz target on FUZZTIME (200000x) inputs
	@tools/fuzz.sh $(FUZZTIME)

# Not part of test: what it finds depends on the day, and it needs the network.
vuln: $(VULN) ## look for known vulnerabilities in what we depend on
	@tools/vuln.sh $(CURDIR)/$(VULN) $(MODULES)

build: $(SOLOIST) ## build bin/soloist

$(SOLOIST):
	@$(GO) build -o $@ ./cmd/soloist
	@echo "built $@"

man: $(SOLOIST) ## write the manual pages into bin/man/man1
	@$(SOLOIST) man $(BIN)/man/man1
	@echo "wrote $(BIN)/man/man1"

# What packages and images have: a program that is linked statically, its manual pages, completions and modules.
dist: ## build what packages and images contain into bin/dist
	@mkdir -p $(DIST)/man1 $(DIST)/completion
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags=-s -o $(DIST)/soloist ./cmd/soloist
	@rm -f $(DIST)/man1/* && $(DIST)/soloist man $(DIST)/man1 && gzip -9n $(DIST)/man1/*.1
	@$(DIST)/soloist completion bash >$(DIST)/completion/soloist.bash
	@$(DIST)/soloist completion zsh >$(DIST)/completion/_soloist
	@$(DIST)/soloist completion fish >$(DIST)/completion/soloist.fish
	@$(GO) run ./deploy/sbom $(DIST)/soloist >$(DIST)/soloist.cdx.json

# Not part of test: nfpm takes a minute to build, once.
packages: dist ## make packages for Debian and for RPM of VERSION (0.0.0) in bin/dist
	@for kind in deb rpm; do VERSION=$(VERSION) ARCH=$$($(GO) env GOARCH) \
		$(GO) run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0 package -f deploy/packages/nfpm.yaml -p $$kind -t $(DIST)/ || exit 1; done

demo: $(SOLOIST) ## build bin/soloist and show it at work
	@$(SOLOIST) demo $(ARGS)

bench: servers ## run the benchmarks of the core and of the stores, BENCHTIME (200ms) each, and then peers side by side
	@$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) $(if $(filter 1x,$(BENCHTIME)),-short) . ./cron ./store/sqlitestore ./bench
	@$(GO) run ./bench $(ARGS)

pictures: servers ## make the pictures of the dashboard for the documentation anew
	@mkdir -p docs/pictures
	@$(GO) test ./test/browser -run '^TestPictures$$' -count 1 -pictures $(CURDIR)/docs/pictures

module: ## rename the module: make module MODULE=example.com/soloist
	@tools/module.sh '$(MODULE)'

clean: ## remove what was built
	@rm -rf $(BIN)

# The tools have their own module, outside of go.work. The linter takes some minutes to build, once.
$(LINT): tools/go.mod tools/go.sum
	@echo "building golangci-lint, once; this takes some minutes"
	@GOWORK=off $(GO) -C tools build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

$(VULN): tools/go.mod tools/go.sum
	@GOWORK=off $(GO) -C tools build -o $(CURDIR)/$@ golang.org/x/vuln/cmd/govulncheck
	@touch $@
