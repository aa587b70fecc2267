module github.com/soloist-dev/soloist/test/sim

go 1.26.0

require (
	github.com/soloist-dev/soloist v0.0.0
	github.com/soloist-dev/soloist/internal/proof v0.0.0
)

require github.com/anishathalye/porcupine v1.3.1 // indirect

replace (
	github.com/soloist-dev/soloist => ../..
	github.com/soloist-dev/soloist/internal/proof => ../../internal/proof
)
