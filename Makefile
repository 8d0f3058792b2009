# The steps of CI. The targets call .ci/run, so both do the same.
.PHONY: check test race lint kafka fmt ci

check: ## before a review: format, vet, lint, race tests
	SAGALOG_PROOF=full .ci/run format build vet lint race

test: ## the tests of step test; go test ./... also starts processes, at a small size
	.ci/run test

race: ## the tests with the race detector
	SAGALOG_PROOF=full .ci/run race

lint: ## format, vet, staticcheck, govulncheck
	.ci/run format vet lint vuln

kafka: ## the tests on a real Apache Kafka
	.ci/run kafka

fmt: ## formats every file
	gofmt -w $$(git ls-files '*.go')

ci: ## everything that CI runs
	.ci/run
